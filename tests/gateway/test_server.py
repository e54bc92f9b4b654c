"""The listener: loopback only, one sentence when it cannot, and it stops within its grace while streams are open."""

import asyncio
import time

import httpx2
import pytest

from interlock.gateway.server import STOP_GRACE_S, BindRefused, listen, port_of, serve

pytestmark = pytest.mark.anyio


@pytest.mark.req("L-2", "K-2")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_a_public_address_is_refused_in_one_sentence(host: str) -> None:
    with pytest.raises(BindRefused, match="in clear"):
        listen(host, 0)


def test_an_address_that_is_taken_or_none_is_one_sentence() -> None:
    taken = listen("127.0.0.1", 0)
    try:
        with pytest.raises(BindRefused, match=r"gateway\.port"):
            listen("127.0.0.1", port_of(taken))
    finally:
        taken.close()
    with pytest.raises(BindRefused, match="no address"):
        listen("no such host name", 0)


async def test_it_says_its_port_and_stops_while_a_stream_is_open() -> None:
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
