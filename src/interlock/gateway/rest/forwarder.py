"""Forwarding of requests to another gateway of the cluster, and of its response (C-4).

A request is sent as it was received, with its credential, over the bus: any client that could send it there could send
it here, and the other gateway checks the credential itself. It is repeated under its idempotency key while no answer is
known, so that a gateway that dies during it costs time and nothing else (M-1).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
import structlog
from starlette.types import ASGIApp, Message, Scope

from interlock.engine.membership import Elsewhere, LaneMoved
from interlock.gateway.rest.answers import HttpResponse
from interlock.gateway.rest.request.authentication import CREDENTIAL, HOPS
from interlock.gateway.rest.service import Ask
from interlock.ports.bus import BusError, CutOff, LostOver, NoResponder
from interlock.ports.ledger import LedgerError
from interlock.protocol.problems import PROBLEMS, Problem

WHAT = "rest"
"""The subject under which a gateway answers others' requests."""
ANSWER_WAIT_MS = 15_000
"""Timeout of another gateway's answer; a live one answers far sooner. Then the request is repeated, since its answer
may have been lost."""
FORWARD_DEADLINE_S = 20.0
"""A change in a cluster is answered within this, including its credential, all attempts and hops: with the outcome, or
with a 503. Longer than a dead gateway's lease, shorter than clients wait (30 s and more)."""
HOP_S = 0.5
"""The forwarded deadline is this much shorter than the sender's, so that the more specific 503 is the answer."""
BUS_GIVE_UP_S = 2.0
"""A request that needs the bus while this gateway is disconnected from it is answered 503 after this: a bus that
restarts within it costs no answer (decision 47)."""
AGAIN_S = 0.25
"""Pause before a retry, if a gateway could not be reached or its lanes not taken."""
AWAY_RETRY_S = 2
"""`Retry-After` of a request that could not be forwarded: it has waited here for BUS_GIVE_UP_S or FORWARD_DEADLINE_S
already."""
MAX_HOPS = 4
"""Maximum number of times that a moving lane is followed."""
UNAVAILABLE = PROBLEMS["Unavailable"].status
LEFT_OUT = frozenset({b"authorization", b"host", b"content-length", b"transfer-encoding", b"connection", b"prefer",
                      b"origin", b"cookie", b"interlock-browser"})
"""Headers that are not forwarded: they apply to this connection only, or are handled here."""
log = structlog.get_logger("interlock.gateway")


class ForwardedRequest(msgspec.Struct, array_like=True):
    """A request as one gateway sends it to another."""

    method: str
    path: str
    query: bytes
    headers: list[tuple[bytes, bytes]]
    source: str
    body: bytes
    hops: int
    within_ms: int = round(FORWARD_DEADLINE_S * 1000)
    """How long the sender waits for the answer; an earlier version does not state it."""


WITHIN_S = "interlock.within_s"
"""In the scope of a forwarded request: how long its sender waits for the answer."""
DEADLINE_S = "interlock.deadline_s"
"""In the scope of a request: when it is to be answered, on the loop's clock."""
T = TypeVar("T")


class Answered(msgspec.Struct, array_like=True):
    """The response to a forwarded request."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


_sent = msgspec.msgpack.Decoder(ForwardedRequest)
_answered = msgspec.msgpack.Decoder(Answered)


class Forwarding:
    """The forwarder of a gateway that has others beside it."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def read_ahead(self, scope: Scope, reading: Awaitable[T]) -> T:
        """Return what is read before a request is begun, such as whose it is: that is part of the request's time.
        Raises what `reading` raises, and Problem Unavailable."""
        timeout = asyncio.timeout_at(_deadline(scope))
        try:
            async with timeout:
                return await reading
        except TimeoutError:
            if not timeout.expired():
                raise
            raise Problem("Unavailable", "What the request needs cannot be read from the ledger in time. Nothing was "
                          "done.", headers={"Retry-After": str(AWAY_RETRY_S)}) from None

    async def answer(self, scope: Scope, body: bytes, here: Callable[[bool], Awaitable[ASGIApp]]) -> ASGIApp:
        """Answer here, or forward to the gateway that can. `here` may raise Elsewhere for a gateway that probably has
        the session if its argument is true: the first time, and not for a forwarded request. Raises what `here` raises,
        and Problem Unavailable."""
        attempts = _Attempts()
        try:
            answer = await self._attempt_all(scope, body, here, attempts)
        except (LedgerError, Problem) as error:
            if not attempts.in_doubt or (isinstance(error, Problem) and error.code != "Unavailable"):
                raise
            log.info("refused_in_doubt", error=str(error))
            answer = None
        # A later attempt that was refused proves nothing about an earlier one, which may have been done.
        if answer is None or (attempts.in_doubt and isinstance(answer, HttpResponse) and answer.status == UNAVAILABLE):
            raise _unavailable(attempts)
        return answer

    async def _attempt_all(self, scope: Scope, body: bytes, here: Callable[[bool], Awaitable[ASGIApp]],
                           attempts: _Attempts) -> ASGIApp | None:
        """Attempt it until the deadline; None if there was no answer."""
        loop = asyncio.get_running_loop()
        deadline = until = _deadline(scope)
        hops = scope.get(HOPS, 0)
        guess = hops == 0
        while loop.time() < until and hops < MAX_HOPS:
            try:
                return await _by(deadline, here(guess))
            except LaneMoved:
                continue
            except Elsewhere as there:
                try:
                    return await self._there(there.instance_id, scope, body, hops + 1, deadline)
                except BusError as error:
                    if isinstance(error, CutOff | LostOver) and not isinstance(attempts.failed, CutOff | LostOver):
                        until = min(until, loop.time() + BUS_GIVE_UP_S)
                    attempts.fail(error)
                    log.info("gateway_not_reached", instance_id=there.instance_id, error=str(error))
            except _TooLate as error:
                attempts.fail(error)
                break
            guess = False
            await asyncio.sleep(AGAIN_S)
        return None

    async def _there(self, instance_id: str, scope: Scope, body: bytes, hops: int, deadline: float) -> ASGIApp:
        headers = [(bytes(name), bytes(value)) for name, value in scope["headers"] if bytes(name) not in LEFT_OUT]
        # A hook authenticates by its own secret, in one of several headers; all others by a bearer token.
        shown = [b"Bearer " + scope[CREDENTIAL].encode()] if CREDENTIAL in scope else [
            bytes(value) for name, value in scope["headers"] if bytes(name) == b"authorization"]
        headers += [(b"authorization", value) for value in shown]
        source = str(scope["client"][0]) if scope.get("client") else ""
        left_s = deadline - asyncio.get_running_loop().time()
        wait_ms = min(ANSWER_WAIT_MS, max(0, round(left_s * 1000)))
        sent = ForwardedRequest(scope["method"], scope["path"], scope["query_string"], headers, source, body, hops,
                                wait_ms)
        raw = await self._ask(instance_id, WHAT, msgspec.msgpack.encode(sent), wait_ms)
        answered = _answered.decode(raw)
        headers = [(name, value) for name, value in answered.headers if name != b"content-length"]
        return HttpResponse(answered.body, answered.status, [*headers, (b"content-length", b"%d" % len(answered.body))])


def _deadline(scope: Scope) -> float:
    """Return the loop time by which a request must be answered: its limit begins at the first call."""
    if DEADLINE_S not in scope:
        within_s = min(FORWARD_DEADLINE_S, scope.get(WITHIN_S, FORWARD_DEADLINE_S))
        scope[DEADLINE_S] = asyncio.get_running_loop().time() + within_s
    return scope[DEADLINE_S]


class _Attempts:
    """The outcome of one request's attempts so far: the last failure, and whether something may have been done."""

    def __init__(self) -> None:
        self.failed = BusError("It moves from gateway to gateway.")
        self.in_doubt = False

    def fail(self, error: BusError) -> None:
        """Add a failure."""
        self.failed = error
        self.in_doubt = self.in_doubt or not isinstance(error, NoResponder)


class _TooLate(BusError):
    """Raised if a request was started here, and is not done yet."""


async def _by(deadline: float, answering: Awaitable[ASGIApp]) -> ASGIApp:
    """Return the response. Raises _TooLate at the deadline, on the loop's clock; the request is completed nevertheless,
    and a repetition finds the result."""
    task = asyncio.ensure_future(answering)
    try:
        done, _ = await asyncio.wait({task}, timeout=max(0.0, deadline - asyncio.get_running_loop().time()))
    except BaseException:
        task.cancel()
        raise
    if done:
        return task.result()
    _late.add(task)
    task.add_done_callback(_ended_late)
    raise _TooLate("The request was begun here and is not done yet.")


_late = set[asyncio.Future[ASGIApp]]()


def _ended_late(task: asyncio.Future[ASGIApp]) -> None:
    _late.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        log.info("answered_too_late", error=str(error) or type(error).__name__)


def _unavailable(attempts: _Attempts) -> Problem:
    """Return the refusal if no gateway could be reached: the request may be repeated, here or at any other gateway."""
    failed = attempts.failed
    done = "Whether it was done is not known" if attempts.in_doubt else "Nothing was done"
    if isinstance(failed, CutOff | LostOver):
        detail = (f"The gateways cannot reach one another: {failed.where} does not answer, and another gateway has "
                  f"this session or its runner. {done}; sessions whose runners are attached here go on.")
        hint = ("Send it again under the same idempotency key, here or at another gateway. If it lasts, look at "
                "NATS, and at what `bus` of `[cluster]` names.")
    else:
        where = ("" if isinstance(failed, _TooLate) else
                 "Another gateway of the cluster has this session, and no answer came from it: ")
        detail = f"{where}{failed} {done}."
        hint = "Send it again under the same idempotency key: if it was done, that answer is returned again."
    return Problem("Unavailable", detail, hint=hint, headers={"Retry-After": str(AWAY_RETRY_S)})


async def answer_sent(rest: ASGIApp, raw: bytes) -> bytes:
    """Answer a forwarded request as if it had been received from its original client."""
    sent = _sent.decode(raw)
    scope: dict[str, Any] = {
        "type": "http", "http_version": "1.1", "scheme": "http", "method": sent.method, "path": sent.path,
        "raw_path": sent.path.encode(), "root_path": "", "query_string": sent.query, "headers": sent.headers,
        "client": (sent.source, 0) if sent.source else None, "server": None, "state": {}, HOPS: sent.hops,
        WITHIN_S: sent.within_ms / 1000 - HOP_S,
    }
    status, headers, body = 500, list[tuple[bytes, bytes]](), bytearray()
    taken = False

    async def receive() -> Message:
        nonlocal taken
        if taken:
            await asyncio.get_running_loop().create_future()  # A caller that waits for its end is answered first.
        taken = True
        return {"type": "http.request", "body": sent.body, "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status, headers
        if message["type"] == "http.response.start":
            status, headers = message["status"], [(bytes(name), bytes(value)) for name, value in message["headers"]]
        else:
            body.extend(message.get("body", b""))

    await rest(scope, receive, send)
    return msgspec.msgpack.encode(Answered(status, headers, bytes(body)))
