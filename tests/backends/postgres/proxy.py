"""A proxy between a gateway and PostgreSQL that breaks the link at a point chosen by a test."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qs, urlsplit

from interlock.backends.postgres.database import PostgresSettings

Break = Literal["before", "after", "late", "stalled"]
WRITER = re.compile(rb"w_[0-9a-f]{24}")
"""The id of a ledger's writer, as a statement that commits by itself carries it."""


class Proxy:
    """A Unix socket in `directory` that leads to the server. `on_commit` is how the next commits fare, in order: the
    link breaks before the server has it, or after the server has done it and before its answer is received; or the
    server gets it only once `late` is set. If `stalled` it gets it as late, and the link does not break."""

    def __init__(self, directory: Path, server: Path) -> None:
        self.url = f"postgresql://interlock@/{{}}?host={directory}"
        self.on_commit: list[Break] = []
        self.down = False
        self.keeps_ends = False
        """The server's data is passed on, but not that it then closed the connection."""
        self.late, self.arrived = asyncio.Event(), asyncio.Event()
        """Lets a late commit through; is set when the server has answered it."""
        self._path = directory / ".s.PGSQL.5432"
        self._server = server / ".s.PGSQL.5432"
        self._open = set[asyncio.StreamWriter]()
        self._tasks = set[asyncio.Task[None]]()

    async def start(self) -> None:
        self._listener = await asyncio.start_unix_server(self._serve, self._path)

    async def stop(self) -> None:
        self._listener.close()
        self.cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Break all links immediately."""
        for one in self._open:
            one.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.down:
            writer.transport.abort()
            return
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        up_reader, up_writer = await asyncio.open_unix_connection(self._server)
        self._open |= {writer, up_writer}
        answers = asyncio.create_task(self._copy(up_reader, writer))
        with suppress(OSError):
            while data := await reader.read(65_536):
                commits = b"COMMIT\0" in data or (data[:1] == b"B" and WRITER.search(data) is not None)
                if commits and self.on_commit:
                    when = self.on_commit.pop(0)
                    answers.cancel()
                    await asyncio.wait([answers])
                    if when == "after":
                        up_writer.write(data)
                        await up_reader.read(65_536)
                    if when in ("late", "stalled"):
                        if when == "late":
                            writer.transport.abort()
                        await self.late.wait()
                        up_writer.write(data)
                        await up_reader.read(65_536)
                        self.arrived.set()
                    break
                up_writer.write(data)
        for one in (writer, up_writer):
            one.transport.abort()
            self._open.discard(one)
        answers.cancel()
        await asyncio.wait([answers])
        self._tasks.discard(task)

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                writer.write(data)
            if not self.keeps_ends:
                writer.close()


@asynccontextmanager
async def proxied(database: PostgresSettings, directory: Path) -> AsyncIterator[Proxy]:
    """A proxy before the server of a database; its `url` names that database."""
    address = urlsplit(database.dsn)
    between = Proxy(directory, Path(parse_qs(address.query)["host"][0]))
    between.url = between.url.format(address.path.strip("/"))
    await between.start()
    try:
        yield between
    finally:
        await between.stop()
