"""The runner's outbox read from outside: its figures, and waiting until they fit."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from interlock.demo.outbox_file import OutboxState, look, look_until


def made(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(
            "CREATE TABLE session (key, session_id, last_seq, acked_seq); CREATE TABLE frame (session, seq, type);"
            "INSERT INTO session VALUES (1, 'a', 3, 1), (2, 'b', 9, 9);"
            "INSERT INTO frame VALUES (1, 1, 'x'), (1, 3, 'z'), (1, 2, 'y'), (2, 9, 'other')")


def test_unacknowledged_frames_are_the_waiting_ones(tmp_path: Path) -> None:
    made(tmp_path / "outbox.db")

    assert look(tmp_path / "outbox.db", "a") == OutboxState(3, 1, ("y", "z"))
    assert look(tmp_path / "outbox.db", "b") == OutboxState(9, 9, ())
    assert look(tmp_path / "outbox.db", "none") == OutboxState(0, 0, ())


@pytest.mark.anyio
async def test_the_outbox_is_read_again_until_it_is_consistent(tmp_path: Path) -> None:
    made(tmp_path / "outbox.db")

    def acknowledge(state: OutboxState) -> bool:
        if state.waiting:
            with closing(sqlite3.connect(tmp_path / "outbox.db")) as database, database:
                database.execute("UPDATE session SET acked_seq = acked_seq + 1 WHERE session_id = 'a'")
        return not state.waiting

    async with asyncio.timeout(30):
        assert await look_until(tmp_path / "outbox.db", "a", acknowledge) == OutboxState(3, 3, ())
