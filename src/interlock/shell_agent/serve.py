"""The program: one ACP connection on stdin and stdout, from its first byte to the end of input or a signal."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys

from interlock.protocol.limits import MAX_CHILD_LINE_BYTES
from interlock.shell_agent.agent import ShellAgent
from interlock.shell_agent.connection import NotAcp, stdio

CLOSE_TIMEOUT_S = 1.0
"""Time for sending pending data after the end of input; what is not sent by then is dropped, since the peer may not
read it."""
STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def serve_stdio() -> int:
    """Serve until the end of input (0), a signal (which then ends the process), or input that is not ACP (1)."""
    if not all(_is_stream(descriptor) for descriptor in (0, 1)):
        print(
            "error: standard input and output must be pipes with ACP; a runner starts this program that way.",
            file=sys.stderr,
        )
        return 2
    received = asyncio.run(_serve())
    if received is not None and received > 0:
        # Ending by the signal itself shows the parent the true reason.
        signal.signal(received, signal.SIG_DFL)
        os.kill(os.getpid(), received)
    return 0 if received is None else 1


def _is_stream(descriptor: int) -> bool:
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


async def _serve() -> int | None:
    """Serve; return the number of the signal that ended it, -1 for a broken input, None for the end of input."""
    # asyncio's own limit of 64 KiB per line is too small.
    connection = await stdio(MAX_CHILD_LINE_BYTES)
    agent = ShellAgent(connection)
    listening = asyncio.create_task(connection.listen(agent.methods()))
    stopped: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    for number in STOPPING:
        asyncio.get_running_loop().add_signal_handler(number, _resolve, stopped, number)
    await asyncio.wait([listening, stopped], return_when=asyncio.FIRST_COMPLETED)
    await agent.close()
    broken = listening.exception() if listening.done() else None
    if isinstance(broken, NotAcp):
        print(f"error: {broken}", file=sys.stderr)
    listening.cancel()
    try:
        await asyncio.wait_for(connection.close(), CLOSE_TIMEOUT_S)
    except TimeoutError:
        connection.abort()
    return stopped.result() if stopped.done() else -1 if broken is not None else None


def _resolve(stopped: asyncio.Future[int], number: int) -> None:
    if not stopped.done():
        stopped.set_result(number)
