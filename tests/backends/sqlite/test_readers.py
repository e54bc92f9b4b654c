"""Reads beside the writer: they see what was committed, cannot write, and end with the ledger."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from interlock.backends.sqlite.connect import open_writer
from interlock.backends.sqlite.faults import SqliteClosed
from interlock.backends.sqlite.readers import SqliteReaders
from interlock.ports.ledger import LedgerError

pytestmark = pytest.mark.anyio


async def test_a_read_sees_each_commit_that_was_made_before_it(tmp_path: Path) -> None:
    writer = open_writer(tmp_path / "ledger.db")
    readers = SqliteReaders(tmp_path / "ledger.db")
    try:
        writer.execute("CREATE TABLE seen (n)")
        for n in range(3):
            writer.execute("INSERT INTO seen VALUES (?)", (n,))
            counted = await asyncio.gather(*(readers.row("SELECT count(*) FROM seen") for _ in range(4)))
            assert counted == [(n + 1,)] * 4
        assert await readers.rows("SELECT n FROM seen WHERE n > ? ORDER BY n", 0) == [(1,), (2,)]
        assert await readers.row("SELECT n FROM seen WHERE n = 9") is None
        assert await readers.several([("SELECT 1", ()), ("SELECT 2", ())]) == [[(1,)], [(2,)]]
    finally:
        readers.close()
        writer.close()


async def test_a_reader_cannot_write_and_raises_the_ports_error(tmp_path: Path) -> None:
    writer = open_writer(tmp_path / "ledger.db")
    readers = SqliteReaders(tmp_path / "ledger.db")
    try:
        with pytest.raises(LedgerError):
            await readers.rows("CREATE TABLE other (n)")
        with pytest.raises(LedgerError):
            await readers.rows("SELECT nonsense")
    finally:
        readers.close()
        writer.close()


async def test_a_closed_ledger_raises_its_error(tmp_path: Path) -> None:
    open_writer(tmp_path / "ledger.db").close()
    readers = SqliteReaders(tmp_path / "ledger.db")
    readers.close()

    with pytest.raises(SqliteClosed, match="is closed"):
        await readers.rows("SELECT 1")
    readers.close()
