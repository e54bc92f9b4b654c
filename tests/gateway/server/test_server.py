"""The listener: loopback only, one sentence when it cannot, and it stops within its grace while streams are open."""

import asyncio
import contextlib
import socket
import time
from typing import Any

import httpx2
import pytest

from interlock.gateway.rest.streams import abort, bound
from interlock.gateway.server.connections import VIEWER_SEND_BYTES
from interlock.gateway.server.server import STOP_GRACE_S, BindRefused, listen, port_of, serve

pytestmark = pytest.mark.anyio


@pytest.mark.req("L-2", "K-2")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_a_public_address_is_refused_in_one_sentence(host: str) -> None:
    with pytest.raises(BindRefused, match="in clear"):
        listen(host, 0)


def test_an_address_in_use_or_invalid_is_refused_in_one_sentence() -> None:
    taken = listen("127.0.0.1", 0)
    try:
        with pytest.raises(BindRefused, match=r"gateway\.port"):
            listen("127.0.0.1", port_of(taken))
    finally:
        taken.close()
    with pytest.raises(BindRefused, match="not an address"):
        listen("no such host name", 0)


async def test_it_reports_its_port_and_stops_while_a_stream_is_open() -> None:
    ended, opened, stopping = asyncio.Event(), asyncio.Event(), asyncio.Event()
    ports: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def app(scope: object, receive: object, send: object) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})  # type: ignore[operator]
        await send({"type": "http.response.body", "body": b"x", "more_body": True})  # type: ignore[operator]
        opened.set()
        await ended.wait()
        await send({"type": "http.response.body", "body": b"end"})  # type: ignore[operator]

    serving = asyncio.ensure_future(
        serve(app, "localhost", 0, on_stop=ended.set, ready=ports.set_result, stopping=stopping)  # type: ignore[arg-type]
    )
    host = "127.0.0.1"
    async with httpx2.AsyncClient() as http:
        asking = asyncio.ensure_future(http.get(f"http://{host}:{await ports}/"))
        await opened.wait()
        began = time.monotonic()
        stopping.set()
        assert (await asking).text == "xend"
        await serving
        assert time.monotonic() - began < STOP_GRACE_S


@pytest.mark.req("S-4")
async def test_a_stalled_readers_connection_is_closed_with_its_pending_data() -> None:
    ports: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    stopping, let_go = asyncio.Event(), asyncio.Event()
    written = 0

    async def app(scope: Any, _receive: Any, send: Any) -> None:
        nonlocal written
        bound(scope)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None) as stalled:
                while True:
                    stalled.reschedule(asyncio.get_running_loop().time() + 0.2)
                    written += 65_536
                    await send({"type": "http.response.body", "body": b"." * 65_536, "more_body": True})
        assert await abort(scope)
        let_go.set()

    serving = asyncio.ensure_future(
        serve(app, "localhost", 0, on_stop=lambda: None, ready=ports.set_result, stopping=stopping))
    with socket.socket() as frozen:
        frozen.setblocking(False)
        frozen.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(frozen, ("127.0.0.1", await ports))
        await loop.sock_sendall(frozen, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        await let_go.wait()
        got = 0
        reset = False
        while not reset:
            try:
                got += len(await loop.sock_recv(frozen, 1 << 20)) or pytest.fail("it was ended as if it had all")
            except ConnectionResetError:
                reset = True
        assert got < written - 65_536
        assert written < 4 * VIEWER_SEND_BYTES
    stopping.set()
    await serving
