"""`interlock migrate --tenant`: what it prints, and what it asks for (K-1, U-2)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from app.data_migration.test_tenant_move import CLOCK, filled
from interlock.backends.postgres.database import read_settings
from interlock.backends.postgres.ledger import open_ledger as open_in_postgres
from interlock.backends.sqlite.ledger import open_ledger
from interlock.cli.config.place import Where
from interlock.cli.exit_status import ExitStatus
from interlock.cli.storage.migrate import migrate
from interlock.cli.verb_error import Trouble

pytestmark = [pytest.mark.req("K-1", "U-2"), pytest.mark.usefixtures("logs_as_before")]


@pytest.fixture
def asked(tmp_path: Path, empty_database: str) -> dict[str, Any]:
    """The options that move a suspended tenant, but for its name."""

    async def fill() -> None:
        (tmp_path / "a").mkdir()
        ledger = await open_ledger(tmp_path / "a" / "ledger.db", CLOCK)
        await filled(ledger, tmp_path / "a", "acme", "works", suspended="acme")
        await ledger.close()
        there = await open_in_postgres(read_settings(empty_database), CLOCK)
        await filled(there, tmp_path / "b")
        await there.close()

    asyncio.run(fill())
    return {"to": empty_database, "to_state": tmp_path / "b", "at": "https://b.example",
            "where": Where(state=tmp_path / "a")}


def test_the_move_prints_its_plan_moves_and_prints_the_result(
    asked: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert migrate(tenant="acme", dry_run=True, **asked) == ExitStatus.DONE
    planned = capsys.readouterr().out.removesuffix("\n")
    assert planned.startswith("would move acme to https://b.example: ")
    assert "304 audit records with the root " in planned

    assert migrate(tenant="acme", **asked) == ExitStatus.DONE
    moved = capsys.readouterr()
    assert moved.out == planned.replace("would move", "moved") + ", checked on both sides\n"
    assert "copy the 1 stored files" in moved.err

    assert migrate(tenant="acme", json=True, **asked) == ExitStatus.DONE
    printed = capsys.readouterr()
    report = json.loads(printed.out)
    assert "postgres_may_lose_what_it_acknowledged" in printed.err, "the test's server has fsync off"
    assert (report["tenant_id"], report["to"], report["audit_records"], report["dry_run"]) == (
        "acme", "https://b.example", 304, False)


def test_a_refusal_gives_one_sentence(asked: dict[str, Any]) -> None:
    with pytest.raises(Trouble, match="The tenant works is not suspended") as refused:
        migrate(tenant="works", **asked)
    assert refused.value.code == "LedgerUnusable"
    with pytest.raises(Trouble, match="There is no tenant nobody"):
        migrate(tenant="nobody", **asked)


@pytest.mark.parametrize(("options", "sentence"), [
    ({"tenant": "acme", "to": None}, "Name with --to"),
    ({"tenant": "acme", "to_state": None}, "needs the signing key"),
    ({"tenant": "acme", "to_state": Path("/nowhere")}, "needs the signing key"),
    ({"tenant": None, "to": "postgresql://x/y", "dry_run": True}, "belong to --tenant"),
])
def test_missing_options_are_reported_before_anything_is_opened(
    tmp_path: Path, options: dict[str, Any], sentence: str
) -> None:
    (tmp_path / "ledger.db").touch()
    with pytest.raises(Trouble, match=sentence) as refused:
        migrate(**{"to": "postgresql://x/y", **options}, where=Where(state=tmp_path))
    assert refused.value.status == ExitStatus.USAGE
