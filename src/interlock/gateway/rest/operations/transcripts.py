"""Operations on transcripts: read, fork, label, branch, export, import, examine, repair (X-4, X-6).

A transcript is the raw view of a conversation, so only roles that may see that may read it (S-6).
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from starlette.responses import Response
from starlette.types import ASGIApp

from interlock.engine.sessions.transcript_desk import Added, Begun, ImportSource, Repaired, Text, TranscriptDesk
from interlock.gateway.rest import cursors
from interlock.gateway.rest.answers import HttpResponse, encode, json_answer, raw_answer
from interlock.gateway.rest.operations.sessions import find_session
from interlock.gateway.rest.request.request_guard import allow
from interlock.gateway.rest.request.uploads import ReceivedUpload
from interlock.gateway.rest.routes import ApiRequest, Handler
from interlock.protocol.api import transcripts as api
from interlock.protocol.api.operation import ADMINS, HTML, MARKDOWN, NDJSON
from interlock.protocol.problems import Place, Problem
from interlock.protocol.records import IdempotencyRecord
from interlock.protocol.resources import Target
from interlock.protocol.transcripts import (
    AddedEntry,
    BegunSession,
    ContextAnswer,
    ModelName,
    RepairedTranscript,
    TranscriptPageAnswer,
    TreeAnswer,
    TreeNode,
)
from interlock.session.transcript.line_json import legible
from interlock.session.transcript.render import markdown, page
from interlock.session.transcript.tree import Tree, read_tree

FORMATS = {"jsonl": (NDJSON, "jsonl"), "markdown": (MARKDOWN, "md"), "html": (HTML, "html")}
REDACTED = "X-Interlock-Redacted"
"""In how many lines of an export something was redacted."""
MAX_TREE_NODES = 100_000
"""A tree is returned completely up to this; of a longer one the newest nodes, marked as cut."""


class _Role(msgspec.Struct):
    role: str | None = None


async def transcript(call: ApiRequest) -> ASGIApp:
    """GET /sessions/{id}/transcript."""
    record = await find_session(call)
    limit = call.number("limit")
    scope, text = f"transcript/{record.session_id}", call.query("cursor")
    desk = _desk(call)
    after = int(cursors.place(scope, text, "cursor")) if text else 0
    if call.query("last") is not None:
        if text:
            raise Problem("InvalidPayload", "`last` and `cursor` exclude each other.")
        last = call.number("last")
        after = max(0, (await desk.page(record, 0, 0))[1] - last)
        limit = max(limit, last)
    lines, entries = await desk.page(record, after, limit)
    until = after + len(lines)
    following = cursors.cursor(scope, until) if until < entries else None
    return json_answer(TranscriptPageAnswer(list(map(_as_json, lines)), following, until < entries))


async def tree(call: ApiRequest) -> ASGIApp:
    """GET /sessions/{id}/tree."""
    found = await _desk(call).tree(await find_session(call))
    return raw_answer(await asyncio.to_thread(_tree_answer, found))


def _tree_answer(found: Tree) -> bytes:
    """Return the encoded tree. On a thread: tens of thousands of nodes would delay acknowledgements."""
    labels = found.labels()
    first = max(0, len(found.nodes) - MAX_TREE_NODES)
    nodes = [TreeNode(id=node.id, parent_id=node.parent_id if node.parent_id in found.at else None, type=node.type,
                      role=_role(node.message), label=labels.get(node.id)) for node in found.nodes[first:]]
    return encode(TreeAnswer(nodes, found.nodes[-1].id if nodes else None, len(found.nodes), first > 0))


async def context(call: ApiRequest) -> ASGIApp:
    """GET /sessions/{id}/context."""
    found = await _desk(call).context(await find_session(call))
    model = ModelName(*found.model) if found.model is not None else None

    def written() -> bytes:
        return encode(ContextAnswer([_as_json(bytes(raw)) for raw in found.raw], model, found.thinking_level))

    return raw_answer(await asyncio.to_thread(written))


async def export(call: ApiRequest) -> ASGIApp:
    """GET /sessions/{id}/export."""
    if (raw := call.choice("view") == "raw"):
        allow(call.principal, ADMINS)
    record, desk = await find_session(call), _desk(call)
    chosen = call.choice("format") or "jsonl"
    media, ending = FORMATS[chosen]
    if raw:
        lines, redacted = await desk.lines(record), 0
        await desk.note_raw_export(call.principal, record, chosen)
    else:
        lines, redacted = await desk.leaving(record)
    if media == NDJSON:
        body = await asyncio.to_thread(_joined, lines)
    else:
        body = await asyncio.to_thread(_readable, lines, media)
    return Response(body, headers={
        "Content-Disposition": f'attachment; filename="{record.session_id}.{ending}"', "Cache-Control": "no-store",
        REDACTED: str(redacted),
        "X-Content-Type-Options": "nosniff", "Content-Security-Policy": "sandbox; default-src 'none'",
    }, media_type=media)


def _joined(lines: list[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def _readable(lines: list[bytes], media: str) -> bytes:
    found = read_tree(lines)
    return (markdown(found) if media == MARKDOWN else page(found)).encode("utf-8", "replace")


async def doctor(call: ApiRequest) -> ASGIApp:
    """GET /sessions/{id}/doctor."""
    return json_answer(await _desk(call).examine(await find_session(call)))


async def label(call: ApiRequest) -> ASGIApp:
    """POST /sessions/{id}/labels."""
    record = await find_session(call)
    added = await _desk(call).label(call.principal, record, call.body.entry_id, call.body.label, _keeper(call, _added))
    return _answer(call, _added(call, added))


async def branch(call: ApiRequest) -> ASGIApp:
    """POST /sessions/{id}/branches."""
    record = await find_session(call)
    added = await _desk(call).branch(call.principal, record, call.body.entry_id, call.body.summary,
                                     _keeper(call, _added))
    return _answer(call, _added(call, added))


async def fork(call: ApiRequest) -> ASGIApp:
    """POST /sessions/{id}/fork."""
    record = await find_session(call)
    begun = await _desk(call).fork(call.principal, record, call.body.entry_id, _keeper(call, _begun))
    return _answer(call, _begun(call, begun))


async def take_in(call: ApiRequest) -> ASGIApp:
    """POST /sessions/import."""
    body = call.body
    source: ImportSource
    if isinstance(body, ReceivedUpload):
        agent_id = call.query("agent_id")
        if not agent_id:
            raise Problem("InvalidPayload", "`agent_id` is missing: it names the agent that the session is for.",
                          errors=(Place("agent_id", "is missing"),))
        target = Target(agent_id=agent_id, runner_id=call.query("runner_id"), workspace=call.query("workspace"))
        source = body
    else:
        target = Target(agent_id=body.agent_id, runner_id=body.runner_id, workspace=body.workspace)
        source = Text(body.content.encode("utf-8"))
    begun = await _desk(call).take_in(call.principal, target, source, _keeper(call, _begun))
    return _answer(call, _begun(call, begun))


async def repair(call: ApiRequest) -> ASGIApp:
    """POST /sessions/{id}/repair."""
    repaired = await _desk(call).repair(call.principal, await find_session(call), _keeper(call, _repaired))
    return _answer(call, _repaired(call, repaired))


Shown = tuple[int, bytes, dict[str, str]]
"""Status, body and headers of an answer."""


def _keeper(call: ApiRequest, show: Any) -> Any:
    """Return what stores a response under the request's key (M-2)."""
    memory = call.memory
    assert memory is not None

    def remember(outcome: Any) -> IdempotencyRecord:
        return memory.keep(*show(call, outcome))

    return remember


def _answer(call: ApiRequest, shown: Shown) -> HttpResponse:
    kept = call.memory.record if call.memory is not None else None
    return raw_answer(kept.body, kept.status, kept.headers) if kept is not None else raw_answer(
        shown[1], shown[0], shown[2])


def _added(_: ApiRequest, added: Added) -> Shown:
    return 201, encode(AddedEntry(*added)), {"Location": f"/v1/sessions/{added.session_id}/transcript"}


def _begun(call: ApiRequest, begun: Begun) -> Shown:
    session = call.front.desk.sessions.shown(begun.record)
    return 201, encode(BegunSession(session, begun.entries, begun.report)), {
        "Location": f"/v1/sessions/{begun.record.session_id}"}


def _repaired(_: ApiRequest, repaired: Repaired) -> Shown:
    return 200, encode(RepairedTranscript(repaired.report, repaired.kept)), {}


def _desk(call: ApiRequest) -> TranscriptDesk:
    desk = call.front.desk.transcripts
    if desk is None:
        raise Problem("NotFound", "This gateway keeps no transcripts.")
    return desk


def _as_json(line: bytes) -> msgspec.Raw:
    """Return a line unchanged, except for what is not text in it: a response is JSON that every client can read."""
    return msgspec.Raw(legible(line))


def _role(message: msgspec.Raw) -> str | None:
    try:
        return msgspec.json.decode(message, type=_Role).role if len(message) else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


HANDLERS: tuple[Handler, ...] = (
    Handler(api.GET_TRANSCRIPT, transcript),
    Handler(api.GET_TRANSCRIPT_TREE, tree),
    Handler(api.GET_CONTEXT, context),
    Handler(api.EXPORT_TRANSCRIPT, export),
    Handler(api.EXAMINE_TRANSCRIPT, doctor),
    Handler(api.LABEL_ENTRY, label),
    Handler(api.BRANCH_TRANSCRIPT, branch),
    Handler(api.FORK_SESSION, fork),
    Handler(api.REPAIR_TRANSCRIPT, repair),
    Handler(api.IMPORT_TRANSCRIPT, take_in),
)
