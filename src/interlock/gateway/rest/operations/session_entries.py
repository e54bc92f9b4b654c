"""Operations on a session key's entry: overrides, resets, history, archive (V-2, I-1, I-3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.types import ASGIApp

from interlock.gateway.rest.answers import encode, json_answer, raw_answer
from interlock.gateway.rest.operations.sessions import change, find_session
from interlock.gateway.rest.routes import ApiRequest, Handler
from interlock.protocol.answers import SessionHistory
from interlock.protocol.api import session_entries as api
from interlock.protocol.bodies import EntryBody
from interlock.protocol.problems import Place, Problem
from interlock.protocol.records import IdempotencyRecord, SessionRecord
from interlock.session.store.entry import is_known
from interlock.session.store.store_view import is_the_entrys


async def patch(call: ApiRequest) -> ASGIApp:
    """PATCH /sessions/{session_id}."""
    body, desk = call.body, call.front.desk
    assert isinstance(body, EntryBody)
    wanted: dict[str, Any] = {name: value for name, value in msgspec.to_builtins(body).items()
                              if name not in ("idempotency_key", "unknownFields")}
    others = body.unknown_fields or {}
    for name in others:
        if is_the_entrys(name):
            raise Problem("InvalidPayload", f"/unknownFields/{name}: is a field of the entry itself",
                          errors=(Place(f"/unknownFields/{name}", "is a field of the entry itself"),))
    wanted |= others
    answer = await change(call, lambda session_id, remember: desk.sessions.patch(
        call.principal, session_id, wanted, remember))
    _check(await _kept(call), wanted)
    return answer


async def reset(call: ApiRequest) -> ASGIApp:
    """POST /sessions/{session_id}/reset."""
    memory, desk = call.memory, call.front.desk
    assert memory is not None
    known = await find_session(call)

    def remember(record: SessionRecord) -> IdempotencyRecord:
        location = {"Location": f"/v1/sessions/{record.session_id}"}
        return memory.keep(200, encode(desk.sessions.shown(record)), location)

    begun = await desk.chats.reset(call.principal, known.session_id, remember)
    current = await desk.ledger.session_by_key(known.tenant_id, known.session_key)
    if current is None or current.session_id != begun.session_id:
        raise Problem("InternalError", f"The key {known.session_key} does not point at its new session")
    answer = memory.record or remember(begun)
    return raw_answer(answer.body, answer.status, answer.headers)


async def archive(call: ApiRequest) -> ASGIApp:
    """POST /sessions/{session_id}/archive."""
    desk = call.front.desk
    answer = await change(call, lambda session_id, remember: desk.sessions.archive(
        call.principal, session_id, call.body.reason, remember))
    if "archivedAt" not in await _kept(call):
        raise Problem("InternalError", "The session was not archived")
    return answer


async def restore(call: ApiRequest) -> ASGIApp:
    """POST /sessions/{session_id}/restore."""
    desk = call.front.desk
    answer = await change(call, lambda session_id, remember: desk.sessions.restore(
        call.principal, session_id, remember))
    if "archivedAt" in await _kept(call):
        raise Problem("InternalError", "The session was not restored")
    return answer


async def history(call: ApiRequest) -> ASGIApp:
    """GET /sessions/{session_id}/history."""
    limit = call.number("limit")
    known, desk = await find_session(call), call.front.desk
    records = await desk.ledger.key_sessions(known.tenant_id, known.session_key, limit)
    return json_answer(SessionHistory([desk.sessions.shown(record) for record in records]))


async def _kept(call: ApiRequest) -> Mapping[str, Any]:
    """Return the entry as now stored in the ledger: a verb checks its own effect before it answers (V-2)."""
    return call.front.desk.sessions.shown(await find_session(call)).entry


def _check(kept: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    for name, value in wanted.items():
        if kept.get(name) != (value.strip() if isinstance(value, str) and is_known(name) else value):
            raise Problem("InternalError", f"{name} was not set")


HANDLERS: tuple[Handler, ...] = (
    Handler(api.PATCH_SESSION, patch),
    Handler(api.RESET_SESSION, reset),
    Handler(api.ARCHIVE_SESSION, archive),
    Handler(api.DELETE_SESSION, archive),
    Handler(api.RESTORE_SESSION, restore),
    Handler(api.LIST_SESSION_HISTORY, history),
)
