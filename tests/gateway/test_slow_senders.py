"""Slow request bodies: refused and ended, while complete requests are answered."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from interlock.gateway.server.connections import SenderTimeouts
from interlock.gateway.server.server import UNREAD_TIMEOUT_MS, GatewayServer, listen, make_server, port_of

pytestmark = pytest.mark.anyio


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answer with the body once all of it is there; nothing where the sender went."""
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body, more = body + message["body"], message["more_body"]
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


class Port(int):
    """A port, with the server that listens on it."""

    server: GatewayServer


@asynccontextmanager
async def listening(timeouts: SenderTimeouts, app: Any = echo, unread_ms: int = UNREAD_TIMEOUT_MS
                    ) -> AsyncIterator[Port]:
    listener = listen("127.0.0.1", 0, unread_ms=unread_ms)
    server = make_server(app, lambda: None, timeouts=timeouts)
    serving = asyncio.ensure_future(server.serve([listener]))
    port = Port(port_of(listener))
    port.server = server
    try:
        yield port
    finally:
        server.should_exit = True
        await serving
        listener.close()


HEAD = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\n"


@pytest.mark.req("F-1")
@pytest.mark.parametrize("begun", [b"", b"POST / HT", HEAD[:-2], HEAD, HEAD + b"abc",
                                   HEAD + b"abcd" + b"GET / HTTP/1.1\r\nHo"])
async def test_a_request_that_does_not_arrive_in_time_is_408_and_closed(begun: bytes) -> None:
    async with listening(SenderTimeouts(head_s=0.1, body_s=0.1)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(begun)
        response = await asyncio.wait_for(reader.read(), 10)
        whole = begun.startswith(HEAD + b"abcd")
        assert response.startswith(b"HTTP/1.1 200" if whole else b"HTTP/1.1 408")
        assert response.count(b"HTTP/1.1 408 Request Timeout") == 1
        assert b'"code":"RequestTimeout"' in response
        writer.close()


@pytest.mark.req("F-1")
async def test_sending_single_bytes_does_not_extend_the_deadline() -> None:
    async with listening(SenderTimeouts(head_s=0.2, body_s=10)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)

        async def trickle() -> None:
            while True:
                writer.write(b"a")
                await asyncio.sleep(0.01)

        trickling = asyncio.ensure_future(trickle())
        assert (await asyncio.wait_for(reader.readline(), 10)).startswith(b"HTTP/1.1 4")
        trickling.cancel()
        writer.close()


@pytest.mark.req("F-1")
async def test_each_request_of_a_connection_has_its_own_deadline() -> None:
    async with listening(SenderTimeouts(head_s=0.5, body_s=0.5)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(3):
            writer.write(HEAD + b"abcd")
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
            assert await reader.readexactly(4) == b"abcd"
        writer.close()
