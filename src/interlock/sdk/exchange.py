"""A request and its outcome: sent, lost, delayed, resent under the same key. No I/O happens here.

A *flow* is a generator that yields the effects it needs (`Send`, `Rest`, `Now`, …) and receives their outcome. Thin
shells perform them, blocking or awaiting; all decisions are made here, once.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec

from interlock.sdk.credential import credential_headers
from interlock.sdk.problems import NotAGateway, Unreachable, refusal, seconds

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

CONNECT_TIMEOUT_S = 5.0
ANSWER_TIMEOUT_S = 60.0
NO_ANSWER = "it accepted the connection and sent no answer in time"
"""Why a request has no response if the gateway stays silent."""
"""Longer than any poll waits."""
CLOSE_TIMEOUT_S = 1.0
"""Maximum time for a gateway to answer the close of a WebSocket."""
MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""A WebSocket with a longer message is not a gateway's."""
STREAM_SILENCE_S = 45.0
"""A stream without data for three keep-alives is considered lost (S-2)."""
ATTEMPTS = 8
"""Maximum attempts of a request."""
PAUSE_S = 0.25
PAUSE_MAX_S = 5.0
UPLOAD_BYTES = 1024 * 1024
"""A file is sent in pieces of this size."""
RETRY_AFTER_MAX_S = 60.0
"""A longer Retry-After is not waited for: the refusal is raised, with the delay that the gateway requested."""
STREAM_GIVE_UP_S = 600.0
"""A stream whose gateway is unreachable for longer is abandoned."""

RETRYABLE_CODES = frozenset({"RateLimited", "Unavailable", "IdempotencyKeyInUse"})
"""Refusals after which the same request can be sent again: nothing was changed (M-1, K-3)."""


@dataclass(frozen=True)
class RequestSpec(Generic[T_co]):
    """A request as data. `read` parses its response's body."""

    method: str
    path: str
    read: Callable[[bytes], T_co]
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes | None = None
    file: Path | None = None
    """Instead of `body`: the file is sent in pieces, from its beginning at each attempt."""
    content_type: str = "application/json"
    """Of `body` or `file`."""
    key: str | None = None
    """The idempotency key; a change without one gets a new one, and keeps it over all attempts (M-1)."""
    keyed: bool = True
    """Whether the gateway stores a change by its key; otherwise the change is never sent twice."""
    accept: str = "application/json"
    last_event_id: str | None = None
    wait_s: int | None = None
    """How long the gateway may wait for the end before it answers (RFC 7240)."""
    also: frozenset[int] = frozenset()
    """Statuses of 400 and more whose responses `read` parses, instead of refusals."""

    @property
    def changes(self) -> bool:
        """Return whether the request changes something."""
        return self.method != "GET"

    @property
    def repeatable(self) -> bool:
        """Return whether the request may be repeated although the outcome of the first attempt is unknown."""
        return not self.changes or (self.keyed and self.key is not None)

    def with_key(self, key: str) -> RequestSpec[T_co]:
        """Return the request with a key, if it accepts one and has none."""
        return replace(self, key=key) if self.changes and self.keyed and self.key is None else self

    def with_query(self, **more: str) -> RequestSpec[T_co]:
        """Return the same with further query parameters."""
        return replace(self, query={**self.query, **more})

    def headers(self, bearer: str) -> dict[str, str]:
        """Return its headers, with the credential."""
        fields = {**credential_headers(bearer), "Accept": self.accept}
        if self.body is not None or self.file is not None:
            fields["Content-Type"] = self.content_type
        if self.key is not None:
            fields["Idempotency-Key"] = self.key
        if self.last_event_id is not None:
            fields["Last-Event-ID"] = self.last_event_id
        if self.wait_s is not None:
            fields["Prefer"] = f"wait={self.wait_s}"
        return fields


# --- effects of a flow, and their outcomes ---
class Send(NamedTuple):
    """Sends the request and reads the whole response: a Reply, or Cut."""

    ask: RequestSpec[Any]


class Open(NamedTuple):
    """Sends the request and leaves the body unread: a Reply (complete for a refusal), or Cut."""

    ask: RequestSpec[Any]


class ReadMore(NamedTuple):
    """Continues to read the open response: bytes, b"" at its end, or Cut."""


class Connect(NamedTuple):
    """Opens a WebSocket at this path: a Reply, whose status is 101 if it is open, or Cut."""

    path: str


class SendMessage(NamedTuple):
    """Sends a message over it: None, or Cut."""

    text: str


class ReceiveMessage(NamedTuple):
    """Waits up to a timeout for a message: its text, None if none arrived, or Cut."""

    seconds: float


class Rest(NamedTuple):
    """Does nothing for a number of seconds."""

    seconds: float


class Now(NamedTuple):
    """Returns the monotonic clock, in seconds."""


class Call(NamedTuple):
    """Calls the reader's function, and awaits an awaitable result: its result."""

    function: Callable[[Any], Any]
    argument: Any


class Give(NamedTuple):
    """Yields this to the reader of the stream."""

    item: Any


Effect: TypeAlias = Send | Open | ReadMore | Connect | SendMessage | ReceiveMessage | Rest | Now | Call | Give
Flow: TypeAlias = Generator[Effect, Any, T]


class HttpReply(NamedTuple):
    """A response."""

    status: int
    body: bytes
    retry_after: str | None = None
    location: str | None = None


class ConnectionCut(NamedTuple):
    """No response, or no more of it: the connection was refused, lost or silent for too long."""

    why: str
    broke_off: bool = False
    """Whether there was a connection, and the response expected over it did not arrive, or not completely."""


class RetryPolicy(NamedTuple):
    """How many times a request is sent again, and for how long a stream is reopened."""

    attempts: int = ATTEMPTS
    stream_give_up_s: float = STREAM_GIVE_UP_S
    draw: Callable[[], float] = random.random
    """Returns 0 to 1: jitter, so that clients of one gateway do not all return at once."""

    def pause(self, attempt: int) -> float:
        """Return the delay in seconds before attempt number `attempt` + 1: exponential, bounded, with jitter."""
        return (0.5 + self.draw() / 2) * min(PAUSE_MAX_S, PAUSE_S * 2 ** min(attempt - 1, 16))


def driven(flow: Flow[T], done: Callable[[Effect], Any]) -> T:
    """Return a flow's result; `done` performs each effect and returns its outcome. Raises what either raises."""
    came: Any = None
    while True:
        try:
            effect = flow.send(came)
        except StopIteration as over:
            return over.value
        came = done(effect)


def exchange(ask: RequestSpec[T], retries: RetryPolicy) -> Flow[T]:
    """Send until there is a final response. Raises InterlockError."""
    attempt = 0
    while True:
        attempt += 1
        reply: HttpReply | ConnectionCut = yield Send(ask)
        wait = retry_delay_s(ask, reply, attempt, retries)
        if wait is None:
            return taken(ask, reply)
        yield Rest(wait)


def retry_delay_s(
    ask: RequestSpec[Any], reply: HttpReply | ConnectionCut, attempt: int, retries: RetryPolicy
) -> float | None:
    """Return the delay in seconds before the request is repeated, or None if this response is final.

    Only safe repetitions are made: after a lost connection if the key (or the method) makes a second one harmless, and
    after refusals that state that nothing was done. Any other failure is raised at once.
    """
    if attempt >= retries.attempts:
        return None
    if isinstance(reply, ConnectionCut):
        return retries.pause(attempt) if ask.repeatable else None
    if reply.status < 400 or reply.status in ask.also or not is_retryable(reply):
        return None
    asked_s = seconds(reply.retry_after)
    if asked_s is None:
        return retries.pause(attempt)
    return asked_s if asked_s <= RETRY_AFTER_MAX_S else None


class _Code(msgspec.Struct):
    code: str = ""


def is_retryable(reply: HttpReply) -> bool:
    try:
        code = msgspec.json.decode(reply.body, type=_Code).code
    except (msgspec.DecodeError, UnicodeDecodeError):
        # A proxy's page: 429 and 503 mean what HTTP defines if they state the time.
        return reply.status in (429, 503) and seconds(reply.retry_after) is not None
    return code in RETRYABLE_CODES


def taken(ask: RequestSpec[T], reply: HttpReply | ConnectionCut) -> T:
    """Parse the final response. Raises InterlockError."""
    if isinstance(reply, ConnectionCut):
        raise Unreachable(f"No gateway answers {ask.method} {ask.path}: {reply.why}")
    if not 200 <= reply.status < 300 and reply.status not in ask.also:
        raise refusal(reply.status, reply.body, reply.retry_after, reply.location)
    try:
        return ask.read(reply.body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotAGateway(f"The answer to {ask.method} {ask.path} is not of the form known here: {error}") from None
