"""One address before several gateways of this machine: each connection goes to one that answers (C-4).

For trying a cluster and for its tests; where people rely on one, a load balancer of their own stands there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

LOOK_S = 0.5
"""Each gateway is asked so often whether it still answers."""
PATIENCE_S = 1.0
"""One that takes longer is taken for dead until it answers again: its connections are cut, new ones go elsewhere."""
CHUNK_BYTES = 65_536
ASKED = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


class _Behind:
    """One gateway, and the connections that lead to it."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.answers = True
        self.writers: set[asyncio.StreamWriter] = set()

    async def ask(self, *, speaks_tls: bool) -> None:
        """Look whether it answers; one that does not loses its connections."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                try:
                    if not speaks_tls:
                        writer.write(ASKED)
                        await writer.drain()
                        await reader.readexactly(4)
                finally:
                    writer.close()
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            self.answers = False
            for writer in self.writers:
                writer.transport.abort()
            return
        self.answers = True


class Balancer:
    """Listens on a port of loopback until it is stopped."""

    def __init__(self, ports: Sequence[int], *, speaks_tls: bool) -> None:
        self._behind = [_Behind(port) for port in ports]
        self._speaks_tls = speaks_tls
        self._next = 0
        self._server: asyncio.Server | None = None
        self._looking: asyncio.Task[None] | None = None

    async def start(self, port: int) -> int:
        """Listen; 0 takes a free port. Returns the port. Raises OSError."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        self._looking = asyncio.create_task(self._look(), name="balancer")
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Take no more, and cut what there is."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        if self._server is not None:
            self._server.close()
            for behind in self._behind:
                for writer in behind.writers:
                    writer.transport.abort()

    async def _look(self) -> None:
        while True:
            await asyncio.gather(*(behind.ask(speaks_tls=self._speaks_tls) for behind in self._behind))
            await asyncio.sleep(LOOK_S)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for behind in self._in_turn():
            try:
                there_reader, there_writer = await asyncio.open_connection("127.0.0.1", behind.port)
            except OSError:
                continue
            behind.writers |= {writer, there_writer}
            try:
                await asyncio.gather(_pass_on(reader, there_writer), _pass_on(there_reader, writer))
            finally:
                behind.writers -= {writer, there_writer}
                for one in (writer, there_writer):
                    one.close()
            return
        writer.close()

    def _in_turn(self) -> list[_Behind]:
        """Those that answer, beginning with the next one; the others last, for all may only be slow."""
        self._next += 1
        at = self._next % len(self._behind)
        turned = self._behind[at:] + self._behind[:at]
        return sorted(turned, key=lambda one: not one.answers)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
