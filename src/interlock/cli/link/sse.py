"""Reader of a server-sent stream: a cut is reported, and reading continues from there (S-1, S-2)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, NamedTuple, TypeAlias, cast

import msgspec

from interlock.cli.link.gateway_link import RETRY_POLICY, GatewayLink, decoded, unreachable
from interlock.cli.verb_error import Trouble
from interlock.protocol.api.operation import SSE
from interlock.sdk.exchange import ConnectionCut, Flow, Give, HttpReply, Now, Open, ReadMore, RequestSpec, Rest
from interlock.sdk.follower import EventParser
from interlock.sdk.problems import NotAGateway

GIVE_UP_S = 600.0
"""Time without a gateway after which the reader gives up; the work continues without it."""
REPLAY_PAGE = 500
REPLAY_HELD = 2_000
"""Maximum number of replayed events that are held back until they can be counted; if there are more, this minimum is
reported."""


class SseEvent(NamedTuple):
    """An event: its data, and its cursor if it is durable."""

    data: dict[str, Any]
    cursor: str | None


class StreamLost(NamedTuple):
    """The stream was cut, and is being resumed. `why` is "" if only the connection ended."""

    why: str


class StreamResumed(NamedTuple):
    """The stream continues, `away_s` after it broke: `replayed` durable events that were missed follow, with `more` at
    least that number."""

    replayed: int
    away_s: float
    more: bool = False


class CursorForgotten(NamedTuple):
    """The events after the cursor are not stored any more: the stream begins with the first stored one."""


SseItem: TypeAlias = SseEvent | StreamLost | StreamResumed | CursorForgotten


class _Page(msgspec.Struct):
    """A response of the stream's poll form (S-1)."""

    events: list[dict[str, Any]]
    next_cursor: str | None = None
    has_more: bool = False


class SseStream:
    """A durable stream, read from after `cursor` until the gateway ends it.

    `cursor` is that of the last durable event that was yielded.
    """

    def __init__(self, link: GatewayLink, path: str, cursor: str | None = None) -> None:
        self.cursor = cursor
        self._link = link
        self._path = path

    def __aiter__(self) -> AsyncGenerator[SseItem]:
        """Yield the events. Raises Trouble if the stream is refused, or the gateway does not return within
        GIVE_UP_S."""
        return self._link.follow(self._following())

    def _following(self) -> Flow[None]:
        away: _Away | None = None
        while True:
            try:
                if away is not None:
                    yield from self._reattach(away)
                    away = None
                yield from self._live()
                return
            except _Cut as cut:
                if away is None:
                    yield Give(StreamLost(cut.why))
                now: float = yield Now()
                away = away or _Away(now)
                away.attempts += 1
                if now - away.since > GIVE_UP_S:
                    raise cut.trouble from None
                wait_s = max(RETRY_POLICY.pause(away.attempts), cut.trouble.retry_after_s or 0)
            except Trouble as trouble:
                if trouble.code != "CursorExpired" or self.cursor is None:
                    raise
                self.cursor = None
                yield Give(CursorForgotten())
                continue
            yield Rest(wait_s)
            self._link.find_again()

    def _reattach(self, away: _Away) -> Flow[None]:
        """Yield how many durable events follow the cursor, and then the events. The cursor stays before the events that
        are held back: a reader that stops meanwhile has not seen them."""
        reached, held, is_resumed, more = self.cursor, list[SseEvent](), False, True
        while more:
            page = yield from self._page(reached)
            more = page.has_more and bool(page.events)
            for event in page.events:
                # A delta has no number: the gateway sends it again.
                sent = SseEvent(event, page.next_cursor if "n" in event or "event" in event else None)
                if is_resumed:
                    yield Give(sent)
                    continue
                held.append(sent)
                if len(held) == REPLAY_HELD:
                    is_resumed = True
                    yield from _resumed(held, away, more=True)
                    self.cursor = reached
            reached = page.next_cursor or reached
            if is_resumed:
                self.cursor = reached
        if not is_resumed:
            yield from _resumed(held, away)
            self.cursor = reached

    def _page(self, since: str | None) -> Flow[_Page]:
        """Read a page of durable events, so that the replayed ones can be counted."""
        params = {"limit": str(REPLAY_PAGE), **({} if since is None else {"since": since})}
        try:
            raw = yield from self._link.asking(RequestSpec("GET", self._path, bytes, query=params))
        except Trouble as trouble:
            raise _passing(trouble) from None
        return decoded(raw, _Page, self._path)

    def _live(self) -> Flow[None]:
        request = RequestSpec("GET", self._path, bytes, accept=SSE, last_event_id=self.cursor)
        opened: HttpReply | ConnectionCut = yield Open(request)
        try:
            if self._link.accepted(request, opened).status == 204:  # Nothing follows: the stream had ended (S-2).
                return
        except Trouble as trouble:
            raise _passing(trouble, lost=isinstance(opened, ConnectionCut)) from None
        why = yield from self._events()
        # A gateway that stops ends its streams; the missing events can be read when it is back.
        raise _Cut(why, Trouble("Unreachable", f"The gateway at {self._link.address.url} {why}.",
                                "Look for it with: interlock status"))

    def _events(self) -> Flow[str]:
        """Yield the events of one connection; returns why it ended."""
        why, lines = "it ended the stream", EventParser()
        while True:
            piece: bytes | ConnectionCut = yield ReadMore()
            if isinstance(piece, ConnectionCut):
                raise _Cut("", unreachable(self._link.address, piece.why))
            if not piece:
                return why
            try:
                found = list(lines.feed(piece))
            except NotAGateway:
                raise Trouble("UpstreamError", "An event of the stream has no end.",
                              "Is this the URL of a gateway?") from None
            for cursor, _, data in found:
                event = _object(data)
                if event.get("code") == "Behind":
                    why = "this terminal was too slow to keep up"
                elif event:
                    self.cursor = cursor or self.cursor
                    yield Give(SseEvent(event, cursor))


def _resumed(held: list[SseEvent], away: _Away, *, more: bool = False) -> Flow[None]:
    """Yield how many events were missed, and then these events."""
    now: float = yield Now()
    yield Give(StreamResumed(_durable(held), now - away.since, more))
    for one in held:
        yield Give(one)


def _durable(events: list[SseEvent]) -> int:
    return sum(one.cursor is not None for one in events)


class _Cut(Exception):
    """Raised if the stream was cut; `trouble` is the error to report if it cannot be resumed."""

    def __init__(self, why: str, trouble: Trouble) -> None:
        super().__init__(why)
        self.why = why
        self.trouble = trouble


class _Away:
    """Time and number of failed attempts since the stream was cut."""

    def __init__(self, since: float) -> None:
        self.since = since
        self.attempts = 0


_PASSING = {"Unreachable", "Unavailable", "RateLimited", "InternalError"}
"""Refusals that a later attempt may not meet."""


def _passing(trouble: Trouble, *, lost: bool = False) -> Exception:
    """Convert a refusal that a later attempt may not meet to a cut, without a reason if only the connection was
    lost."""
    return _Cut("" if lost else trouble.sentence, trouble) if trouble.code in _PASSING else trouble


def _object(data: bytes) -> dict[str, Any]:
    try:
        value: Any = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
