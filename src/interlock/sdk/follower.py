"""Streams that reconnect by themselves, and downloads, as flows (S-1, S-2)."""

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
    Manners,
    Now,
    Open,
    ReadMore,
    RequestSpec,
    Rest,
    asks_for_patience,
    taken,
)
from interlock.sdk.problems import NotAGateway, Unreachable, refusal, seconds

T = TypeVar("T")

MAX_EVENT_CHARS = 4 * 1024 * 1024
"""A stream with a longer event does not come from a gateway."""
SSE = "text/event-stream"


@dataclass(frozen=True)
class StreamEvent(Generic[T]):
    """One event. `cursor` is the position after it; None for events that are not stored (heartbeats, deltas). `ref` is
    its stream, if a watch follows several."""

    data: T
    event: str
    cursor: str | None
    ref: str | None = None


@dataclass(frozen=True)
class Lost:
    """The connection broke; the client is reconnecting."""

    why: str


@dataclass(frozen=True)
class Reattached:
    """The stream continues after the last durable event, `away_s` seconds after it broke; no durable event is missing
    in between."""

    away_s: float


StreamItem: TypeAlias = StreamEvent[T] | Lost | Reattached


@dataclass(frozen=True)
class Following(Generic[T]):
    """A stream as data: its path, and how its events are read. `read` gets the event's name and its data."""

    path: str
    read: Callable[[str, bytes], T]
    query: dict[str, str]
    since: str | None


def follow(asked: Following[Any], manners: Manners) -> Flow[None]:
    """Yield events until the stream is over. Raises InterlockError: a refusal, or a gateway unreachable for too long.
    """
    ask: RequestSpec[bytes] = RequestSpec("GET", asked.path, bytes, query=asked.query, accept=SSE,
                                          last_event_id=asked.since)
    away = Outage()
    while True:
        reply: HttpReply | ConnectionCut = yield Open(ask)
        if isinstance(reply, HttpReply) and reply.status == 204:
            return  # The stream is complete: a stream that has ended has nothing after its last event (S-2).
        if away.since is not None and not away.reported:
            yield Give(Lost(away.why))
            away.reported = True
        if isinstance(reply, HttpReply) and reply.status < 400:
            if away.since is not None:
                now: float = yield Now()
                yield Give(Reattached(now - away.since))
                away.back()
            reader = _Reader(asked.read, ask.last_event_id)
            why = yield from reader.read()
            ask = replace(ask, last_event_id=reader.cursor)
            clean = why is None
            away.attempts = 0 if reader.received else away.attempts + 1
            away.why = why or "the gateway ended the stream"
        else:
            if isinstance(reply, HttpReply) and not asks_for_patience(reply):
                raise refusal(reply.status, reply.body, reply.retry_after)
            clean = False
            away.attempts += 1
            away.why = reply.why if isinstance(reply, ConnectionCut) else "the gateway requests a delay"
        now = yield Now()
        lasts_s = away.lasts_s(now)
        if not clean and not away.reported:
            yield Give(Lost(away.why))
            away.reported = True
        if lasts_s > manners.stream_give_up_s:
            raise Unreachable(f"The stream {ask.path} could not be resumed: {away.why}")
        if away.attempts:
            delay = seconds(reply.retry_after) if isinstance(reply, HttpReply) else None
            yield Rest(max(delay or 0, manners.pause(away.attempts)))


class Outage:
    """Start time, failed attempts, and whether the reader was notified."""

    def __init__(self) -> None:
        self.attempts = 0
        self.why = ""
        self._since: float | None = None
        self.reported = False

    @property
    def since(self) -> float | None:
        """Return its start time; None while connected."""
        return self._since

    def lasts_s(self, now: float) -> float:
        """Return its duration, 0 if it begins now."""
        self._since = now if self._since is None else self._since
        return now - self._since

    def back(self) -> None:
        """End it: the connection is restored."""
        self._since = None
        self.reported = False


class _Reader:
    """Reads one connection of a stream to its end; `cursor` is that of the last durable event yielded."""

    def __init__(self, read: Callable[[str, bytes], Any], cursor: str | None) -> None:
        self._read = read
        self.cursor = cursor
        self.received = False

    def read(self) -> Flow[str | None]:
        """Yield its events; return why it broke, None if the gateway ended it. Raises NotAGateway."""
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
    """Decode an event. Raises NotAGateway."""
    try:
        return read(event, data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotAGateway(f"An event {event!r} of the stream has an unknown form: {error}") from None


def download(ask: RequestSpec[bytes], _manners: Manners) -> Flow[None]:
    """Yield a long answer piece by piece. Raises InterlockError, also if it breaks off: the data is then incomplete."""
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
    """Parses bytes into events by the rules of server-sent events. Pure."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self._id: str | None = None
        self._event = "message"
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[tuple[str | None, str, bytes]]:
        """Accept bytes; yield complete events as (id, event, data). Raises NotAGateway for one without end."""
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
