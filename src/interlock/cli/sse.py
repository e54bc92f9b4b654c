"""Reads a server-sent stream for as long as it takes: a cut is said, and the reading goes on from there (S-1, S-2)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple, TypeAlias, cast

import httpx2
import msgspec

from interlock.cli.gateway_link import MANNERS, GatewayLink, decoded, unreachable
from interlock.cli.verb_error import Trouble

GIVE_UP_S = 600.0
"""A gateway that was away for longer is given up; the work goes on without this reader."""
REPLAY_PAGE = 500
MAX_EVENT_CHARS = 4 * 1024 * 1024
"""A stream whose event is longer is not a gateway's."""


REPLAY_HELD = 2_000
"""Events of a replay that are held back until their number can be said before them; of more, at least that is said."""


class SseEvent(NamedTuple):
    """One event: its data, and its cursor where it is durable."""

    data: dict[str, Any]
    cursor: str | None


class StreamLost(NamedTuple):
    """The stream broke; it is being taken up again. `why` is "" where only the connection went."""

    why: str


class StreamResumed(NamedTuple):
    """The stream goes on, `away_s` after it broke: so many durable events follow that were missed; with `more` at least
    so many."""

    replayed: int
    away_s: float
    more: bool = False


class CursorForgotten(NamedTuple):
    """What lies behind the cursor is no longer kept: the stream begins at the start of what is."""


SseItem: TypeAlias = SseEvent | StreamLost | StreamResumed | CursorForgotten


class _Page(msgspec.Struct):
    """What the poll form of a stream answers (S-1)."""

    events: list[dict[str, Any]]
    next_cursor: str | None = None
    has_more: bool = False


class EventLines:
    """Cuts a byte stream into events by the rules of server-sent events; pure."""

    def __init__(self) -> None:
        self._rest = ""
        self._data: list[str] = []
        self._id: str | None = None
        self._size = 0

    def feed(self, text: str) -> list[tuple[str | None, str]]:
        """Take text; give the finished events as (id, data). Raises Trouble for an event without end."""
        self._rest = (self._rest + text).replace("\r\n", "\n")
        *lines, self._rest = self._rest.split("\n")
        out: list[tuple[str | None, str]] = []
        for line in lines:
            if not line:
                if self._data:
                    out.append((self._id, "\n".join(self._data)))
                self._data, self._id, self._size = [], None, 0
                continue
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "data":
                self._data.append(value)
                self._size += len(value)
            elif name == "id":
                self._id = value
        if self._size + len(self._rest) > MAX_EVENT_CHARS:
            raise Trouble("UpstreamError", "An event of the stream has no end.", "Is this the URL of a gateway?")
        return out


class SseStream:
    """One durable stream, read from behind `cursor` until the gateway ends it.

    `cursor` is that of the last durable event given out. The clock and the pause are arguments, so that tests need
    not wait.
    """

    def __init__(
        self,
        link: GatewayLink,
        path: str,
        cursor: str | None = None,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.cursor = cursor
        self._link = link
        self._path = path
        self._sleep = sleep
        self._clock = clock

    async def __aiter__(self) -> AsyncIterator[SseItem]:
        """Give what is heard. Raises Trouble when it is refused, or the gateway stays away for GIVE_UP_S."""
        away: _Away | None = None
        while True:
            try:
                if away is not None:
                    async for heard in self._reattach(away):
                        yield heard
                    away = None
                async for told in self._live():
                    yield told
                return
            except _Cut as cut:
                if away is None:
                    yield StreamLost(cut.why)
                away = away or _Away(self._clock())
                away.attempts += 1
                if self._clock() - away.since > GIVE_UP_S:
                    raise cut.trouble from None
                wait_s = max(MANNERS.pause(away.attempts), cut.trouble.retry_after_s or 0)
            except Trouble as trouble:
                if trouble.code != "CursorExpired" or self.cursor is None:
                    raise
                self.cursor = None
                yield CursorForgotten()
                continue
            await self._sleep(wait_s)
            self._link.find_again()

    async def _reattach(self, away: _Away) -> AsyncIterator[SseItem]:
        """Give what was missed, behind the line that says how much it is. The cursor stays before what is held back:
        anyone who leaves off then has not seen it."""
        start, held, said = self.cursor, list[SseEvent](), False
        try:
            async for told in self._replay():
                if said:
                    yield told
                    continue
                held.append(told)
                if len(held) == REPLAY_HELD:
                    reached, self.cursor, said = self.cursor, start, True
                    yield StreamResumed(_durable(held), self._clock() - away.since, more=True)
                    for one in held:
                        yield one
                    self.cursor = reached
        except (_Cut, Trouble):
            if not said:
                self.cursor = start
            raise
        if not said:
            reached, self.cursor = self.cursor, start
            yield StreamResumed(_durable(held), self._clock() - away.since)
            for one in held:
                yield one
            self.cursor = reached

    async def _replay(self) -> AsyncIterator[SseEvent]:
        """Read what is durable behind the cursor, in pages, so that what is replayed can be counted."""
        more = True
        while more:
            params = {"limit": str(REPLAY_PAGE)}
            if self.cursor is not None:
                params["since"] = self.cursor
            page = decoded(await self._polled(params), _Page, self._path)
            more = page.has_more and bool(page.events)
            for event in page.events:
                # A delta has no number: it will be given again.
                yield SseEvent(event, page.next_cursor if "n" in event or "event" in event else None)
            self.cursor = page.next_cursor or self.cursor

    async def _polled(self, params: dict[str, str]) -> bytes:
        try:
            return await self._link.get(self._path, params)
        except Trouble as trouble:
            if trouble.code in _PASSING:
                raise _Cut(trouble.sentence, trouble) from None
            raise

    async def _live(self) -> AsyncIterator[SseEvent]:
        why = "it ended the stream"
        try:
            async with self._link.stream(self._path, self.cursor) as response:
                if response.status_code == 204:  # Nothing follows: the stream had ended (S-2).
                    return
                lines = EventLines()
                async for text in response.aiter_text():
                    for cursor, data in lines.feed(text):
                        event = _object(data)
                        if event.get("code") == "Behind":
                            why = "this terminal was too slow to keep up"
                        elif event:
                            self.cursor = cursor or self.cursor
                            yield SseEvent(event, cursor)
        except httpx2.TransportError as error:
            raise _Cut("", unreachable(self._link.address, error)) from None
        except Trouble as trouble:
            if trouble.code in _PASSING:
                raise _Cut(trouble.sentence, trouble) from None
            raise
        # A gateway that stops ends its streams; what is missing is there when it is back.
        raise _Cut(why, Trouble("Unreachable", f"The gateway at {self._link.address.url} {why}.",
                                "Look for it with: interlock status"))


def _durable(told: list[SseEvent]) -> int:
    return sum(one.cursor is not None for one in told)


class _Cut(Exception):
    """The stream broke; `trouble` is what to say when it stays so."""

    def __init__(self, why: str, trouble: Trouble) -> None:
        super().__init__(why)
        self.why = why
        self.trouble = trouble


class _Away:
    """How long, and how often in vain, the gateway was asked since the stream broke."""

    def __init__(self, since: float) -> None:
        self.since = since
        self.attempts = 0


_PASSING = {"Unreachable", "Unavailable", "RateLimited", "InternalError"}
"""Refusals that a later attempt may not meet."""


def _object(data: str) -> dict[str, Any]:
    try:
        value: Any = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
