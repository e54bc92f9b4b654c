"""A forwarded request is answered in time, and its repetition returns the outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from clusters.street import Street, eventually, street
from engine.cluster.test_cluster import opened
from interlock.engine.membership import Elsewhere
from interlock.gateway.rest import forwarder
from interlock.gateway.rest.answers import HttpResponse
from interlock.gateway.rest.forwarder import (
    ANSWER_WAIT_MS,
    FORWARD_DEADLINE_S,
    HOP_S,
    WITHIN_S,
    ForwardedRequest,
    Forwarding,
    answer_sent,
)
from interlock.gateway.rest.request.authentication import HOPS
from interlock.ports.bus import BusError, BusTimeout, CutOff, NoResponder
from interlock.ports.ledger import LedgerError, Receipt, WriteBatch
from interlock.protocol.problems import Problem

pytestmark = [pytest.mark.anyio, pytest.mark.req("C-4", "M-1")]
KEY = "key-of-a-slow-command"
HANGS_S = 120
"""By the loop's clock, far more than the deadline of a request."""


def request(**more: Any) -> dict[str, Any]:
    """The scope of a change."""
    return {"method": "POST", "path": "/v1/commands", "query_string": b"", "headers": [], "client": None, **more}


async def elsewhere(_guess: bool) -> ASGIApp:
    raise Elsewhere("i_other")


class LoopClock:
    """The clock of the running loop, which can be set forward: timers that are due by then fire at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        loop, self._ahead_s = asyncio.get_running_loop(), 0.0
        now = loop.time
        monkeypatch.setattr(loop, "time", lambda: now() + self._ahead_s)

    def skip(self, seconds: float) -> None:
        self._ahead_s += seconds


@pytest.fixture
async def clock(monkeypatch: pytest.MonkeyPatch) -> LoopClock:
    monkeypatch.setattr(forwarder, "AGAIN_S", 0.001)
    return LoopClock(monkeypatch)


class Others:
    """Gateways that fail: `errors` are raised by the first questions, and each later one has no answer in its time."""

    def __init__(self, clock: LoopClock, errors: Sequence[BusError] = ()) -> None:
        self._clock = clock
        self._errors = list(errors)
        self.waits_ms: list[int] = []
        self.sent: list[ForwardedRequest] = []

    async def ask(self, _instance_id: str, _what: str, raw: bytes, wait_ms: int) -> bytes:
        self.waits_ms.append(wait_ms)
        self.sent.append(msgspec.msgpack.decode(raw, type=ForwardedRequest))
        if self._errors:
            raise self._errors.pop(0)
        self._clock.skip(wait_ms / 1000)
        raise BusTimeout("The gateway i_other did not answer in time.")


async def refused(others: Others, here: Callable[[bool], Awaitable[ASGIApp]] = elsewhere, **more: Any) -> Problem:
    """The 503 that such a request is answered with."""
    with pytest.raises(Problem) as raised:
        await asyncio.wait_for(Forwarding(others.ask).answer(request(**more), b"", here), HANGS_S)
    problem = raised.value
    assert (problem.code, problem.headers) == ("Unavailable", {"Retry-After": "2"})
    return problem


async def test_all_attempts_together_wait_no_longer_than_the_deadline(clock: LoopClock) -> None:
    others = Others(clock)
    problem = await refused(others)

    assert len(others.waits_ms) == 2
    assert others.waits_ms[0] == ANSWER_WAIT_MS
    assert sum(others.waits_ms) <= FORWARD_DEADLINE_S * 1000
    assert "Whether it was done is not known" in problem.detail
    assert "same idempotency key" in (problem.hint or "")


async def test_a_forwarded_request_waits_no_longer_than_its_sender(clock: LoopClock) -> None:
    others = Others(clock)
    await refused(others, **{HOPS: 1, WITHIN_S: 10.0})

    assert len(others.waits_ms) == 1
    assert 0 < others.waits_ms[0] <= 10_000
    assert [one.within_ms for one in others.sent] == others.waits_ms
    assert {one.hops for one in others.sent} == {2}


async def test_the_receiving_gateway_has_less_time_than_the_sending_one() -> None:
    scopes = list[Any]()

    async def rest(scope: Scope, receive: Receive, send: Send) -> None:
        scopes.append(scope)
        await HttpResponse(b"", 200, [])(scope, receive, send)

    await answer_sent(rest, msgspec.msgpack.encode(
        ForwardedRequest("GET", "/v1/status", b"", [], "", b"", hops=1, within_ms=10_000)))
    assert scopes[0][WITHIN_S] == 10 - HOP_S


@pytest.mark.parametrize(("errors", "done"), [
    ([BusTimeout("No answer."), CutOff("NATS")], "Whether it was done is not known"),
    ([CutOff("NATS")] * 2, "Nothing was done"),
], ids=["after a question that may have arrived", "and nothing was asked"])
async def test_a_lost_bus_reports_whether_the_request_may_have_been_done(
        clock: LoopClock, monkeypatch: pytest.MonkeyPatch, errors: list[BusError], done: str) -> None:
    monkeypatch.setattr(forwarder, "BUS_GIVE_UP_S", 0.0)
    problem = await refused(Others(clock, errors))

    assert done in problem.detail
    assert "NATS does not answer" in problem.detail


async def test_a_request_begun_here_continues_after_its_deadline(clock: LoopClock) -> None:
    go_on, done = asyncio.Event(), asyncio.Event()

    async def here(guess: bool) -> ASGIApp:
        if guess:
            raise Elsewhere("i_dead")
        clock.skip(FORWARD_DEADLINE_S)
        await go_on.wait()
        done.set()
        return HttpResponse(b"", 202, [])

    problem = await refused(Others(clock, [NoResponder("No one serves it now.")]), here)
    assert "Whether it was done is not known" in problem.detail

    go_on.set()
    await asyncio.wait_for(done.wait(), HANGS_S)


async def test_an_abandoned_request_leaves_no_work_begun_here(clock: LoopClock) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def here(guess: bool) -> ASGIApp:
        if guess:
            raise Elsewhere("i_dead")
        try:
            begun.set()
            return await asyncio.get_running_loop().create_future()
        finally:
            ended.set()

    answering = asyncio.create_task(Forwarding(Others(clock, [NoResponder("")]).ask).answer(request(), b"", here))
    await asyncio.wait_for(begun.wait(), 20)
    answering.cancel()
    await asyncio.wait_for(ended.wait(), 20)


async def never(_guess: bool) -> ASGIApp:
    return await asyncio.get_running_loop().create_future()


@pytest.mark.parametrize(("sent", "within_s"), [({}, FORWARD_DEADLINE_S), ({HOPS: 1, WITHIN_S: 10.0}, 10.0)],
                         ids=["by a client", "by another gateway"])
async def test_work_done_here_is_awaited_until_the_deadline(
        clock: LoopClock, sent: dict[str, Any], within_s: float) -> None:
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    refusing = asyncio.create_task(refused(Others(clock), never, **sent))
    await asyncio.wait([refusing], timeout=0.01)
    clock.skip(within_s - 1.0)
    await asyncio.wait([refusing], timeout=0.01)
    assert not refusing.done()
    clock.skip(1.0)
    problem = await refusing
    assert loop.time() - began_s < within_s + 5.0
    assert problem.detail == "The request was begun here and is not done yet. Whether it was done is not known."


async def test_time_that_a_credential_takes_is_part_of_the_deadline(clock: LoopClock) -> None:
    others, scope = Others(clock), request()
    forwarding = Forwarding(others.ask)

    async def known() -> str:
        clock.skip(12.0)
        return "kim"

    assert await forwarding.read_ahead(scope, known()) == "kim"
    with pytest.raises(Problem):
        await forwarding.answer(scope, b"", elsewhere)
    assert sum(others.waits_ms) <= (FORWARD_DEADLINE_S - 12.0) * 1000

    reading = asyncio.create_task(forwarding.read_ahead(request(), asyncio.get_running_loop().create_future()))
    await asyncio.sleep(0)
    clock.skip(FORWARD_DEADLINE_S)
    with pytest.raises(Problem, match="Nothing was done") as raised:
        await reading
    assert (raised.value.code, raised.value.headers) == ("Unavailable", {"Retry-After": "2"})


TIMED_OUT, NOT_THERE = BusTimeout("No answer."), NoResponder("No one serves it now.")
NOTHING_CHANGED = Problem("Unavailable", "Nothing was changed.")


@pytest.mark.parametrize("later", [LedgerError("It is away."), NOTHING_CHANGED], ids=["ledger", "refusal"])
async def test_a_refusal_here_does_not_settle_an_attempt_elsewhere(clock: LoopClock, later: Exception) -> None:
    async def here(guess: bool) -> ASGIApp:
        if guess:
            raise Elsewhere("i_other")
        raise later

    problem = await refused(Others(clock, [TIMED_OUT]), here)
    assert "Whether it was done is not known" in problem.detail

    with pytest.raises(type(later)) as raised:
        await Forwarding(Others(clock, [NOT_THERE]).ask).answer(request(), b"", here)
    assert raised.value is later


@pytest.mark.parametrize("status", [503, 409])
async def test_a_response_of_503_does_not_settle_an_earlier_attempt(clock: LoopClock, status: int) -> None:
    class Answering(Others):
        async def ask(self, *given: Any) -> bytes:
            return await super().ask(*given) if self._errors else msgspec.msgpack.encode((status, [], b"{}"))

    async def answered(first: BusError) -> HttpResponse:
        answer = await Forwarding(Answering(clock, [first]).ask).answer(request(), b"", elsewhere)
        assert isinstance(answer, HttpResponse)
        return answer

    assert (await answered(NOT_THERE)).status == status
    if status == 409:
        assert (await answered(TIMED_OUT)).status == status
    else:
        with pytest.raises(Problem, match="Whether it was done is not known"):
            await answered(TIMED_OUT)


class HeldLedger:
    """Delays commits until they are released."""

    def __init__(self, town: Street, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go_on = asyncio.Event()
        self.is_held = False
        commit = town.ledger.commit

        async def held(batch: WriteBatch) -> Receipt:
            self.is_held = True
            await self.go_on.wait()
            return await commit(batch)

        monkeypatch.setattr(town.ledger, "commit", held)


async def test_a_command_whose_fate_is_unknown_is_found_under_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    async with street(2) as town:
        a, b = town.members
        async with b.attached() as runner:
            session_id = (await b.execute()).body["target"]["session_id"]
            await opened(runner, session_id)
            ledger = HeldLedger(town, monkeypatch)
            try:
                with monkeypatch.context() as soon:
                    soon.setattr(forwarder, "FORWARD_DEADLINE_S", 1.5)
                    soon.setattr(forwarder, "HOP_S", 0.0)
                    first = await a.execute("slow", KEY, session_id=session_id)
                assert ledger.is_held
                assert (first.status, first.body["code"], first.headers["retry-after"]) == (503, "Unavailable", "2")
                assert first.body["retryable"]
                assert "Whether it was done is not known" in first.body["detail"]

                again = await a.execute("slow", KEY, session_id=session_id)
                assert (again.status, again.body["code"]) == (409, "IdempotencyKeyInUse")
                assert again.body["retryable"]
                assert "retry-after" in again.headers

                ledger.go_on.set()

                async def answered() -> bool:
                    return (await a.execute("slow", KEY, session_id=session_id)).status == 202

                await eventually(answered)
                last = await a.execute("slow", KEY, session_id=session_id)
                assert last.headers["idempotency-replayed"] == "true"
                listed = (await a.ask("GET", "/v1/commands")).body["items"]
                assert sum(one["id"] == last.body["id"] for one in listed) == 1
                assert len(listed) == 2
            finally:
                ledger.go_on.set()
