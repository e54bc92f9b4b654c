"""Waiting for a program under test to be at work."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import Process


async def until_first_call(called: asyncio.Event, process: Process) -> None:
    """Wait until a process of its own calls for the first time, however long a busy machine takes to load it. Raises
    AssertionError if it ends before."""
    calling, ending = asyncio.ensure_future(called.wait()), asyncio.ensure_future(process.wait())
    try:
        await asyncio.wait([calling, ending], return_when=asyncio.FIRST_COMPLETED)
    finally:
        calling.cancel()
        ending.cancel()
    assert called.is_set(), f"it ended with {process.returncode}"
