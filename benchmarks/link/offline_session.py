"""A runner's session without a link: outbox on disk, outflow, journal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import uuid
from collections.abc import AsyncGenerator
from pathlib import Path

from interlock.app.place import SystemClock
from interlock.backends.memory.outbox import MemoryOutbox
from interlock.backends.outbox.sqlite import SqliteOutbox
from interlock.ports.outbox import Outbox
from interlock.protocol.limits import MIB
from interlock.runner.journal import Journal
from interlock.runner.link.outflow import Outflow
from interlock.runner.session_state import SessionState

OUTBOX_BYTES = 1024 * MIB
"""More than any benchmark writes: nothing is to be held back or lost here."""


@contextlib.asynccontextmanager
async def offline_session(folder: Path | None) -> AsyncGenerator[tuple[Journal, Outflow]]:
    """A journal whose frames are written to an outbox in `folder`, or to one in memory."""
    outbox: Outbox = MemoryOutbox(limit_bytes=OUTBOX_BYTES)
    if folder is not None:
        outbox = SqliteOutbox(folder / "outbox.db", limit_bytes=OUTBOX_BYTES)
    outflow = Outflow(outbox, clock=SystemClock(), entropy=os.urandom, outbox_bytes=OUTBOX_BYTES)
    session_id = str(uuid.uuid4())
    await outbox.open_session(session_id, 0, b"")
    flowing = asyncio.create_task(outflow.run())
    try:
        yield Journal(session_id, SessionState(), outflow, SystemClock(), os.urandom), outflow
    finally:
        flowing.cancel()
        await asyncio.gather(flowing, return_exceptions=True)
        await outbox.close()
