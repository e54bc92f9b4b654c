"""One request and its outcome: sent, lost, delayed, retried with the same key. Does no input or output.

A *flow* is a generator that yields effects (`Send`, `Rest`, `Now`, …) and receives their results. Two thin shells, one
blocking and one async, carry them out; every decision is made here once.
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
"""Longer than any poll waits."""
CLOSE_TIMEOUT_S = 1.0
"""Limit for a gateway's answer to the close of a WebSocket."""
MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""A longer WebSocket message does not come from a gateway."""
STREAM_SILENCE_S = 45.0
"""A stream without data for three keep-alives is dead (S-2)."""
ATTEMPTS = 8
"""Maximum number of times that a request is sent."""
PAUSE_S = 0.25
PAUSE_MAX_S = 5.0
UPLOAD_BYTES = 1024 * 1024
"""A file is sent in pieces of this size."""
RETRY_AFTER_MAX_S = 60.0
"""If a gateway requests a longer delay, the refusal is raised at once, with the requested delay."""
STREAM_GIVE_UP_S = 600.0
"""A stream whose gateway is unreachable for longer fails."""

PATIENT_CODES = frozenset({"RateLimited", "Unavailable", "IdempotencyKeyInUse"})
"""Refusals that mean: nothing was changed, send the same again after a delay (M-1, K-3)."""


@dataclass(frozen=True)
class RequestSpec(Generic[T_co]):
    """One request as data. `read` converts the answer's body."""

    method: str
    path: str
    read: Callable[[bytes], T_co]
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes | None = None
    file: Path | None = None
    """Instead of `body`: it is sent piece by piece, from its beginning at each attempt."""
    content_type: str = "application/json"
    """Of `body` or `file`."""
    key: str | None = None
    """The idempotency key; a change without one gets a fresh one, and keeps it over all attempts (M-1)."""
    keyed: bool = True
    """Whether the gateway remembers a change by its key; otherwise it is never sent twice."""
    accept: str = "application/json"
    last_event_id: str | None = None
    wait_s: int | None = None
    """How long the gateway may wait for the end before it answers (RFC 7240)."""
    also: frozenset[int] = frozenset()
    """Statuses of 400 and more that `read` accepts, instead of raising a refusal."""

    @property
    def changes(self) -> bool:
        """Return whether it changes anything."""
        return self.method != "GET"

    @property
    def repeatable(self) -> bool:
        """Return whether it may be sent again if it is unknown whether the first was received."""
        return not self.changes or (self.keyed and self.key is not None)

    def with_key(self, key: str) -> RequestSpec[T_co]:
        """Return a copy with a key, if it takes one and has none."""
        return replace(self, key=key) if self.changes and self.keyed and self.key is None else self

    def with_query(self, **more: str) -> RequestSpec[T_co]:
        """Return a copy with further query parameters."""
        return replace(self, query={**self.query, **more})

    def headers(self, bearer: str) -> dict[str, str]:
        """Return its headers, with the credential."""
        headers = {**credential_headers(bearer), "Accept": self.accept}
        if self.body is not None or self.file is not None:
            headers["Content-Type"] = self.content_type
        if self.key is not None:
            headers["Idempotency-Key"] = self.key
        if self.last_event_id is not None:
            headers["Last-Event-ID"] = self.last_event_id
        if self.wait_s is not None:
            headers["Prefer"] = f"wait={self.wait_s}"
        return headers


# --- effects of a flow, and their results ---
class Send(NamedTuple):
    """Send it and read the whole answer: an HttpReply, or ConnectionCut."""

    ask: RequestSpec[Any]


class Open(NamedTuple):
    """Send it and leave the body unread: an HttpReply (complete for a refusal), or ConnectionCut."""

    ask: RequestSpec[Any]


class ReadMore(NamedTuple):
    """Read on in the open answer: bytes, b"" at its end, or ConnectionCut."""


class Connect(NamedTuple):
    """Open a WebSocket at this path: an HttpReply, with status 101 if it is open, or ConnectionCut."""

    path: str


class SendMessage(NamedTuple):
    """Send a message over it: None, or ConnectionCut."""

    text: str


class ReceiveMessage(NamedTuple):
    """Wait this long for a message: its text, None if there is none, or ConnectionCut."""

    seconds: float


class Rest(NamedTuple):
    """Sleep for this many seconds."""

    seconds: float


class Now(NamedTuple):
    """Read the monotonic clock, in seconds."""


class Call(NamedTuple):
    """Call the reader's function, and await its return value if that is awaitable: its result."""

    function: Callable[[Any], Any]
    argument: Any


class Give(NamedTuple):
    """Pass this item to the reader of the stream."""

    item: Any


Effect: TypeAlias = Send | Open | ReadMore | Connect | SendMessage | ReceiveMessage | Rest | Now | Call | Give
Flow: TypeAlias = Generator[Effect, Any, T]


class HttpReply(NamedTuple):
    """An answer."""

    status: int
    body: bytes
    retry_after: str | None = None
    location: str | None = None


class ConnectionCut(NamedTuple):
    """No answer, or an incomplete one: the connection was refused, lost or silent for too long."""

    why: str
    broke_off: bool = False
    """Whether there was a connection, and the expected answer did not arrive, or not completely."""


class Manners(NamedTuple):
    """Patience of a client."""

    attempts: int = ATTEMPTS
    stream_give_up_s: float = STREAM_GIVE_UP_S
    draw: Callable[[], float] = random.random
    """Returns 0 to 1, so that clients that lost the same gateway do not all come back at once."""

    def pause(self, attempt: int) -> float:
        """Return the seconds before attempt number `attempt` + 1: exponential, bounded, with jitter."""
        return (0.5 + self.draw() / 2) * min(PAUSE_MAX_S, PAUSE_S * 2 ** min(attempt - 1, 16))


def exchange(ask: RequestSpec[T], manners: Manners) -> Flow[T]:
    """Send until there is an answer. Raises InterlockError."""
    attempt = 0
    while True:
        attempt += 1
        reply: HttpReply | ConnectionCut = yield Send(ask)
        wait = patience(ask, reply, attempt, manners)
        if wait is None:
            return taken(ask, reply)
        yield Rest(wait)


def patience(ask: RequestSpec[Any], reply: HttpReply | ConnectionCut, attempt: int, manners: Manners) -> float | None:
    """Return the seconds after which the same is sent again, or None if this is the answer.

    Only safe requests are repeated: after a lost connection if the key (or the method) makes a second one harmless, and
    after refusals that changed nothing. Every other failure is returned at once.
    """
    if attempt >= manners.attempts:
        return None
    if isinstance(reply, ConnectionCut):
        return manners.pause(attempt) if ask.repeatable else None
    if reply.status < 400 or reply.status in ask.also or not asks_for_patience(reply):
        return None
    delay = seconds(reply.retry_after)
    if delay is None:
        return manners.pause(attempt)
    return delay if delay <= RETRY_AFTER_MAX_S else None


class _Code(msgspec.Struct):
    code: str = ""


def asks_for_patience(reply: HttpReply) -> bool:
    try:
        code = msgspec.json.decode(reply.body, type=_Code).code
    except (msgspec.DecodeError, UnicodeDecodeError):
        # A proxy's page: 429 and 503 have their HTTP meaning if they name the time.
        return reply.status in (429, 503) and seconds(reply.retry_after) is not None
    return code in PATIENT_CODES


def taken(ask: RequestSpec[T], reply: HttpReply | ConnectionCut) -> T:
    """Return the result of the last answer. Raises InterlockError."""
    if isinstance(reply, ConnectionCut):
        raise Unreachable(f"No gateway answers {ask.method} {ask.path}: {reply.why}")
    if not 200 <= reply.status < 300 and reply.status not in ask.also:
        raise refusal(reply.status, reply.body, reply.retry_after, reply.location)
    try:
        return ask.read(reply.body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotAGateway(f"The answer to {ask.method} {ask.path} has an unknown form: {error}") from None
