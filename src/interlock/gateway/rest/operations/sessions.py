"""Operations on sessions and their frames, and the tenant's feed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable

import msgspec
from starlette.types import ASGIApp

from interlock.engine.bridge.context.compaction import RequestedCompaction
from interlock.engine.viewers.stream_items import Durable, Item
from interlock.gateway.rest import cursors, streams
from interlock.gateway.rest.answers import encode, json_answer, raw_answer
from interlock.gateway.rest.filtered_pages import contains, scan
from interlock.gateway.rest.operations.session_report import read_report
from interlock.gateway.rest.request.request_guard import allow
from interlock.gateway.rest.routes import ApiRequest, Handler
from interlock.gateway.rest.service import Remember
from interlock.gateway.rest.views import StreamViewFilter, deliver, frame_event, frames_rendering, primed
from interlock.ports.ledger import SessionFilter
from interlock.protocol.answers import FeedPage, FramePage, SessionPage
from interlock.protocol.api import sessions as api
from interlock.protocol.api.operation import RAW_VIEWERS
from interlock.protocol.identifiers import session_stream, tenant_stream
from interlock.protocol.limits import PAGE_MAX
from interlock.protocol.problems import Problem
from interlock.protocol.records import IdempotencyRecord, SessionRecord
from interlock.protocol.resources import Compaction, Session

LIST = "list/sessions"


async def listing(call: ApiRequest) -> ASGIApp:
    """GET /sessions."""
    limit = call.number("limit")
    minutes = call.number("active")
    text, wanted = call.query("cursor"), call.text("q")
    desk, tenant = call.front.desk, call.principal.tenant_id
    waiting = await _waiting(call)
    only = SessionFilter(call.text("state"), call.text("agent"), call.text("runner"), call.text("workspace"),
                         call.text("key"), sorted(waiting) if call.choice("waiting") else None)

    def found(record: SessionRecord) -> bool:
        shown = desk.sessions.shown(record)
        return contains(wanted or "", shown.session_id, shown.session_key, shown.title, shown.agent_id, shown.workspace)

    records, after = await scan(
        lambda before, count: desk.ledger.sessions(tenant, count, before, only),
        lambda record: (record.updated_ms, record.session_id), found if wanted else None,
        _place(text) if text else None, limit)
    if minutes:
        since_ms = desk.sessions.active_after_ms(minutes)
        after = after if after is not None and after[0] >= since_ms else None
        records = [record for record in records if record.updated_ms >= since_ms]
    items = [_counted(desk.sessions.shown(record), waiting[record.session_id]) for record in records]
    following = cursors.cursor(LIST, f"{after[0]}/{after[1]}") if after is not None else None
    return json_answer(SessionPage(items, following, after is not None))


async def show(call: ApiRequest) -> ASGIApp:
    """GET /sessions/{id}."""
    record, desk = await find_session(call), call.front.desk
    live = await desk.ledger.live_approvals(record.session_id, record.tenant_id)
    waiting = sum(one.approval.state == "pending" for one in live)
    reported = await read_report(desk.ledger, record)
    return json_answer(msgspec.structs.replace(_counted(desk.sessions.shown(record), waiting), plan=reported.plan,
                                               settings=reported.settings))


async def _waiting(call: ApiRequest) -> Counter[str]:
    """Count the pending approvals by session: the newest PAGE_MAX of them."""
    pending = await call.front.desk.ledger.approvals(call.principal.tenant_id, "pending", None, PAGE_MAX)
    return Counter(record.approval.session_id for record in pending)


def _counted(session: Session, waiting: int) -> Session:
    return msgspec.structs.replace(session, waiting=waiting)


async def close(call: ApiRequest) -> ASGIApp:
    """POST /sessions/{id}/close."""
    desk = call.front.desk
    return await change(call, lambda session_id, remember: desk.sessions.close(
        call.principal, session_id, call.body.reason, remember))


async def release(call: ApiRequest) -> ASGIApp:
    """POST /sessions/{id}/release."""
    desk = call.front.desk
    return await change(call, lambda session_id, remember: desk.sessions.release(
        call.principal, session_id, call.body.to, remember))


async def change(call: ApiRequest, change: Callable[[str, Remember], Awaitable[SessionRecord]]) -> ASGIApp:
    """Change a session by one of the service's methods, and return its new state."""
    memory = call.memory
    assert memory is not None
    desk = call.front.desk
    known = await find_session(call)

    def remember(record: SessionRecord) -> IdempotencyRecord:
        whole = msgspec.structs.replace(record, created_ms=known.created_ms)
        location = {"Location": f"/v1/sessions/{known.session_id}"}
        return memory.keep(200, encode(desk.sessions.shown(whole)), location)

    changed = await change(known.session_id, remember)
    answer = memory.record or remember(changed)
    return raw_answer(answer.body, answer.status, answer.headers)


async def compact(call: ApiRequest) -> ASGIApp:
    """POST /sessions/{id}/compact."""
    memory = call.memory
    assert memory is not None
    session_id = (await find_session(call)).session_id

    def remember(requested: RequestedCompaction) -> IdempotencyRecord:
        cursor = cursors.stream_cursor(session_stream(session_id), requested.n)
        accepted = Compaction(session_id=session_id, request_id=requested.request_id, message_id=requested.message_id,
                          cursor=cursor)
        return memory.keep(202, encode(accepted), {"Location": f"/v1/sessions/{session_id}"})

    compaction = await call.front.desk.sessions.compact(call.principal, session_id, call.body.instructions, remember)
    answer = memory.record or remember(compaction)
    return raw_answer(answer.body, answer.status, answer.headers)


async def frames(call: ApiRequest) -> ASGIApp:
    """GET /sessions/{id}/frames."""
    view = call.choice("view") or "delivered"
    if view == "raw":
        allow(call.principal, RAW_VIEWERS)
    session_id = (await find_session(call)).session_id
    if call.query("before") is not None:
        return await _frames_before(call, session_stream(session_id), view)
    wanted = await streams.asked(call, session_stream(session_id), f"/v1/sessions/{session_id}")
    see = await primed(call, deliver(view, wanted.stream), wanted)
    render = frames_rendering(wanted.stream, see)
    if wanted.sse:
        return _open(call, wanted, render)
    return _frame_page(await streams.page(call, wanted), see)


async def _frames_before(call: ApiRequest, stream: str, view: str) -> ASGIApp:
    wanted = await streams.asked_before(call, stream)
    see = await primed(call, deliver(view, stream), wanted.start)
    return _frame_page(await streams.page_before(call, wanted), see)


def _frame_page(page: streams.StreamPage, see: StreamViewFilter) -> ASGIApp:
    seen = [shown for item in page.items if (shown := see(item)) is not None]
    return json_answer(FramePage([msgspec.Raw(frame_event(item)) for item in seen], page.next_cursor, page.has_more,
                                 page.previous_cursor))


async def feed(call: ApiRequest) -> ASGIApp:
    """GET /events."""
    wanted = await streams.asked(call, tenant_stream(call.principal.tenant_id), "/v1/commands")

    def render(item: Item) -> bytes | None:
        if not isinstance(item, Durable):
            return None
        return streams.event("feed", item.body, cursors.stream_cursor(wanted.stream, item.n))

    if wanted.sse:
        return _open(call, wanted, streams.each(render))
    page = await streams.page(call, wanted)
    bodies = [msgspec.Raw(item.body) for item in page.items if isinstance(item, Durable)]
    return json_answer(FeedPage(bodies, page.next_cursor, page.has_more))


def _place(text: str) -> tuple[int, str]:
    """Parse the end of a page: when its last session changed, and its id. Raises Problem."""
    updated_ms, slash, session_id = cursors.place(LIST, text, "cursor").partition("/")
    if not slash:  # Issued before ids were part of it: what changed in that very millisecond is shown again.
        return int(updated_ms) + 1, ""
    return int(updated_ms), session_id


def _open(call: ApiRequest, wanted: streams.StreamQuery, render: streams.Render) -> ASGIApp:
    joining = call.front.desk.viewers.join(call.principal.tenant_id, wanted.stream, wanted.after,
                                              reader=call.reader)
    return streams.EventStream(joining, render, lambda: streams.KEEP_ALIVE, call.front.heartbeat_s, streams.never)


async def find_session(call: ApiRequest) -> SessionRecord:
    """Return the session that the path names. Raises Problem NotFound, also for another tenant's (K-1)."""
    session_id = call.path["session_id"]
    record = await call.front.desk.ledger.session(session_id, call.principal.tenant_id)
    if record is None:
        raise Problem("NotFound", f"There is no session {session_id}.", hint="List them with `GET /v1/sessions`.")
    return record


HANDLERS: tuple[Handler, ...] = (
    Handler(api.LIST_SESSIONS, listing),
    Handler(api.GET_SESSION, show),
    Handler(api.CLOSE_SESSION, close),
    Handler(api.COMPACT_SESSION, compact),
    Handler(api.RELEASE_SESSION, release),
    Handler(api.GET_FRAMES, frames),
    Handler(api.GET_FEED, feed),
)
