"""`AsyncInterlock` against a gateway's listener, over connections that break (M-1, S-1)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from interlock.sdk import (
    AsyncInterlock,
    Lost,
    Reattached,
    RetryPolicy,
    StillRunning,
    StreamEvent,
    Unreachable,
    problems,
)
from small_gateway.running import Gateway, running

QUICK = RetryPolicy(draw=lambda: -1.0)
"""Waits for nothing between attempts."""


@pytest.fixture
async def gateway(anyio_backend: str) -> AsyncIterator[Gateway]:
    async with running(30.0) as there:
        yield there


LONG = ("text/event-stream", "application/x-ndjson")


class Breaking(httpx2.AsyncBaseTransport):
    """Carries requests, and loses the answers that `loses` names by their number, which the gateway gave all the same.
    The first long response is cut after the given number of its blocks."""

    def __init__(self, loses: frozenset[int] = frozenset(), cuts_after: int | None = None) -> None:
        self._inner = httpx2.AsyncHTTPTransport()
        self._loses = loses
        self.cuts_after = cuts_after
        self.requests: list[httpx2.Request] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        response = await self._inner.handle_async_request(request)
        if len(self.requests) in self._loses:
            await response.aread()
            raise httpx2.ReadError("the answer was lost")
        if self.cuts_after is not None and response.headers["content-type"].startswith(LONG):
            whole, self.cuts_after = self.cuts_after, None
            return httpx2.Response(response.status_code, headers=response.headers, stream=_Cut(response, whole))
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Cut(httpx2.AsyncByteStream):
    def __init__(self, response: httpx2.Response, after: int) -> None:
        self._response = response
        self._after = after

    async def __aiter__(self) -> AsyncIterator[bytes]:
        got = b""
        async for chunk in self._response.stream:  # type: ignore[union-attr]
            got += chunk
            if got.count(b"\n") > self._after:
                yield got
                raise httpx2.ReadError("the connection was cut")

    async def aclose(self) -> None:
        await self._response.aclose()


@asynccontextmanager
async def awaited(gateway: Gateway, transport: httpx2.AsyncBaseTransport | None = None, role: str = "owner"
                  ) -> AsyncIterator[AsyncInterlock]:
    async with AsyncInterlock(gateway.base, f"ilk_default_{role}", retries=QUICK, transport=transport) as there:
        yield there


@pytest.mark.req("M-1")
@pytest.mark.anyio
async def test_a_change_whose_response_is_lost_is_made_once(gateway: Gateway) -> None:
    breaking = Breaking(loses=frozenset({1, 2}))
    async with awaited(gateway, breaking) as there:
        command = await there.commands.submit("hello", agent="shell")
    keys = {request.headers["idempotency-key"] for request in breaking.requests}
    assert (len(breaking.requests), len(keys), gateway.desk.made) == (3, 1, 1)
    assert command.idempotency_key in keys


@pytest.mark.req("S-1", "S-3")
@pytest.mark.anyio
async def test_an_interrupted_status_stream_continues_without_gap_or_repeat(gateway: Gateway) -> None:
    async with awaited(gateway, Breaking(cuts_after=3)) as there:
        command = await there.commands.submit("hello", agent="shell")
        received: list[Any] = []
        async for one in there.commands.follow(command.id):
            received.append(one)
            if isinstance(one, Reattached):
                await gateway.desk.finish(command.id)
    events = [one.data.state or one.data.event if isinstance(one, StreamEvent) else type(one) for one in received]
    assert events == ["queued", Lost, Reattached, "succeeded", "result"]
    cursors = [one.cursor for one in received if isinstance(one, StreamEvent)]
    assert len(set(cursors)) == 3


@pytest.mark.anyio
async def test_a_wait_ends_with_the_command_or_raises_if_it_still_runs(gateway: Gateway) -> None:
    async with awaited(gateway) as there:
        command = await there.commands.submit("hello", agent="shell")
        with pytest.raises(StillRunning) as still:
            await there.commands.wait(command.id, within_s=0)
        assert (still.value.command_id, still.value.state) == (command.id, "queued")
        waiting = asyncio.ensure_future(there.commands.wait(command.id))
        await gateway.desk.finish(command.id)
        assert (await waiting).state == "succeeded"


@pytest.mark.req("F-1")
@pytest.mark.anyio
async def test_a_gateway_may_be_asked_to_wait_for_the_end(gateway: Gateway) -> None:
    async with awaited(gateway) as there:
        with pytest.raises(problems.Timeout) as out:
            await there.commands.submit("hello", agent="shell", wait_s=0, idempotency_key="the-same-key-again")
        command_id = str(out.value.location).rpartition("/")[2]
        await gateway.desk.finish(command_id)
        ended = await there.commands.submit("hello", agent="shell", wait_s=5, idempotency_key="the-same-key-again")
        assert (ended.id, ended.state) == (command_id, "succeeded")


@pytest.mark.anyio
async def test_every_page_of_a_list_is_read_as_it_is_needed(gateway: Gateway) -> None:
    breaking = Breaking()
    async with awaited(gateway, breaking) as there:
        made = [(await there.commands.submit(str(n), agent="shell")).id for n in range(5)]
        assert [one.id async for one in there.commands.every(limit=2)] == made[::-1]
        before = len(breaking.requests)
        async for one in there.commands.every(limit=2):
            assert one.id == made[-1]
            break
        assert len(breaking.requests) == before + 1


@pytest.mark.anyio
async def test_refusals_are_exceptions_that_name_the_place(gateway: Gateway) -> None:
    async with awaited(gateway) as there:
        with pytest.raises(problems.InvalidPayload) as refused:
            await there.commands.list(limit=1000)
        assert refused.value.errors[0].pointer == "limit"
        with pytest.raises(problems.NotFound):
            await there.commands.get("cmd/../../x?y#z")
    async with awaited(gateway, role="viewer") as viewer:
        with pytest.raises(problems.Forbidden):
            await viewer.audit.read()
    async with AsyncInterlock(gateway.base, "ilk_wrong") as stranger:
        with pytest.raises(problems.Unauthorized):
            await stranger.status()


@pytest.mark.req("U-5")
@pytest.mark.anyio
async def test_a_long_response_is_read_in_pieces_and_a_truncated_one_is_an_error(gateway: Gateway) -> None:
    await gateway.desk.audit(3)
    async with awaited(gateway) as there:
        export = b"".join([piece async for piece in there.audit.export()])
        assert export.count(b"\n") == 5  # Three records, the export's own, and the checkpoint.
        assert (await there.audit.checkpoint()).startswith(b"interlock.audit/gw_1/default\n4\n")
    async with awaited(gateway, Breaking(cuts_after=0)) as there:
        with pytest.raises(Unreachable, match="broke off"):
            assert [piece async for piece in there.audit.export()] == []
    async with awaited(gateway, role="viewer") as viewer:
        with pytest.raises(problems.Forbidden):
            await anext(viewer.audit.export())


@pytest.mark.anyio
@pytest.mark.req("Y-11")
async def test_a_renewable_key_is_requested_for_each_request(gateway: Gateway) -> None:
    asked: list[str] = []

    def key() -> str:
        asked.append("ilk_default_owner")
        return asked[-1]

    async with AsyncInterlock(gateway.base, key) as client:
        assert (await client.whoami()).roles
        assert (await client.whoami()).roles
    assert len(asked) == 2
