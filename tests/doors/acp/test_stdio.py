"""Standard input and output as the pipes of an editor: complete lines in and out, and the ends of both."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from interlock.doors.acp import stdio
from interlock.doors.acp.stdio import Stdio
from interlock.ports.process import LineTooLong

pytestmark = pytest.mark.anyio


class Editor:
    """The editor's ends of the pipes: what it writes to, and what it reads from."""

    def __init__(self, to_write: int, from_read: int, pipes: Stdio) -> None:
        self.to_write, self.from_read, self.pipes = to_write, from_read, pipes
        self._open = {to_write, from_read}

    def close(self, end: int) -> None:
        """Close one of them, once: its number may be another file's afterwards."""
        if end in self._open:
            self._open.remove(end)
            os.close(end)


@asynccontextmanager
async def started(patch: pytest.MonkeyPatch) -> AsyncGenerator[Editor]:
    """Both ends, with this process's standard input and output as those of `interlock acp`."""
    to_read, to_write = os.pipe()
    from_read, from_write = os.pipe()
    with os.fdopen(to_read, "rb", buffering=0) as stdin, os.fdopen(from_write, "wb", buffering=0) as stdout:
        with patch.context() as patching:
            patching.setattr(sys, "stdin", stdin)
            patching.setattr(sys, "stdout", stdout)
            pipes = await Stdio.open()
        editor = Editor(to_write, from_read, pipes)
        try:
            yield editor
        finally:
            pipes._writer.close()  # pyright: ignore[reportPrivateUsage]
            reading: Any = pipes._reader  # pyright: ignore[reportPrivateUsage]
            reading._transport.close()
            for end in (to_write, from_read):
                editor.close(end)
            await asyncio.sleep(0)


async def test_lines_are_read_until_the_editor_closes_and_written_completely(monkeypatch: pytest.MonkeyPatch) -> None:
    async with started(monkeypatch) as editor:
        os.write(editor.to_write, b"one\ntwo\n")
        editor.close(editor.to_write)

        assert [line async for line in editor.pipes.lines()] == [b"one\n", b"two\n"]
        await editor.pipes.write(b"back\n")
        assert os.read(editor.from_read, 100) == b"back\n"


async def test_a_line_that_is_too_long_ends_the_connection_with_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "MAX_LINE_BYTES", 16)
    async with started(monkeypatch) as editor:
        os.write(editor.to_write, b"x" * 100 + b"\n")

        with pytest.raises(LineTooLong):
            await anext(aiter(editor.pipes.lines()))


async def test_a_file_instead_of_a_pipe_gives_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "file").open("w+b") as file, monkeypatch.context() as patching:
        patching.setattr(sys, "stdin", file)
        with pytest.raises(ValueError, match="Standard input is not a pipe"):
            await Stdio.open()


async def test_an_editor_that_stops_reading_breaks_the_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    async with started(monkeypatch) as editor:
        editor.close(editor.from_read)

        async def write_on() -> None:
            for _ in range(100):
                await editor.pipes.write(b"x" * 65_536 + b"\n")

        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            await write_on()
