"""`Interlock` against a gateway's listener: the same as the awaiting client, on the thread that calls (M-1, S-1)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from interlock.sdk import Interlock, RetryPolicy, StreamEvent, Unreachable, problems
from small_gateway.running import Gateway, running

QUICK = RetryPolicy(draw=lambda: -1.0)
"""Waits for nothing between attempts."""


@pytest.fixture
async def gateway(anyio_backend: str) -> AsyncIterator[Gateway]:
    async with running(30.0) as there:
        yield there


def blocking(gateway: Gateway, calls: Callable[[Interlock], Any]) -> Any:
    def run() -> Any:
        with Interlock(gateway.base, "ilk_default_owner", retries=QUICK) as there:
            return calls(there)

    return asyncio.to_thread(run)


@pytest.mark.anyio
async def test_the_blocking_client_has_the_same_results(gateway: Gateway) -> None:
    def calls(there: Interlock) -> list[Any]:
        command = there.commands.submit("hello", agent="shell")
        loop.call_soon_threadsafe(lambda: finishing.append(asyncio.ensure_future(gateway.desk.finish(command.id))))
        events = [one.data.event for one in there.commands.follow(command.id) if isinstance(one, StreamEvent)]
        with pytest.raises(problems.NotFound):
            there.approvals.get("apr_none")
        return [events, there.commands.wait(command.id).state, [one.id for one in there.commands.every(limit=1)],
                b"".join(there.audit.export()).count(b"\n"), there.whoami().principal.id, there.ready().ok]

    loop, finishing = asyncio.get_running_loop(), []
    events, state, listed, lines, identity, ready = await blocking(gateway, calls)
    assert events == ["state", "state", "result"]
    assert (state, len(listed), lines, identity, ready) == ("succeeded", 1, 2, "owner", True)


@pytest.mark.anyio
async def test_an_abandoned_stream_is_closed(gateway: Gateway) -> None:
    def calls(there: Interlock) -> Iterator[Any]:
        command = there.commands.submit("hello", agent="shell")
        following = there.commands.follow(command.id)
        first = next(following)
        following.close()
        return first

    first = await blocking(gateway, calls)
    assert isinstance(first, StreamEvent)
    assert first.data.state == "queued"


def test_an_unreachable_gateway_is_reported_in_one_sentence() -> None:
    with Interlock("http://127.0.0.1:9", "ilk_k", retries=RetryPolicy(attempts=2, draw=lambda: -1.0)) as there, \
            pytest.raises(Unreachable, match="No gateway answers GET /v1/status"):
        there.status()


@pytest.mark.anyio
@pytest.mark.req("Y-11")
async def test_a_renewable_key_is_requested_for_each_request(gateway: Gateway) -> None:
    asked: list[str] = []

    def key() -> str:
        asked.append("ilk_default_owner")
        return asked[-1]

    def twice() -> None:
        with Interlock(gateway.base, key) as there:
            assert there.whoami().roles
            assert there.whoami().roles

    await asyncio.to_thread(twice)
    assert len(asked) == 2
