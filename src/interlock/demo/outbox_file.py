"""Read the runner's outbox from outside: its file, read only, while the runner writes it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

LOOK_S = 0.02
"""Interval at which the file is read while waiting."""
_SESSION = "SELECT key, last_seq, acked_seq FROM session WHERE session_id = ?"
_WAITING = "SELECT type FROM frame WHERE session = ? AND seq > ? ORDER BY seq"


class OutboxState(NamedTuple):
    """One session in it. `last_seq` counts the durable frames made; `waiting` are the types of those that the gateway
    has not acknowledged."""

    last_seq: int
    acked_seq: int
    waiting: tuple[str, ...]


def look(path: Path, session_id: str) -> OutboxState:
    """Read a session's figures; zeros if there is none."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5)) as database:
        database.execute("BEGIN")
        row = database.execute(_SESSION, (session_id,)).fetchone()
        if row is None:
            return OutboxState(0, 0, ())
        key, last_seq, acked_seq = row
        types = tuple(str(one) for (one,) in database.execute(_WAITING, (key, acked_seq)))
        return OutboxState(last_seq, acked_seq, types)


async def look_until(path: Path, session_id: str, fits: Callable[[OutboxState], bool]) -> OutboxState:
    """Read repeatedly until the state fits; the caller sets the time limit."""
    # Another process writes the file, so there is no event to wait for.
    while True:
        found = look(path, session_id)
        if fits(found):
            return found
        await asyncio.sleep(LOOK_S)
