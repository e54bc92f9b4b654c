"""The line that shows the progress of a running command: seconds, tokens, tool (Y-6)."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from interlock.cli.display.terminal import is_terminal, transient
from interlock.cli.display.values import span
from interlock.cli.tasks.screen import Screen

EVERY_S = 1.0


def status_line(screen: Screen, seconds: float) -> str:
    """Return the known parts: time, tokens of the turn, and the running tool, otherwise the activity of the command."""
    tokens = f"{screen.tokens:,} tokens" if screen.tokens else ""
    return " · ".join(part for part in (span(seconds), tokens, screen.current_tool() or screen.status_word()) if part)


@asynccontextmanager
async def turn_status(screen: Screen, every_s: float = EVERY_S) -> AsyncGenerator[None]:
    """Show the line from the first second on, if both outputs are a terminal; it is removed by the next output, and
    finally at the end. Nothing is shown while a line is open or a question is."""
    if not (is_terminal(sys.stdout) and is_terminal(sys.stderr)):
        yield
        return
    began = time.monotonic()

    async def show() -> None:
        while True:
            await asyncio.sleep(every_s)
            if screen.is_free:
                transient(status_line(screen, time.monotonic() - began))

    shown = asyncio.create_task(show())
    try:
        yield
    finally:
        shown.cancel()
        transient(None)
