"""Requests to the API inside of the gateway: streamed, and safe to abandon (O-7, O-9)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from interlock.gateway.rest.internal_rest import CHUNKS_WAITING, InternalRest, ResponseCut

pytestmark = [pytest.mark.anyio, pytest.mark.req("O-7", "O-9")]
OUTER: dict[str, Any] = {"type": "http", "method": "POST", "path": "/outer", "query_string": b"a=1",
                         "headers": [(b"host", b"gateway"), (b"content-type", b"text/plain"), (b"accept", b"*/*")]}


def api(app: ASGIApp) -> InternalRest:
    return InternalRest(app, OUTER)


async def test_a_request_has_its_own_path_and_body_and_the_connection_of_the_outer_one() -> None:
    seen: list[Scope] = []

    async def echo(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope)
        body = (await receive())["body"]
        await send({"type": "http.response.start", "status": 201, "headers": [(b"x", b"y")]})
        await send({"type": "http.response.body", "body": body})

    response = await api(echo).send("POST", "/inner", b"b=2", [(b"accept", b"application/json")], b"[1]")
    assert (response.status, response.headers, await response.read()) == (201, [(b"x", b"y")], b"[1]")
    await response.close()
    [scope] = seen
    assert (scope["method"], scope["path"], scope["query_string"]) == ("POST", "/inner", b"b=2")
    assert scope["headers"] == [(b"host", b"gateway"), (b"accept", b"application/json")]


async def test_a_stream_that_is_not_read_stalls_and_one_that_is_left_ends() -> None:
    written = 0
    ended = asyncio.Event()

    async def endless(_scope: Scope, _receive: Receive, send: Send) -> None:
        nonlocal written
        try:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            while True:
                await send({"type": "http.response.body", "body": b"x", "more_body": True})
                written += 1
        finally:
            ended.set()

    response = await api(endless).send("GET", "/stream")
    chunks = response.chunks()
    assert await anext(chunks) == b"x"
    assert written <= CHUNKS_WAITING + 1
    await response.close()
    assert ended.is_set()


async def test_a_change_completes_after_its_caller_disconnects() -> None:
    begun, go_on, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow(_scope: Scope, _receive: Receive, send: Send) -> None:
        begun.set()
        await go_on.wait()
        await send({"type": "http.response.start", "status": 202, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})
        done.set()

    sending = asyncio.create_task(api(slow).send("POST", "/commands"))
    await begun.wait()
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    go_on.set()
    await asyncio.wait_for(done.wait(), 5)


async def test_a_failure_is_raised_before_the_response_and_cuts_it_afterwards() -> None:
    async def failing(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise ValueError("no")

    async def cut(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})

    with pytest.raises(ValueError, match="no"):
        await api(failing).send("GET", "/")
    response = await api(cut).send("GET", "/")
    with pytest.raises(ResponseCut):
        await response.read()
    await response.close()
