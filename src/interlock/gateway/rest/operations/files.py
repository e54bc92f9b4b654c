"""Operations on the files that were transferred in a session, in either direction (E-5)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator
from urllib.parse import quote

from starlette.types import ASGIApp, Receive, Scope, Send

from interlock.gateway.rest import cursors
from interlock.gateway.rest.answers import json_answer
from interlock.gateway.rest.operations.sessions import find_session
from interlock.gateway.rest.routes import ApiRequest, Handler
from interlock.ports.objects import ObjectDamaged, Objects, ObjectsError
from interlock.protocol.answers import FilePage
from interlock.protocol.api import sessions as api
from interlock.protocol.api.operation import BINARY
from interlock.protocol.clock import iso
from interlock.protocol.problems import Problem
from interlock.protocol.records import FileRecord
from interlock.protocol.resources import SessionFile


async def whole(record: FileRecord, objects: Objects) -> AsyncIterator[bytes]:
    """Yield a file in pieces. Raises ObjectMissing or ObjectDamaged before its end, if it differs from what was
    stored."""
    digest = hashlib.sha256()
    for name in record.objects:
        async for piece in objects.read(name):
            digest.update(piece)
            yield piece
    if digest.hexdigest() != record.sha256:
        raise ObjectDamaged(f"The file {record.transfer_id} is damaged.")


async def listing(call: ApiRequest) -> ASGIApp:
    """GET /sessions/{id}/files."""
    session = await find_session(call)
    session_id, tenant_id = session.session_id, session.tenant_id
    limit = call.number("limit")
    place, text = f"files/{session_id}", call.query("cursor")
    after = int(cursors.place(place, text, "cursor")) if text else 0
    found = await call.front.desk.ledger.files(session_id, tenant_id, after, limit + 1)
    shown, has_more = found[:limit], len(found) > limit
    following = cursors.cursor(place, shown[-1][0]) if has_more else None
    return json_answer(FilePage([_resource(record) for _, record in shown], following, has_more))


async def content(call: ApiRequest) -> ASGIApp:
    """GET /sessions/{id}/files/{transfer_id}."""
    session, transfer_id = await find_session(call), call.path["transfer_id"]
    session_id = session.session_id
    desk = call.front.desk
    record = await desk.ledger.file(session_id, session.tenant_id, transfer_id)
    if record is None or desk.objects is None:
        raise Problem("NotFound", f"The session {session_id} has no file {transfer_id}.",
                      hint=f"List them with `GET /v1/sessions/{session_id}/files`.")
    try:
        gone = [name for name in record.objects if await desk.objects.size(name) is None]
    except ObjectsError as error:
        raise Problem("Unavailable", str(error), headers={"Retry-After": "5"}) from error
    if gone:
        raise Problem("NotFound", f"The bytes of the file {transfer_id} are no longer in the object store.")
    return _Download(record, desk.objects, head=call.request.method == "HEAD")


class _Download:
    """A stream of a file, so that its size does not matter. If it proves damaged, the stream is aborted, never
    completed."""

    def __init__(self, record: FileRecord, objects: Objects, *, head: bool) -> None:
        self._record = record
        self._objects = objects
        self._head = head

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send its headers and its pieces. Raises ObjectsError in the middle, which closes the connection."""
        record = self._record
        media_type = record.media_type if record.media_type in api.SHOWN_AS_THEY_ARE else BINARY
        await send({"type": "http.response.start", "status": 200, "headers": [
            (b"content-type", media_type.encode()), (b"content-length", str(record.size).encode()),
            (b"content-disposition", disposition(record.name).encode()), (b"etag", f'"{record.sha256}"'.encode()),
            (b"x-content-type-options", b"nosniff"), (b"content-security-policy", b"sandbox"),
            (b"cache-control", b"no-store"),
        ]})
        if not self._head:
            async for piece in whole(record, self._objects):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def disposition(name: str) -> str:
    """Return `Content-Disposition` for a name that an agent chose (RFC 6266): no path, nothing but ASCII."""
    base = re.sub(r"[\x00-\x1f\x7f]", "", name.replace("\\", "/").rpartition("/")[2]) or "file"
    plain = re.sub(r'[^\x20-\x7e]|["%]', "_", base)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(base, safe='')}"


def _resource(record: FileRecord) -> SessionFile:
    return SessionFile(transfer_id=record.transfer_id, name=record.name, media_type=record.media_type, size=record.size,
                       sha256=record.sha256, purpose=record.purpose, created_at=iso(record.created_ms))


HANDLERS: tuple[Handler, ...] = (
    Handler(api.LIST_FILES, listing),
    Handler(api.GET_FILE, content),
)
