"""Operations on an agent's changes: staged changes are shown, landed by a vote, discarded (H-17), and git's view of the
workspace is shown (J-4)."""

from __future__ import annotations

import msgspec
from starlette.types import ASGIApp

from interlock.command.staged_choice import chosen_input
from interlock.gateway.rest.answers import encode, json_answer, raw_answer
from interlock.gateway.rest.operations.sessions import change, find_session
from interlock.gateway.rest.routes import ApiRequest, Handler
from interlock.protocol.answers import GitChanges, StagedChanges
from interlock.protocol.api import session_entries as api
from interlock.protocol.bodies import DiscardBody, LandBody
from interlock.protocol.box import LANDING
from interlock.protocol.frames import Direction, decode
from interlock.protocol.identifiers import session_stream
from interlock.protocol.payloads import ChangesReport
from interlock.protocol.problems import Problem
from interlock.protocol.records import IdempotencyRecord, SessionRecord
from interlock.protocol.resources import Approval, GrantBody


class _Machine(msgspec.Struct):
    """The fields of a lane's state that are read here."""

    staged_n: int = 0
    start_commit: str | None = None


_machine = msgspec.json.Decoder(_Machine)


async def show(call: ApiRequest) -> ASGIApp:
    """GET /sessions/{session_id}/changes."""
    session = await find_session(call)
    report = await _report(call, session)
    approval = await _question(call, session)
    return json_answer(StagedChanges(
        session_id=session.session_id, workspace=session.workspace or None,
        approval_id=approval.id if approval is not None else None,
        digest=report.digest if report is not None else "", count=report.count if report is not None else 0,
        files=report.files if report is not None else [], refused=report.refused if report is not None else []))


async def git(call: ApiRequest) -> ASGIApp:
    """GET /sessions/{session_id}/changes/git."""
    session = await find_session(call)
    desk = call.front.desk
    found = await desk.looks.look(session, desk.sessions.shown(session).workspace_access,
                                  _machine.decode(session.machine).start_commit)
    return json_answer(GitChanges(
        session_id=session.session_id, workspace=session.workspace or None, why_not=found.why_not or None,
        partly=found.partly or None, branch=found.branch, commit=found.commit, head=found.head,
        commits=found.commits, count=found.count, files=found.files))


async def land(call: ApiRequest) -> ASGIApp:
    """POST /sessions/{session_id}/land."""
    memory, body = call.memory, call.body
    assert memory is not None
    assert isinstance(body, LandBody)
    session = await find_session(call)
    approval = await _question(call, session)
    if approval is None:
        raise Problem("Conflict", f"No staged changes of session {session.session_id} wait for a yes",
                      hint='To have them asked about, submit an execute with the payload {"messages": [], "land": '
                           "true}; the end of the next turn asks, too. See them with `GET /v1/sessions/{id}/changes`.")
    changed = msgspec.UNSET if body.files is None else msgspec.Raw(chosen_input(approval, body.files))
    wanted = GrantBody(decision="grant", comment=body.comment, updated_input=changed,
                       digest=body.digest if body.files is None else None)
    if body.digest is not None and body.digest != approval.digest:
        raise Problem("Conflict", "The staged changes are not those of this digest any more",
                      hint="Look at them again: `GET /v1/sessions/{id}/changes`.")

    def remember(voted: Approval) -> IdempotencyRecord:
        return memory.keep(200, encode(voted), {"Location": f"/v1/approvals/{voted.id}"}, voted.command_id)

    voted = await call.front.desk.vote(call.principal, approval.id, wanted, remember)
    answer = memory.record or remember(voted)
    return raw_answer(answer.body, answer.status, answer.headers)


async def discard(call: ApiRequest) -> ASGIApp:
    """POST /sessions/{session_id}/discard."""
    desk, body = call.front.desk, call.body
    assert isinstance(body, DiscardBody)
    return await change(call, lambda session_id, remember: desk.sessions.discard(
        call.principal, session_id, body.files, remember))


async def _report(call: ApiRequest, session: SessionRecord) -> ChangesReport | None:
    number = _machine.decode(session.machine).staged_n
    if not number:
        return None
    events = await call.front.desk.ledger.events(session.tenant_id, session_stream(session.session_id),
                                                 number - 1, 1)
    payload = decode(events[0].body, Direction.C).payload if events and events[0].n == number else None
    return payload if isinstance(payload, ChangesReport) else None


async def _question(call: ApiRequest, session: SessionRecord) -> Approval | None:
    live = await call.front.desk.ledger.live_approvals(session.session_id, session.tenant_id)
    return next((one.approval for one in live if one.approval.state == "pending"
                 and one.approval.tool_name == LANDING and one.approval.invocation_id is None), None)


HANDLERS: tuple[Handler, ...] = (
    Handler(api.GET_STAGED_CHANGES, show),
    Handler(api.GET_GIT_CHANGES, git),
    Handler(api.LAND_CHANGES, land),
    Handler(api.DISCARD_CHANGES, discard),
)
