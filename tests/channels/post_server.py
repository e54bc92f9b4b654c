"""A loopback HTTP server that stores posted bodies and answers as a test specifies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple


class Posted(NamedTuple):
    """One request: its first line without the version, its headers by lower-case name, its body."""

    line: str
    headers: dict[str, str]
    body: bytes


class PostServer:
    """`status` is what the next requests are answered with."""

    def __init__(self) -> None:
        self.status = 200
        self.headers: dict[str, str] = {}
        """Further headers of the next answers."""
        self.url = ""
        self.got: list[Posted] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in
                       (line.partition(":") for line in head[1:] if line)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
        except asyncio.IncompleteReadError:
            # A sender that is cancelled leaves a request that never came whole: there is nothing to answer.
            writer.close()
            return
        self.got.append(Posted(head[0].rsplit(" ", 1)[0], headers, body))
        more = "".join(f"{name}: {value}\r\n" for name, value in self.headers.items())
        writer.write(f"HTTP/1.1 {self.status} X\r\n{more}content-length: 2\r\nconnection: close\r\n\r\n{{}}".encode())
        await writer.drain()
        writer.close()


@asynccontextmanager
async def post_server() -> AsyncIterator[PostServer]:
    """Serve on a free port."""
    kept = PostServer()
    server = await asyncio.start_server(kept.serve, "127.0.0.1", 0)
    kept.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield kept
