"""Operations on approvals: one list for both doors (racp section 3)."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Awaitable, Callable
from typing import Any, cast

import msgspec
from starlette.types import ASGIApp

from interlock.command.agent_preview import preview_of
from interlock.command.policy.remembered_rule import offers, plain
from interlock.engine.bridge.approvals.policy_subjects import subject_of_approval
from interlock.gateway.rest import cursors
from interlock.gateway.rest.answers import encode, json_answer, raw_answer
from interlock.gateway.rest.filtered_pages import contains, scan
from interlock.gateway.rest.operations.files import disposition
from interlock.gateway.rest.operations.policy import explanation
from interlock.gateway.rest.routes import ApiRequest, Handler
from interlock.ports.ledger import StoredBallot
from interlock.protocol.answers import ApprovalPage, ProposedRule, ProposedWidth
from interlock.protocol.api import approvals as api
from interlock.protocol.api.operation import BINARY
from interlock.protocol.problems import Place, Problem
from interlock.protocol.records import ApprovalRecord, IdempotencyRecord
from interlock.protocol.resources import (
    Approval,
    Remembering,
)

LIST = "list/approvals"


async def listing(call: ApiRequest) -> ASGIApp:
    """GET /approvals."""
    limit = call.number("limit")
    before, state = call.query("cursor"), call.choice("state")
    ledger, tenant = call.front.desk.ledger, call.principal.tenant_id
    records, after = await scan(
        lambda place, count: ledger.approvals(tenant, state, place, count), lambda record: record.approval.id,
        _filter(call), cursors.place(LIST, before, "cursor") if before else None, limit)
    items = await _with_devices(call, [record.approval for record in records])
    following = cursors.cursor(LIST, after) if after is not None else None
    return json_answer(ApprovalPage(items, following, after is not None))


def _filter(call: ApiRequest) -> Callable[[ApprovalRecord], bool] | None:
    """Return the filter for what the ledger does not filter by; None if it is not needed."""
    agent, session, by, wanted = (call.text(name) for name in ("agent", "session", "by", "q"))
    decided = call.choice("decided") is not None
    if not (agent or session or by or wanted or decided):
        return None

    def fits(record: ApprovalRecord) -> bool:
        one = record.approval
        people = {one.decided_by, *(vote.by for vote in one.votes if vote.withdrawn_at is None)}
        return (agent in (None, one.agent_id) and session in (None, one.session_id)
                and (by is None or not people.isdisjoint((by, f"user:{by}")))
                and not (decided and one.state == "pending")
                and (wanted is None or contains(wanted, one.id, one.title, one.agent_title, one.tool_name, one.agent_id,
                                                one.workspace, one.comment, one.rule)))

    return fits


async def show(call: ApiRequest) -> ASGIApp:
    """GET /approvals/{id}."""
    (approval,) = await _with_devices(call, [await _find(call)])
    return json_answer(msgspec.structs.replace(approval, preview=preview_of(approval)))


async def _with_devices(call: ApiRequest, approvals: list[Approval]) -> list[Approval]:
    """Add the hosts that the agents work on."""
    named = {one.runner_id for one in approvals if one.runner_id is not None}
    tenant_id = call.principal.tenant_id
    runners = await call.front.desk.ledger.runners_named(sorted(named), [tenant_id]) if named else []
    names = {one.runner_id: one.device_name for one in runners}
    return [msgspec.structs.replace(one, device_name=names.get(one.runner_id or "") or None) for one in approvals]


async def voted_bytes(call: ApiRequest) -> ASGIApp:
    """GET /approvals/{id}/input."""
    approval = await _find(call)
    raw = bytes(approval.input if isinstance(approval.subject, msgspec.UnsetType) else approval.subject)
    found = hashlib.sha256(raw)
    if found.hexdigest() != approval.digest:
        raise Problem("Conflict", f"The stored input of the approval {approval.id} is not the one of its digest.",
                      hint="Deny it, and see `interlock audit verify`: somebody edited the database.")
    return raw_answer(raw, 200, {
        "Repr-Digest": f"sha-256=:{base64.b64encode(found.digest()).decode()}:", "ETag": f'"{approval.digest}"',
        "Content-Disposition": disposition(f"{approval.id}.json"), "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox"}, BINARY.encode())


def _remember(call: ApiRequest) -> Callable[[Approval], IdempotencyRecord]:
    """Return what stores the response to a change of the approval in the path, for a repeated request (M-2)."""
    memory = call.memory
    assert memory is not None
    headers = {"Location": f"/v1/approvals/{call.path['approval_id']}"}
    return lambda approval: memory.keep(200, encode(approval), headers, approval.command_id)


def _answer(call: ApiRequest, approval: Approval) -> ASGIApp:
    """Return the response that the change has stored; store it now if nothing changed."""
    assert call.memory is not None
    kept = call.memory.record or _remember(call)(approval)
    return raw_answer(kept.body, kept.status, kept.headers)


async def vote(call: ApiRequest) -> ASGIApp:
    """POST /approvals/{id}/grants."""
    return _answer(call, await call.front.desk.vote(
        call.principal, call.path["approval_id"], call.body, _remember(call), call.ahead))


def ballot(call: ApiRequest) -> Awaitable[StoredBallot]:
    """Read the approval of the path with what a vote on it needs."""
    return call.front.desk.ballot(call.principal, call.path["approval_id"], guess=call.guess)


async def answer(call: ApiRequest) -> ASGIApp:
    """POST /approvals/{id}/answers."""
    return _answer(call, await call.front.desk.answer(
        call.principal, call.path["approval_id"], call.body.text, _remember(call), call.ahead))


async def withdraw(call: ApiRequest) -> ASGIApp:
    """POST /approvals/{id}/withdrawals."""
    return _answer(call, await call.front.desk.withdraw(
        call.principal, call.path["approval_id"], _remember(call), call.ahead))


async def report_cards(call: ApiRequest) -> ASGIApp:
    """POST /approvals/{id}/cards."""
    return _answer(call, await call.front.desk.report_cards(
        call.principal, call.path["approval_id"], call.body, _remember(call), call.ahead))


async def proposal(call: ApiRequest) -> ASGIApp:
    """GET /approvals/{id}/rule."""
    record = await _record(call)
    scope = call.choice("scope") or "session"
    decision = call.choice("decision") or "grant"
    subject = subject_of_approval(record, call.front.clock.now_ms())
    width = call.choice("width")
    remembering = Remembering(scope=cast("Any", scope))
    found = offers(record.approval, subject, cast("Any", decision), remembering,
                   described=call.front.desk.policy.remember_described)
    chosen = next((offer.rule for offer in found if offer.width == (width or found[0].width)), None)
    if chosen is None:
        raise Problem("InvalidPayload", f"The width {width} does not fit this call; "
                      f"{', '.join(offer.width for offer in found)} does.",
                      errors=(Place("width", "one that fits the call"),))
    widths = [ProposedWidth(offer.width, plain(offer.rule)) for offer in found]
    return json_answer(ProposedRule(plain(chosen), widths))


async def explain(call: ApiRequest) -> ASGIApp:
    """GET /approvals/{id}/explain."""
    record = await _record(call)
    fell = record.judged is not None and record.judged.fell
    return json_answer(explanation(call.front.desk.policy, subject_of_approval(record), fell=fell))


async def _find(call: ApiRequest) -> Approval:
    return (await _record(call)).approval


async def _record(call: ApiRequest) -> ApprovalRecord:
    approval_id = call.path["approval_id"]
    record = await call.front.desk.ledger.approval(approval_id, call.principal.tenant_id)
    if record is None:
        raise Problem("NotFound", f"There is no approval {approval_id}.", hint="List them with `GET /v1/approvals`.")
    return record


HANDLERS: tuple[Handler, ...] = (
    Handler(api.LIST_APPROVALS, listing),
    Handler(api.GET_APPROVAL, show),
    Handler(api.GET_APPROVAL_INPUT, voted_bytes),
    Handler(api.VOTE, vote, ahead=ballot),
    Handler(api.ANSWER_QUESTION, answer, ahead=ballot),
    Handler(api.WITHDRAW_VOTE, withdraw, ahead=ballot),
    Handler(api.REPORT_CARDS, report_cards, ahead=ballot),
    Handler(api.PROPOSE_RULE, proposal),
    Handler(api.EXPLAIN_APPROVAL, explain),
)
