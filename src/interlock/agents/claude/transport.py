"""The SDK's transport to Claude Code's program: JSON lines over a process that the runner supervises (A-4, A-8)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import msgspec
from claude_agent_sdk import ProcessError, Transport

from interlock.ports.agent import ProcessExit
from interlock.ports.process import LineTooLong, Process
from interlock.protocol.json_form import fault_of
from interlock.protocol.limits import MAX_AGENT_DEPTH

END_GRACE_S = 2.0
"""Time for the program to write its conversation to disk after the end of its input; then it is terminated."""
OVERFLOW = "interlock_overflow"
"""Subtype of the `system` message that replaces a line above the cap."""

_decode = msgspec.json.Decoder().decode


class SupervisedTransport(Transport):
    """One process, from its start to its end. Lines are read only as fast as the SDK consumes them (D-3)."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._closed = False
        self._in_handshake = True
        """Whether the SDK's handshake is under way: until it is done, it must receive an end at once, as an error."""
        self.garbage = 0

    async def connect(self) -> None:
        """Do nothing: the process runs already."""

    def end_handshake(self) -> None:
        """Note that the SDK's handshake is done."""
        self._in_handshake = False

    async def write(self, data: str) -> None:
        """Write one line. Raises BrokenPipeError if the program no longer reads."""
        await self._process.write(data.encode())

    def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        """Yield the program's messages, line by line; a line that is not a JSON object is counted and skipped."""
        return self._messages()

    async def _messages(self) -> AsyncIterator[dict[str, Any]]:
        lines = self._process.lines()
        while True:
            try:
                line = await anext(lines)
            except StopAsyncIteration:
                break
            except LineTooLong as error:
                yield {"type": "system", "subtype": OVERFLOW, "text": str(error)}
                continue
            message = _read(line)
            if message is None:
                self.garbage += 1 if line.strip() else 0
            else:
                yield message
        if self._in_handshake:
            raise ProcessError("Claude Code ended before it was ready", exit_code=(await self.end()).code)

    async def end(self) -> ProcessExit:
        """Close its input so that it ends, then end it and all its descendants (A-4)."""
        if not self._closed:
            self._closed = True
            self._process.resume()
            self._process.close_input()
            await asyncio.wait([asyncio.ensure_future(self._process.exited())], timeout=END_GRACE_S)
        return await self._process.terminate()

    async def close(self) -> None:
        """Do what the SDK requests at its end."""
        await self.end()

    async def end_input(self) -> None:
        """Close the program's input."""
        self._process.close_input()

    def is_ready(self) -> bool:
        """Return whether the program can be written to."""
        return not self._closed and self._process.exit is None


def _read(line: bytes) -> dict[str, Any] | None:
    try:
        message = _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    fits = isinstance(message, dict) and fault_of(line, MAX_AGENT_DEPTH) is None
    return cast("dict[str, Any]", message) if fits else None
