"""An address with `sslmode` is held to it: requests go to the right server, over TLS."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import pytest

from certificates import Certificates, certificates
from interlock.backends.postgres.database import first_connection, read_settings
from interlock.backends.postgres.faults import NotReached

pytestmark = pytest.mark.anyio
SSL_REQUEST = (8).to_bytes(4, "big") + (80877103).to_bytes(4, "big")
"""The message by which a client requests TLS from a PostgreSQL server."""


class Front:
    """PostgreSQL on a port of loopback: by TLS with a certificate, or without, as its build here has none of it."""

    def __init__(self, server: str, paper: Certificates) -> None:
        self._socket = Path(parse_qs(urlsplit(server).query)["host"][0]) / ".s.PGSQL.5432"
        self._name = urlsplit(server).path
        self.paper: Certificates | None = paper
        self.in_clear = 0
        self._tasks = set[asyncio.Task[Any]]()

    async def start(self) -> None:
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._listener.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        self._listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def url(self, query: str = "", host: str = "localhost") -> str:
        return f"postgresql://interlock:secret@{host}:{self.port}{self._name}{query}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        up_reader, up_writer = await asyncio.open_unix_connection(self._socket)
        with suppress(OSError, asyncio.IncompleteReadError):
            greeting = await reader.readexactly(8)
            if greeting == SSL_REQUEST and self.paper is not None:
                writer.write(b"S")
                reader, writer = await _by_tls(writer, self.paper)
            elif greeting == SSL_REQUEST:
                writer.write(b"N")
            else:
                self.in_clear += 1
                up_writer.write(greeting)
            answers = asyncio.create_task(_copy(up_reader, writer))
            await _copy(reader, up_writer)
            answers.cancel()
            await asyncio.wait([answers])
        for one in (writer, up_writer):
            one.transport.abort()


async def _by_tls(
    writer: asyncio.StreamWriter, paper: Certificates
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(paper.cert, paper.key)
    reader, loop = asyncio.StreamReader(), asyncio.get_running_loop()
    protocol = asyncio.StreamReaderProtocol(reader)
    transport = await loop.start_tls(writer.transport, protocol, context, server_side=True)
    assert transport is not None
    protocol.connection_made(transport)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
        writer.close()


class Place(NamedTuple):
    front: Front
    ca: Path
    other_ca: Path


@pytest.fixture
async def place(postgres_server: str, tmp_path: Path) -> AsyncIterator[Place]:
    paper, other = certificates(tmp_path / "own", "localhost"), certificates(tmp_path / "other", "localhost")
    front = Front(postgres_server, paper)
    await front.start()
    yield Place(front, paper.ca, other.ca)
    await front.stop()


async def test_an_address_with_the_servers_authority_is_reached_by_tls(place: Place) -> None:
    for query in ("?sslmode=require", f"?sslmode=verify-ca&sslrootcert={place.ca}",
                  f"?pooled=1&sslmode=verify-full&sslrootcert={place.ca}"):
        connection = await first_connection(read_settings(place.front.url(query)))
        assert await connection.fetchval("SELECT 1") == 1
        await connection.close()
    assert place.front.in_clear == 0


async def test_a_server_of_another_authority_or_name_is_refused_in_one_sentence(place: Place) -> None:
    for url in (place.front.url(f"?sslmode=verify-full&sslrootcert={place.other_ca}"),
                place.front.url(f"?sslmode=verify-full&sslrootcert={place.ca}", host="127.0.0.1"),
                place.front.url(f"?sslmode=verify-ca&sslrootcert={place.other_ca}")):
        with pytest.raises(NotReached) as refused:
            await first_connection(read_settings(url))
        sentence = str(refused.value)
        assert "certificate is not trusted" in sentence
        assert "sslrootcert" in sentence
        assert "secret" not in sentence
        assert "\n" not in sentence
    assert place.front.in_clear == 0


async def test_a_server_without_tls_is_refused_if_the_address_requires_it(place: Place) -> None:
    place.front.paper = None
    for mode in ("require", f"verify-full&sslrootcert={place.ca}"):
        with pytest.raises(NotReached, match="does not speak TLS, and sslmode asks for it"):
            await first_connection(read_settings(place.front.url(f"?sslmode={mode}")))
    assert place.front.in_clear == 0
    connection = await first_connection(read_settings(place.front.url("?sslmode=disable")))
    await connection.close()
    assert place.front.in_clear == 1


@pytest.mark.parametrize(("query", "expected"), [
    ("?sslmode=nonsense", "sslmode"), ("?sslmode=verify-full&sslrootcert=/none/ca.pem", "no such file|No such file"),
])
async def test_an_invalid_tls_setting_in_the_address_is_reported(place: Place, query: str, expected: str) -> None:
    with pytest.raises(NotReached, match=expected):
        await first_connection(read_settings(place.front.url(query)))
