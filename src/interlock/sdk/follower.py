"""Streams that resume by themselves, and downloads, as flows (S-1, S-2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from interlock.sdk.exchange import (
    ConnectionCut,
    Flow,
    Give,
    HttpReply,
    Now,
    Open,
    ReadMore,
    RequestSpec,
    Rest,
    RetryPolicy,
    is_retryable,
    taken,
)
from interlock.sdk.problems import NotAGateway, Unreachable, refusal, seconds

T = TypeVar("T")

MAX_EVENT_CHARS = 4 * 1024 * 1024
"""A stream with a longer event is not a gateway's."""
SSE = "text/event-stream"


@dataclass(frozen=True)
class StreamEvent(Generic[T]):
    """An event. `cursor` is the position after it; None for events that are not stored (heartbeats, deltas). `ref` is
    its stream, if a watch follows several."""

    data: T
    event: str
    cursor: str | None
    ref: str | None = None


@dataclass(frozen=True)
class Lost:
    """The connection was lost; it is being resumed."""

    why: str


@dataclass(frozen=True)
class Reattached:
    """The stream continues after the last durable event, `away_s` seconds after it broke; nothing durable is
    missing in between."""

    away_s: float


StreamItem: TypeAlias = StreamEvent[T] | Lost | Reattached


@dataclass(frozen=True)
class Following(Generic[T]):
    """A stream as data: its position, and how its events are parsed. `read` takes the event's name and its data."""

    path: str
    read: Callable[[str, bytes], T]
    query: dict[str, str]
    since: str | None


def follow(following: Following[Any], retries: RetryPolicy) -> Flow[None]:
    """Yield what is received until the stream is over. Raises InterlockError: a refusal, or no response for too
    long."""
    ask: RequestSpec[bytes] = RequestSpec("GET", following.path, bytes, query=following.query, accept=SSE,
                                          last_event_id=following.since)
    away = Outage()
    while True:
        reply: HttpReply | ConnectionCut = yield Open(ask)
        if isinstance(reply, HttpReply) and reply.status == 204:
            return  # The stream is complete: nothing follows the last event of an ended stream (S-2).
        if away.since is not None:
            yield from away.report()
        if isinstance(reply, HttpReply) and reply.status < 400:
            if away.since is not None:
                now: float = yield Now()
                yield Give(Reattached(now - away.since))
                away.back()
            reader = _Reader(following.read, ask.last_event_id)
            why = yield from reader.read()
            ask = replace(ask, last_event_id=reader.cursor)
            away.broke(why or "the gateway ended the stream", received=reader.received)
            yield from away.wait(reply, retries, f"The stream {ask.path}", clean=why is None)
        else:
            away.refused(reply)
            yield from away.wait(reply, retries, f"The stream {ask.path}")


class Outage:
    """The state of an outage: its start, the failed attempts, and whether the reader was notified."""

    def __init__(self) -> None:
        self._attempts = 0
        self._why = ""
        self._since: float | None = None
        self._reported = False

    @property
    def since(self) -> float | None:
        """Return when the outage began; None while connected."""
        return self._since

    def broke(self, why: str, *, received: bool) -> None:
        """Record why a connection was lost; an attempt failed if nothing was received over it."""
        self._attempts, self._why = 0 if received else self._attempts + 1, why

    def refused(self, reply: HttpReply | ConnectionCut) -> None:
        """Count a failed attempt. Raises InterlockError for a response that a repetition will not change."""
        if isinstance(reply, HttpReply) and not is_retryable(reply):
            raise refusal(reply.status, reply.body, reply.retry_after)
        why = reply.why if isinstance(reply, ConnectionCut) else "the gateway asks to try again later"
        self.broke(why, received=False)

    def report(self) -> Flow[None]:
        """Yield, once per outage, that the connection is lost."""
        if not self._reported:
            self._reported = True
            yield Give(Lost(self._why))

    def wait(self, reply: HttpReply | ConnectionCut, retries: RetryPolicy, what: str, *,
             clean: bool = False) -> Flow[None]:
        """Wait before the next attempt; a `clean` end is not reported yet. Raises Unreachable for `what` after too long
        a time."""
        now: float = yield Now()
        self._since = now if self._since is None else self._since
        if not clean:
            yield from self.report()
        if now - self._since > retries.stream_give_up_s:
            raise Unreachable(f"{what} could not be resumed: {self._why}")
        if self._attempts:
            asked_for = seconds(reply.retry_after) if isinstance(reply, HttpReply) else None
            yield Rest(max(asked_for or 0, retries.pause(self._attempts)))

    def back(self) -> None:
        """End the outage: the connection is back."""
        self._since = None
        self._reported = False


class _Reader:
    """Reads one connection of a stream to its end; `cursor` is that of the last durable event yielded."""

    def __init__(self, read: Callable[[str, bytes], Any], cursor: str | None) -> None:
        self._read = read
        self.cursor = cursor
        self.received = False

    def read(self) -> Flow[str | None]:
        """Yield the events of the connection; returns why it was lost, None if the gateway ended the stream. Raises
        NotAGateway."""
        lines = EventParser()
        while True:
            chunk: bytes | ConnectionCut = yield ReadMore()
            if isinstance(chunk, ConnectionCut):
                return chunk.why
            if not chunk:
                return None
            for cursor, event, data in lines.feed(chunk):
                if event == "behind":
                    return "this reader was too slow to keep up"
                self.received = True
                self.cursor = cursor or self.cursor
                yield Give(StreamEvent(decoded(self._read, event, data), event, cursor))


def decoded(read: Callable[[str, bytes], Any], event: str, data: bytes) -> Any:
    """Read an event. Raises NotAGateway."""
    try:
        return read(event, data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotAGateway(f"An event {event!r} of the stream is not of the form known here: {error}") from None


def download(ask: RequestSpec[bytes], _retries: RetryPolicy) -> Flow[None]:
    """Yield a long response piece by piece. Raises InterlockError, also if it was interrupted: the received part is
    incomplete."""
    reply: HttpReply | ConnectionCut = yield Open(ask)
    if isinstance(reply, ConnectionCut) or reply.status >= 400:
        taken(ask, reply)
    while True:
        chunk: bytes | ConnectionCut = yield ReadMore()
        if isinstance(chunk, ConnectionCut):
            raise Unreachable(f"The answer to GET {ask.path} broke off: {chunk.why}")
        if not chunk:
            return
        yield Give(chunk)


class EventParser:
    """Splits bytes into events by the rules of server-sent events; pure."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self._id: str | None = None
        self._event = "message"
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[tuple[str | None, str, bytes]]:
        """Process bytes; yields the complete events as (id, event, data). Raises NotAGateway for one without end."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            found = self._line(line.removesuffix(b"\r"))
            if found is not None:
                yield found
        if self._size + len(self._rest) > MAX_EVENT_CHARS:
            raise NotAGateway("An event of the stream has no end. Is the URL that of a gateway?")

    def _line(self, line: bytes) -> tuple[str | None, str, bytes] | None:
        if not line:
            found = (self._id, self._event, b"\n".join(self._data)) if self._data else None
            self._data, self._id, self._event, self._size = [], None, "message", 0
            return found
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._size += len(value)
        elif name == b"id":
            self._id = value.decode("ascii", "replace")
        elif name == b"event":
            self._event = value.decode("ascii", "replace")
        return None
