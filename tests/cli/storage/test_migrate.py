"""`interlock migrate`: the steps it names before a gateway starts on the moved ledger (U-2)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from app.data_migration.test_tenant_move import CLOCK, filled
from interlock.backends.postgres.database import shown
from interlock.backends.sqlite.ledger import open_ledger
from interlock.cli.config.place import OnHost
from interlock.cli.exit_status import ExitStatus
from interlock.cli.storage.migrate import migrate
from interlock.cli.verb_error import Trouble

pytestmark = [pytest.mark.req("U-2"), pytest.mark.usefixtures("logs_as_before")]


def test_the_reverse_migration_names_what_the_new_directory_lacks(
    tmp_path: Path, empty_database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    there, back = OnHost(tmp_path / "there"), OnHost(tmp_path / "back")

    async def fill() -> None:
        there.made_directory()
        ledger = await open_ledger(there.directory() / "ledger.db", CLOCK)
        await filled(ledger, there.directory(), "acme")
        await ledger.close()

    asyncio.run(fill())
    assert migrate(to=empty_database, where=there) == ExitStatus.DONE
    assert "keys, checkpoints and config stay in this directory" in capsys.readouterr().err
    back.made_directory()
    (back.directory() / "interlock.toml").touch()
    assert migrate(from_=empty_database, where=back) == ExitStatus.DONE
    printed = capsys.readouterr().err
    assert "of gateway.key, gateway.pub, owner.key, audit, objects; without their key and checkpoints" in printed
    assert "keys, checkpoints and config stay" not in printed
    assert migrate(from_=empty_database, where=back) == ExitStatus.DONE
    again = capsys.readouterr()
    assert (again.out, again.err) == (
        f"everything of the ledger at {shown(empty_database)} is in {back.directory()} already: nothing is left to "
        "move\n", "")
    other = OnHost(tmp_path / "other")
    (other.made_directory() / "ledger.db").touch()
    with pytest.raises(Trouble, match="has a ledger or transcripts already, so nothing was moved"):
        migrate(from_=empty_database, where=other)
