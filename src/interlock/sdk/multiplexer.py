"""Many streams over one WebSocket that reconnects by itself, as a flow (section 4, S-1)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import urlencode

import msgspec

from interlock.protocol.api.operation import STREAM_SOCKET
from interlock.sdk.exchange import (
    Connect,
    ConnectionCut,
    Flow,
    Give,
    HttpReply,
    Now,
    ReceiveMessage,
    RetryPolicy,
    SendMessage,
)
from interlock.sdk.follower import Following, Lost, Outage, Reattached, StreamEvent, decoded
from interlock.sdk.problems import InterlockError, NotAGateway, refusal
from interlock.sdk.requests import commands, sessions
from interlock.sdk.requests.sessions import View

BREATH_S = 1.0
"""Maximum delay before a request of another thread or task to a watch is sent to the gateway."""


@dataclass(frozen=True)
class StreamEnd:
    """One of the streams has ended, or with `error` could not begin. The others continue."""

    ref: str
    error: InterlockError | None = None


Seen: TypeAlias = StreamEvent[Any] | StreamEnd | Lost | Reattached


class _Event(msgspec.Struct, frozen=True):
    event: str
    data: msgspec.Raw
    id: str | None = None


class _Message(msgspec.Struct, frozen=True):
    ref: str
    events: list[_Event] = []
    end: str | None = None
    problem: msgspec.Raw = msgspec.Raw()


_message = msgspec.json.Decoder(_Message)


class Watched:
    """The followed streams, and how far each has been read. A stream is named by its `ref`: by default the id of its
    object. The watch ends with its last stream."""

    def __init__(self) -> None:
        self._streams: dict[str, Following[Any]] = {}
        self._cursors: dict[str, str | None] = {}
        self._asked: deque[dict[str, str]] = deque()

    def command(self, command_id: str, *, since: str | None = None, ref: str | None = None) -> str:
        """Follow a command's status until it has ended, from after the cursor `since`; returns the ref."""
        return self._add(ref or command_id, commands.follow(command_id, since=since))

    def session(self, session_id: str, *, since: str | None = None, view: View | None = None, ref: str | None = None
                ) -> str:
        """Follow a session's stream, including deltas; returns the ref."""
        return self._add(ref or session_id, sessions.follow(session_id, since=since, view=view))

    def events(self, *, since: str | None = None, ref: str | None = None) -> str:
        """Follow the tenant's feed; returns the ref."""
        return self._add(ref or "events", sessions.follow_events(since=since))

    def drop(self, ref: str) -> None:
        """Stop following a stream; does nothing if it is not followed."""
        if self._streams.pop(ref, None) is not None:
            self._asked.append({"op": "unsubscribe", "ref": ref})

    def cursor(self, ref: str) -> str | None:
        """Return the cursor after what was yielded of a stream."""
        return self._cursors.get(ref)

    @property
    def is_over(self) -> bool:
        """Return whether no stream is followed any more."""
        return not self._streams

    def restart(self) -> None:
        """Start a new connection, which needs every stream requested from its cursor."""
        self._asked.clear()
        for ref in self._streams:
            self._ask(ref)

    def asks(self) -> Iterator[str]:
        """Yield the messages to send to the gateway."""
        while self._asked:
            yield msgspec.json.encode(self._asked.popleft()).decode()

    def take(self, text: str) -> Iterator[StreamEvent[Any] | StreamEnd]:
        """Parse a message of the gateway; a cursor advances with its event. Raises NotAGateway, and `Stopping`."""
        try:
            message = _message.decode(text)
        except (msgspec.DecodeError, UnicodeEncodeError) as error:
            raise NotAGateway(f"A message of {STREAM_SOCKET} is not of the form known here: {error}") from None
        ref = message.ref
        for one in message.events:
            if (stream := self._streams.get(ref)) is None:
                return  # The reader dropped it while the message was on its way.
            data = decoded(stream.read, one.event, bytes(one.data))
            self._cursors[ref] = one.id or self._cursors[ref]
            yield StreamEvent(data, one.event, one.id, ref)
        if message.end == "stopping":
            raise Stopping
        if message.end == "behind" and ref in self._streams:
            self._ask(ref)
        elif message.end is not None and self._streams.pop(ref, None) is not None:
            yield StreamEnd(ref)
        if len(message.problem) and self._streams.pop(ref, None) is not None:
            yield StreamEnd(ref, refusal(0, bytes(message.problem), None))

    def _add(self, ref: str, stream: Following[Any]) -> str:
        if ref in self._streams:
            raise ValueError(f"the stream {ref!r} is followed already; give this one another `ref`")
        self._streams[ref], self._cursors[ref] = stream, stream.since
        self._ask(ref)
        return ref

    def _ask(self, ref: str) -> None:
        stream, since = self._streams[ref], self._cursors[ref]
        path = stream.path + (f"?{urlencode(stream.query)}" if stream.query else "")
        self._asked.append({"op": "subscribe", "ref": ref, "path": path, **({"since": since} if since else {})})


class Stopping(Exception):
    """Raised if the gateway ends its streams because it stops; another will follow."""


def watching(watched: Watched, retries: RetryPolicy) -> Flow[None]:
    """Yield what is received until every stream is over. Raises InterlockError: a refusal of the connection itself, or
    no gateway for too long."""
    away = Outage()
    while not watched.is_over:
        reply: HttpReply | ConnectionCut = yield Connect(STREAM_SOCKET)
        if isinstance(reply, HttpReply) and reply.status == 101:
            if away.since is not None:
                now: float = yield Now()
                yield Give(Reattached(now - away.since))
                away.back()
            received, why = yield from _connection(watched)
            if why is None:
                return
            away.broke(why, received=received)
        else:
            away.refused(reply)
        yield from away.wait(reply, retries, f"The streams of {STREAM_SOCKET}")


def _connection(watched: Watched) -> Flow[tuple[bool, str | None]]:
    """Follow over one connection; returns whether anything was received, and why it was lost, None if nothing is
    left."""
    watched.restart()
    received = False
    while True:
        for text in watched.asks():
            lost: ConnectionCut | None = yield SendMessage(text)
            if lost is not None:
                return received, lost.why
        if watched.is_over:
            return received, None
        came: str | ConnectionCut | None = yield ReceiveMessage(BREATH_S)
        if isinstance(came, ConnectionCut):
            return received, came.why
        if came is None:
            continue
        received = True
        try:
            for item in watched.take(came):
                yield Give(item)
        except Stopping:
            return received, "the gateway is being stopped"
