"""Reading of a stream: pages by polling, and server-sent events, from one cursor (S-1, S-2)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple

import structlog
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from interlock.engine.viewers.stream_items import Durable, Item
from interlock.engine.viewers.viewers import Behind, StreamViewer
from interlock.gateway.rest import cursors
from interlock.gateway.rest.routes import ApiRequest, media_ranges
from interlock.protocol.api.operation import SSE
from interlock.protocol.problems import Place, Problem

SEND_STALL_S = 15
"""A viewer whose write waits this long is disconnected: it resumes from its cursor (S-4). On a busy stream that is less
than 30 s after it stopped reading: the kernel's buffer for it is bounded, and soon full."""
RETRY_MS = 1_000
"""After a lost connection a browser reconnects this soon."""
KEEP_ALIVE = b": hb\n\n"
BEHIND = b'event: behind\ndata: {"code":"Behind","detail":"Too slow to keep up; resume from your cursor."}\n\n'

REFUSED = (b'event: unauthorized\ndata: {"code":"Unauthorized","detail":"The credential of this stream is accepted no '
           b'more."}\n\n')
"""The last event of a stream whose credential was revoked, or has expired."""
BEAT_SOON_S = 0.001
"""Maximum delay of a due keep-alive, for a reader that is still busy."""
END_TIMEOUT_S = 1.0
"""Timeout for sending that to such a stream."""

log = structlog.get_logger("interlock.gateway")


Render = Callable[[Sequence[Item]], list[bytes]]
"""Encodes a burst as server-sent events, without what is not shown. The list may be shared by viewers."""


def each(render: Callable[[Item], bytes | None]) -> Render:
    """Return a renderer that encodes a burst item by item; None omits one."""
    return lambda burst: [part for item in burst if (part := render(item)) is not None]


class StreamQuery(NamedTuple):
    """A reader's position in a stream, and the form it reads."""

    stream: str
    after: int
    limit: int
    wait_s: int
    sse: bool


async def asked(call: ApiRequest, stream: str, snapshot: str) -> StreamQuery:
    """Read cursor and form from a request; Last-Event-ID takes precedence over `since` and `last` (S-1). `last=N`
    starts N events before the end, or at the first that is stored. Raises Problem InvalidPayload, or CursorExpired with
    the path of the `snapshot` if the cursor is before what is stored."""
    headers = call.request.headers
    sse = call.request.method == "GET" and SSE in media_ranges(headers.getlist("accept"))
    last = headers.get("last-event-id") if sse else None
    since = last or call.query("since")
    after = cursors.number(stream, since) if since else 0
    head = await call.front.desk.ledger.head(call.principal.tenant_id, stream)
    if call.query("last") is not None and not last:
        if since:
            raise Problem("InvalidPayload", "`last` begins before the end, `since` behind an event; send one of them.",
                          errors=(Place("last", "not with `since`"),))
        return StreamQuery(stream, max(0, head - call.number("last")),
                           call.number("limit"), call.number("wait"), sse)
    if after > head:
        raise Problem("InvalidPayload", "The cursor lies past the end of the stream.")
    if after and after < head:
        first = await call.front.desk.ledger.events(call.principal.tenant_id, stream, after, 1)
        if not first or first[0].n != after + 1:
            raise Problem("CursorExpired", f"What follows the cursor is no longer kept; the snapshot is {snapshot}.",
                          hint=f"Start again from {snapshot}.", headers={"Link": f'<{snapshot}>; rel="alternate"'})
    return StreamQuery(stream, after, call.number("limit"),
                       call.number("wait"), sse)


class StreamPage(NamedTuple):
    """A page by polling: transient items are only at the end of the last page. `previous_cursor` is its start, None if
    nothing earlier is stored."""

    items: Sequence[Item]
    next_cursor: str
    has_more: bool
    previous_cursor: str | None


async def page(call: ApiRequest, wanted: StreamQuery, *, wait: bool = True) -> StreamPage:
    """Read a page; without a durable event, wait for the first one as long as requested (S-1)."""
    items: Sequence[Item] = await _gather(call, wanted)
    if wait and wanted.wait_s and not _durables(items):
        await _first_durable(call, wanted)
        items = await _gather(call, wanted)
    durables = _durables(items)
    has_more = len(durables) > wanted.limit
    if has_more:
        items = durables[:wanted.limit]
    last = max((item.n for item in _durables(items)), default=wanted.after)
    return StreamPage(items, cursors.stream_cursor(wanted.stream, last), has_more, _in_front(wanted, _durables(items)))


class EarlierQuery(NamedTuple):
    """The page that ends with the event `end`, if a reader requests it."""

    start: StreamQuery
    end: int
    head: int


async def asked_before(call: ApiRequest, stream: str) -> EarlierQuery:
    """Read which page a request with `before` is about. Raises Problem InvalidPayload."""
    if SSE in media_ranges(call.request.headers.getlist("accept")):
        raise Problem("InvalidPayload", "`before` reads a page backwards, which no stream does; leave it out, or ask "
                      "for JSON.", errors=(Place("before", "not of a stream"),))
    if both := [name for name in ("since", "last") if call.query(name) is not None]:
        raise Problem("InvalidPayload", f"`before` is where a page ends, `{both[0]}` where one begins; send only one.",
                      errors=(Place("before", f"not with `{both[0]}`"),))
    end = cursors.number(stream, call.query("before") or "", "before")
    head = await call.front.desk.ledger.head(call.principal.tenant_id, stream)
    if end > head:
        raise Problem("InvalidPayload", "The cursor lies past the end of the stream.",
                      errors=(Place("before", "past the end"),))
    limit = call.number("limit")
    return EarlierQuery(StreamQuery(stream, max(0, end - limit), limit, 0, sse=False), end, head)


async def page_before(call: ApiRequest, wanted: EarlierQuery) -> StreamPage:
    """Read the page that ends at a cursor: the stored part of it, which may be empty."""
    stream, after = wanted.start.stream, wanted.start.after
    events = await call.front.desk.ledger.events(call.principal.tenant_id, stream, after, wanted.end - after) \
        if wanted.end > after else []
    items = [Durable(event.n, event.kind, event.body, event.at_ms) for event in events if event.n <= wanted.end]
    return StreamPage(items, cursors.stream_cursor(stream, wanted.end), wanted.end < wanted.head,
                      _in_front(wanted.start, items) if items else None)


def _in_front(wanted: StreamQuery, durables: Sequence[Durable]) -> str | None:
    """Return the start of a page, if anything earlier is stored: numbers have no gap except for pruned ones."""
    is_first = not wanted.after or (durables and durables[0].n > wanted.after + 1)
    return None if is_first else cursors.stream_cursor(wanted.stream, wanted.after)


async def _gather(call: ApiRequest, wanted: StreamQuery) -> list[Item]:
    """Return the current items, up to one durable event more than a page."""
    items: list[Item] = []
    async with call.front.desk.viewers.join(call.principal.tenant_id, wanted.stream, wanted.after, wanted.limit + 1,
                                            call.reader) as viewer:
        while len(_durables(items)) <= wanted.limit:
            burst = await viewer.next(0)
            if not burst:
                break
            items += burst
    return items


async def _first_durable(call: ApiRequest, wanted: StreamQuery) -> None:
    async with call.front.desk.viewers.join(call.principal.tenant_id, wanted.stream, wanted.after,
                                            reader=call.reader) as viewer:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wanted.wait_s):
                async for burst in viewer:
                    if _durables(burst):
                        return


def _durables(items: Sequence[Item]) -> list[Durable]:
    return [item for item in items if isinstance(item, Durable)]


def event(name: str, data: bytes, cursor: str | None = None) -> bytes:
    """Encode one server-sent event. JSON has line ends only between its tokens, so they may split data lines."""
    lines = b"\ndata: ".join(data.splitlines()) if b"\n" in data or b"\r" in data else data
    lead = f"id: {cursor}\nevent: {name}\ndata: " if cursor is not None else f"event: {name}\ndata: "
    return lead.encode() + lines + b"\n\n"


Begin = Callable[[int, Sequence[tuple[bytes, bytes]]], Message]


def _begin(status: int, headers: Sequence[tuple[bytes, bytes]]) -> Message:
    return {"type": "http.response.start", "status": status, "headers": headers}


class EventStream:
    """A response that stays open. `render` encodes a burst; `beat` returns what is sent every interval; `finished`
    returns, after a burst, whether the server closes. A burst is one write (S-4)."""

    def __init__(
        self,
        joining: AbstractAsyncContextManager[StreamViewer],
        render: Render,
        beat: Callable[[], bytes],
        interval_s: float,
        finished: Callable[[Sequence[Item]], Awaitable[bool]],
    ) -> None:
        self._joining = joining
        self._render = render
        self._beat = beat
        self._interval_s = interval_s
        self._finished = finished
        self.ended_by_gateway = False
        """Whether it stopped because the gateway stops, and not because it is complete."""
        self._lost = asyncio.Event()
        self._begin: Begin = _begin

    def begin_with(self, begin: Begin) -> None:
        """Start the response with the message that `begin` makes of its status and headers."""
        self._begin = begin

    def end_with(self, lost: asyncio.Event) -> None:
        """End once `lost` is set: the credential that it was opened with has ended."""
        self._lost = lost

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the stream is finished, ended by the gateway, or the client leaves."""
        bound(scope)
        sending = asyncio.ensure_future(self._send_all(send))
        leaving = asyncio.ensure_future(_disconnect(receive))
        losing = asyncio.ensure_future(self._lost.wait())
        try:
            await asyncio.wait((sending, leaving, losing), return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
            elif losing.done():
                await _end_between_writes(sending, send)
        except TimeoutError:
            log.info("viewer_stalled", path=scope["path"])
            await abort(scope)
        finally:
            sending.cancel()
            leaving.cancel()
            losing.cancel()
            await asyncio.gather(sending, leaving, losing, return_exceptions=True)

    async def _send_all(self, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-store"),
                   (b"x-accel-buffering", b"no")]
        await send(self._begin(200, headers))
        await _write(send, b"retry: %d\n\n" % RETRY_MS)
        try:
            async for parts in self.bursts():
                await _write(send, b"".join(parts))
        except Behind:
            await _write(send, BEHIND)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def bursts(self) -> AsyncGenerator[list[bytes]]:
        """Yield one list of server-sent events for each burst, until the stream is finished or the gateway ends it.
        Raises Behind."""
        loop = asyncio.get_running_loop()
        beat_at = loop.time() + self._interval_s
        async with self._joining as viewer:
            while not viewer.ended:
                # Not 0, which would wait for a page without an end, and without a beat.
                burst = await viewer.next(max(BEAT_SOON_S, beat_at - loop.time()))
                parts = self._render(burst)
                if loop.time() >= beat_at:
                    parts = [*parts, self._beat()]
                    beat_at = loop.time() + self._interval_s
                if parts:
                    yield parts
                if burst and await self._finished(burst):
                    return
            self.ended_by_gateway = True


def bound(scope: Scope) -> None:
    """Limit the kernel's buffer for a viewer that reads slowly: what waits here is counted, and can be dropped."""
    way: Callable[[], None] | None = scope.get("state", {}).get("bound")
    if way is not None:
        way()


async def abort(scope: Scope) -> bool:
    """Abort the connection of a client that reads nothing: its buffer is dropped, and its descriptor freed. False
    without a socket."""
    end: Callable[[], None] | None = scope.get("state", {}).get("abort")
    if end is None:
        return False
    end()
    await asyncio.sleep(0)  # The server notes the end before the answer returns unfinished.
    return True


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _end_between_writes(sending: asyncio.Task[None], send: Send) -> None:
    """End a stream between two of its writes."""
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    async with asyncio.timeout(END_TIMEOUT_S):
        await send({"type": "http.response.body", "body": REFUSED, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _write(send: Send, data: bytes) -> None:
    async with asyncio.timeout(SEND_STALL_S):
        await send({"type": "http.response.body", "body": data, "more_body": True})


def nothing_more() -> Response:
    """Return the response to a reconnect past the end of a finished stream (S-2)."""
    return Response(status_code=204)


async def never(_burst: Sequence[Item]) -> bool:
    """Return False: the stream has no end of its own."""
    return False
