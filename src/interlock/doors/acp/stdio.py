"""Standard input and output as the pipes of a JSON-RPC connection."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator

from interlock.ports.process import LineTooLong

MAX_LINE_BYTES = 32 * 1024 * 1024
"""A line of the editor, images of a prompt included."""


class Stdio:
    """This process's standard input and output. Created by `open`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls) -> Stdio:
        """Connect to both. Raises ValueError if one of them is neither a pipe nor a socket."""
        for name, stream in (("Standard input", sys.stdin), ("Standard output", sys.stdout)):
            mode = os.fstat(stream.fileno()).st_mode
            if not stat.S_ISFIFO(mode) and not stat.S_ISSOCK(mode):
                raise ValueError(f"{name} is not a pipe, and an editor starts `interlock acp` with pipes")
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=MAX_LINE_BYTES)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        # A separate descriptor: the transport makes it non-blocking and closes it.
        output = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
        transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, output)
        transport.set_write_buffer_limits(high=0)  # `drain` waits for the pipe: nothing is left to lose at the end.
        return cls(reader, asyncio.StreamWriter(transport, protocol, None, loop))

    async def write(self, data: bytes) -> None:
        """Write whole lines. Raises BrokenPipeError when the editor no longer reads."""
        if self._writer.is_closing():
            raise BrokenPipeError("the editor has closed the pipe")
        self._writer.write(data)
        await self._writer.drain()

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield the editor's lines. Raises LineTooLong instead of one above MAX_LINE_BYTES, and ends there."""
        while True:
            try:
                line = await self._reader.readline()
            except ValueError:
                raise LineTooLong(MAX_LINE_BYTES) from None
            if not line:
                return
            yield line
