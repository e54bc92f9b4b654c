"""`audit verify` on the state directory of `up --cluster`: its database is found, whether it runs or not."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from interlock.app import own_database as own
from interlock.app.checkpoints import open_sink
from interlock.app.data_migration.departure import mark
from interlock.app.own_database import DATA, DIRECTORY, GATEWAY_PREFIX, database_place, state_of_gateway
from interlock.app.own_servers import ServerMissing, start_postgres
from interlock.app.place import SystemClock
from interlock.backends.postgres.database import read_settings
from interlock.backends.postgres.ledger import open_ledger
from interlock.cli.audit import audit_verbs
from interlock.cli.config.place import Where
from interlock.cli.exit_status import ExitStatus
from interlock.cli.verb_error import Trouble
from interlock.config import AuditSection
from interlock.gateway.audit.checkpoints import CheckpointSigner
from interlock.gateway.audit.settings_audit import note_policy
from interlock.gateway.audit.signing_key import load_or_make_key

pytestmark = pytest.mark.req("U-5", "C-4")


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """A state directory as `up --cluster` leaves it, before its database is made."""
    (tmp_path / DIRECTORY).mkdir()
    load_or_make_key(tmp_path)
    place = database_place(tmp_path)
    place.mkdir(mode=0o755, exist_ok=True)
    place.chmod(0o755)
    yield tmp_path
    shutil.rmtree(place, ignore_errors=True)


async def record_something(state: Path, url: str) -> None:
    """Write one audit record and sign the log, as a gateway does."""
    clock = SystemClock()
    ledger = await open_ledger(read_settings(url), clock)
    await note_policy(ledger, clock, "default", [])
    signer = CheckpointSigner(ledger, load_or_make_key(state), await ledger.gateway_id(),
                              open_sink(state, AuditSection(), clock))
    await signer.sign_tenant("default")
    await ledger.close()


def report(state: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    """What `audit verify --json --state` prints."""
    assert audit_verbs.verify(json=True, where=Where(state=state)) == ExitStatus.DONE
    return msgspec.json.decode(capsys.readouterr().out.splitlines()[-1])


def test_the_log_is_verified_with_a_running_and_a_stopped_cluster(
        state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = database_place(state)
    server = start_postgres(place, durable=False)
    one_gateway = state / DIRECTORY / f"{GATEWAY_PREFIX}1"
    one_gateway.mkdir()
    try:
        asyncio.run(record_something(state, server.url))
        assert report(state, capsys)["records"] == 1
        assert report(one_gateway, capsys)["records"] == 1
        assert server.process.poll() is None, "a database that runs is left running"
    finally:
        server.stop()
    assert report(state, capsys)["records"] == 1
    assert not (place / DATA / "postmaster.pid").exists(), "one that was started for it is stopped"


def test_a_database_that_cannot_start_gives_one_sentence_with_the_command_to_run(
        state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (database_place(state) / DATA).mkdir()
    (database_place(state) / DATA / "PG_VERSION").write_text("18\n")

    def missing(place: Path) -> None:
        raise ServerMissing("PostgreSQL is not installed here.")

    monkeypatch.setattr(own, "start_postgres", missing)
    with pytest.raises(Trouble) as refused:
        audit_verbs.verify(where=Where(state=state))
    assert refused.value.sentence == ("The database of this cluster does not run, and could not be started: "
                                      "PostgreSQL is not installed here.")
    assert refused.value.remedy == f"Start it with: interlock up --cluster 1 --state {state}"


def test_only_a_local_clusters_gateway_leads_to_another_directory(state: Path) -> None:
    (database_place(state) / DATA).mkdir()
    (database_place(state) / DATA / "PG_VERSION").write_text("18\n")
    assert state_of_gateway(state / DIRECTORY / f"{GATEWAY_PREFIX}2") == state
    assert state_of_gateway(state) == state
    alone = state / "elsewhere" / f"{GATEWAY_PREFIX}2"
    assert state_of_gateway(alone) == alone


def test_a_directory_with_a_moved_ledger_names_the_place_of_the_log(state: Path) -> None:
    mark(state, "postgresql://me@db/interlock", "moved")
    with pytest.raises(Trouble) as refused:
        audit_verbs.verify(where=Where(state=state))
    assert refused.value.sentence == (
        f'The ledger of {state} was moved to postgresql://me@db/interlock: set store = "postgresql://me@db/interlock" '
        f"below [cluster] in {state / 'interlock.toml'} (or give --store), or move it into another directory with "
        "`interlock migrate --from … --state …`.")


def test_a_directory_without_such_a_database_is_read_as_before(state: Path) -> None:
    with pytest.raises(Trouble, match="There is no ledger at"):
        audit_verbs.verify(where=Where(state=state))
