"""`/v1/stream`: any number of the API's streams over one WebSocket, each from its own cursor (section 4, S-1, S-6).

A reader sends `{"op": "subscribe", "ref": "a", "path": "/v1/commands/ID/status", "since": CURSOR}` for any path that
returns server-sent events, and `{"op": "unsubscribe", "ref": "a"}`. The gateway sends `{"ref": "a", "events":
[{"event", "id", "data"}, …]}`, one message for each burst, whose ids and data are those of the server-sent events, byte
for byte; one without events every 15 s, so that a page, which sees no pings, notices a connection that is lost; and at
the end of a stream `{"ref": "a", "end": "over" | "behind" | "stopping" | "unsubscribed"}`, or `{"ref": "a", "problem":
{…}}` if it cannot begin.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, suppress
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec
import structlog
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from interlock.engine.viewers.viewers import Behind
from interlock.gateway.rest.answers import encode, problem_document
from interlock.gateway.rest.streams import END_TIMEOUT_S, KEEP_ALIVE, SEND_STALL_S, EventStream, abort, bound
from interlock.protocol.api.operation import STREAM_SOCKET
from interlock.protocol.problems import Problem
from interlock.protocol.records import Principal

PATHS = frozenset({STREAM_SOCKET, STREAM_SOCKET.removeprefix("/v1")})
MAX_STREAMS = 64
"""Streams that one connection follows at a time."""
MAX_ASKED = 2 * MAX_STREAMS
"""Requests that are open or not answered yet; with one more the connection is closed: its reader sends without reading
the refusals."""
MAX_REQUEST_CHARS = 16_384
MAX_REF_CHARS = 64
STALLED = 4408
"""Close code: the reader read nothing for SEND_STALL_S; it resumes from its cursors."""
BAD_REQUEST = 4400
"""Close code: a message is not a request, and names no stream."""
UNAUTHORIZED = 4401
"""Close code: the credential that opened it has ended."""

log = structlog.get_logger("interlock.gateway")

Answer = Callable[[Request, Principal], Awaitable[ASGIApp]]
"""Finds and checks an operation as for any request, and returns its response. Raises Problem."""


Counted = Callable[[], AbstractContextManager[None]]
"""Counts one stream of the connection's principal while it is open. Raises Problem RateLimited."""


class _Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A message of a reader."""

    op: Literal["subscribe", "unsubscribe"]
    ref: str
    path: str = ""
    since: str | None = None


_asked = msgspec.json.Decoder(_Asked, strict=True)


class _Gone(Exception):
    """Raised if the connection is over; `code` is its close code, None if the reader left."""

    def __init__(self, code: int | None = None, sentence: str = "") -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence


class Socket:
    """A connection: its subscriptions, each a task of its own, and one writer at a time."""

    def __init__(self, answer: Answer, counted: Counted, principal: Principal, scope: Scope, receive: Receive,
                 send: Send) -> None:
        self._answer = answer
        self._counted = counted
        self._principal = principal
        self._scope = scope
        self._receive = receive
        self._send = send
        self._streams: dict[str, asyncio.Task[None]] = {}
        self._writing = asyncio.Lock()
        self._gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def serve(self, lost: asyncio.Event) -> None:
        """Accept, then follow the requested streams until either side ends it, or its credential is `lost`."""
        bound(self._scope)
        await self._send({"type": "websocket.accept"})
        reading = asyncio.ensure_future(self._read_all())
        losing = asyncio.ensure_future(lost.wait())
        try:
            await asyncio.wait((reading, self._gone, losing), return_when=asyncio.FIRST_COMPLETED)
            if losing.done():
                with suppress(TimeoutError):
                    async with asyncio.timeout(END_TIMEOUT_S):
                        await self._send({"type": "websocket.close", "code": UNAUTHORIZED,
                                          "reason": "the credential is accepted no more"})
                return
            gone = (self._gone.exception() if self._gone.done() else None) or reading.exception()
            if isinstance(gone, _Gone) and gone.code == STALLED and await abort(self._scope):
                log.info("viewer_stalled", path=self._scope["path"])  # A close frame would not reach the client.
            elif isinstance(gone, _Gone) and gone.code is not None:
                await self._send({"type": "websocket.close", "code": gone.code, "reason": gone.sentence})
        finally:
            tasks: list[asyncio.Task[Any]] = [reading, losing, *self._streams.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _read_all(self) -> None:
        await self._receive()  # websocket.connect, which was answered with the accept.
        while True:
            self._take(_text(await self._receive()))

    def _take(self, text: str) -> None:
        try:
            request = _asked.decode(text)
        except (msgspec.DecodeError, UnicodeEncodeError) as error:
            raise _Gone(BAD_REQUEST, f"no request: {str(error)[:80]}") from None
        if not 0 < len(request.ref) <= MAX_REF_CHARS:
            raise _Gone(BAD_REQUEST, f"a ref has 1 to {MAX_REF_CHARS} characters")
        running = self._streams.get(request.ref)
        if len(self._streams) >= MAX_ASKED and running is None:
            raise _Gone(BAD_REQUEST, f"{MAX_ASKED} requests are open or wait for their answers")
        if request.op == "unsubscribe":
            if running is not None:
                running.cancel()
            return
        if running is not None:
            raise _Gone(BAD_REQUEST, f"the ref {request.ref[:40]!r} is in use")
        task = asyncio.ensure_future(self._follow(request))
        self._streams[request.ref] = task
        task.add_done_callback(lambda _: self._streams.pop(request.ref, None))

    async def _follow(self, pending: _Asked) -> None:
        try:
            try:
                if len(self._streams) > MAX_STREAMS:
                    raise Problem("QuotaExceeded", f"One connection follows {MAX_STREAMS} streams at most.",
                                  hint="Unsubscribe from one, or open another connection.")
                with self._counted():
                    stream = await self._answer(self._request(pending), self._principal)
                    how = await self._pass_on(pending.ref, stream)
            except Problem as problem:
                document = encode(problem_document(problem, urlsplit(pending.path).path))
                await self._write(b'{"ref":%s,"problem":%s}' % (encode(pending.ref), document))
                return
            await self._end(pending.ref, how)
        except asyncio.CancelledError:
            if not self._gone.done():
                with suppress(_Gone):
                    await self._end(pending.ref, "unsubscribed")
            raise
        except _Gone as gone:
            if not self._gone.done():
                self._gone.set_exception(gone)
        except Exception:
            log.exception("stream_failed", path=pending.path)  # The boundary of one stream: the others continue.
            problem = Problem("InternalError", "Something failed inside the gateway; its log has the details.")
            await self._write(b'{"ref":%s,"problem":%s}' % (encode(pending.ref), encode(problem_document(problem, ""))))

    async def _pass_on(self, ref: str, stream: ASGIApp) -> str:
        if not isinstance(stream, EventStream):
            return "over"  # 204: nothing more will come (S-2).
        lead = b'{"ref":%s,"events":[' % encode(ref)
        ended = False
        try:
            async for parts in stream.bursts():
                events = [written for part in parts if (written := as_json(part)) is not None]
                await self._write(lead + b",".join(events) + b"]}")
            ended = stream.ended_by_gateway
        except Behind:
            return "behind"
        return "stopping" if ended else "over"

    def _request(self, pending: _Asked) -> Request:
        """Return the request that would open the same stream separately."""
        parts = urlsplit(pending.path)
        headers = [(b"accept", b"text/event-stream")]
        if pending.since is not None:
            headers.append((b"last-event-id", pending.since.encode("latin-1", "replace")))
        scope: dict[str, Any] = {**self._scope, "type": "http", "method": "GET", "path": parts.path,
                                 "raw_path": parts.path.encode(), "query_string": parts.query.encode(),
                                 "headers": headers}
        return Request(scope)

    async def _end(self, ref: str, how: str) -> None:
        await self._write(b'{"ref":%s,"end":"%s"}' % (encode(ref), how.encode()))

    async def _write(self, data: bytes) -> None:
        try:
            async with asyncio.timeout(SEND_STALL_S), self._writing:
                await self._send({"type": "websocket.send", "text": data.decode()})
        except TimeoutError:
            raise _Gone(STALLED, "too slow to keep up; resume from your cursors") from None
        except OSError:  # uvicorn's ClientDisconnected: either side has closed the connection meanwhile.
            raise _Gone from None


def as_json(part: bytes) -> bytes | None:
    """Return one server-sent event as JSON, its data unchanged; None for one that only keeps a connection alive."""
    if part == KEEP_ALIVE:
        return None
    members: dict[bytes, bytes] = {}
    data: list[bytes] = []
    for line in part.rstrip(b"\n").split(b"\n"):
        name, _, value = line.partition(b": ")
        if name == b"data":
            data.append(value)
        else:
            members[name] = value
    lead = b'"id":"%s",' % members[b"id"] if b"id" in members else b""
    return b'{%s"event":"%s","data":%s}' % (lead, members[b"event"], b"\n".join(data))


def _text(message: Message) -> str:
    if message["type"] != "websocket.receive":
        raise _Gone
    text = message.get("text")
    if text is None:
        raise _Gone(BAD_REQUEST, "a request is a text message")
    if len(text) > MAX_REQUEST_CHARS:
        raise _Gone(BAD_REQUEST, f"a request has at most {MAX_REQUEST_CHARS} characters")
    return text
