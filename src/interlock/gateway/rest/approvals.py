"""Operations on approvals: one inbox for both doors (racp section 3)."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Awaitable, Callable
from typing import Any, cast, get_args

import msgspec
from starlette.types import ASGIApp

from interlock.command.remembered_rule import Width, offers, plain
from interlock.engine.bridge.policy_subjects import subject_of_approval
from interlock.gateway.rest import cursors
from interlock.gateway.rest.answers import encode, json_answer, raw_answer
from interlock.gateway.rest.files import BINARY, disposition
from interlock.gateway.rest.filtered_pages import contains, scan
from interlock.gateway.rest.policy import explanation
from interlock.gateway.rest.request_guard import APPROVERS, OPERATORS, READERS
from interlock.gateway.rest.routes import ApiRequest, Operation
from interlock.ports.ledger import StoredBallot
from interlock.protocol.answers import ApprovalPage, Explanation, ProposedRule, ProposedWidth
from interlock.protocol.limits import PAGE_DEFAULT, PAGE_MAX
from interlock.protocol.problems import Place, Problem
from interlock.protocol.records import ApprovalRecord, IdempotencyRecord
from interlock.protocol.resources import (
    AnswerBody,
    Approval,
    ApprovalState,
    Decision,
    GrantBody,
    Remembering,
    WithdrawalBody,
)

LIST = "list/approvals"


async def listing(call: ApiRequest) -> ASGIApp:
    """GET /approvals: the inbox with `state=pending`, what was decided with `decided=true`, everything without. A page
    of a search may have fewer items than asked for while `has_more` says that there are more."""
    limit = call.number("limit", PAGE_DEFAULT, 1, PAGE_MAX)
    before, state = call.query("cursor"), call.choice("state", get_args(ApprovalState))
    ledger, tenant = call.front.desk.ledger, call.principal.tenant_id
    records, after = await scan(
        lambda place, count: ledger.approvals(tenant, state, place, count), lambda record: record.approval.id,
        _filter(call), cursors.place(LIST, before, "cursor") if before else None, limit)
    items = [record.approval for record in records]
    following = cursors.cursor(LIST, after) if after is not None else None
    return json_answer(ApprovalPage(items, following, after is not None))


def _filter(call: ApiRequest) -> Callable[[ApprovalRecord], bool] | None:
    """Make the test of what the ledger does not filter by; None if nothing of that is asked for."""
    agent, session, by, wanted = (call.text(name) for name in ("agent", "session", "by", "q"))
    decided = call.choice("decided", ("true",)) is not None
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
    return json_answer(await _find(call))


async def voted_bytes(call: ApiRequest) -> ASGIApp:
    """GET /approvals/{id}/input: the very bytes whose SHA-256 is the approval's digest, and so what a vote is about
    (P-2). `Repr-Digest` states their SHA-256 again (RFC 9530)."""
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


async def vote(call: ApiRequest) -> ASGIApp:
    """POST /approvals/{id}/grants: count a vote; the answer is the approval after it."""
    memory = call.memory
    assert memory is not None
    approval_id = call.path["approval_id"]

    def remember(approval: Approval) -> IdempotencyRecord:
        return memory.keep(200, encode(approval), {"Location": f"/v1/approvals/{approval_id}"}, approval.command_id)

    approval = await call.front.desk.vote(call.principal, approval_id, call.body, remember, call.ahead)
    answer = memory.record or remember(approval)
    return raw_answer(answer.body, answer.status, answer.headers)


def ballot(call: ApiRequest) -> Awaitable[StoredBallot]:
    """Read the approval of the path with what a vote on it needs."""
    return call.front.desk.ballot(call.principal, call.path["approval_id"], guess=call.guess)


async def answer(call: ApiRequest) -> ASGIApp:
    """POST /approvals/{id}/answers: answer an agent's question in words (C-8); the answer is the approval after it."""
    memory = call.memory
    assert memory is not None
    approval_id = call.path["approval_id"]

    def remember(approval: Approval) -> IdempotencyRecord:
        return memory.keep(200, encode(approval), {"Location": f"/v1/approvals/{approval_id}"}, approval.command_id)

    approval = await call.front.desk.answer(call.principal, approval_id, call.body.text, remember, call.ahead)
    said = memory.record or remember(approval)
    return raw_answer(said.body, said.status, said.headers)


async def withdraw(call: ApiRequest) -> ASGIApp:
    """POST /approvals/{id}/withdrawals: take one's own vote back; the answer is the approval after it (P-3)."""
    memory = call.memory
    assert memory is not None
    approval_id = call.path["approval_id"]

    def remember(approval: Approval) -> IdempotencyRecord:
        return memory.keep(200, encode(approval), {"Location": f"/v1/approvals/{approval_id}"}, approval.command_id)

    await call.front.desk.withdraw(call.principal, approval_id, remember, call.ahead)
    assert memory.record is not None
    return raw_answer(memory.record.body, memory.record.status, memory.record.headers)


async def proposal(call: ApiRequest) -> ASGIApp:
    """GET /approvals/{id}/rule: the rule that a vote with `remember` would leave behind, before it is saved (A-9)."""
    record = await _record(call)
    scope = call.choice("scope", ("session", "rule")) or "session"
    decision = call.choice("decision", get_args(Decision)) or "grant"
    subject = subject_of_approval(record, call.front.clock.now_ms())
    width = call.choice("width", get_args(Width))
    wish = Remembering(scope=cast("Any", scope))
    found = offers(record.approval, subject, cast("Any", decision), wish,
                   described=call.front.desk.policy.remember_described)
    chosen = next((offer.rule for offer in found if offer.width == (width or found[0].width)), None)
    if chosen is None:
        raise Problem("InvalidPayload", f"The width {width} does not fit this call; "
                      f"{', '.join(offer.width for offer in found)} does.",
                      errors=(Place("width", "one that fits the call"),))
    widths = [ProposedWidth(offer.width, plain(offer.rule)) for offer in found]
    return json_answer(ProposedRule(plain(chosen), widths))


async def explain(call: ApiRequest) -> ASGIApp:
    """GET /approvals/{id}/explain: which of the rules that are in force now decides this call, on the facts that it was
    decided on, and why the ones before it do not (P-1)."""
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


OPERATIONS: tuple[Operation, ...] = (
    Operation("GET", "/approvals", "listApprovals", listing, READERS,
              ("state", "decided", "agent", "session", "by", "q", "cursor", "limit"), answers=ApprovalPage),
    Operation("GET", "/approvals/{approval_id}", "getApproval", show, READERS, answers=Approval),
    Operation("GET", "/approvals/{approval_id}/input", "getApprovalInput", voted_bytes, READERS, media=(BINARY,),
              codes=("Conflict",)),
    Operation("POST", "/approvals/{approval_id}/grants", "vote", vote, APPROVERS, body=GrantBody,
              answers=Approval, codes=("Conflict", "QuotaExceeded", "UnsupportedCapability"), ahead=ballot),
    Operation("POST", "/approvals/{approval_id}/answers", "answerQuestion", answer, OPERATORS | APPROVERS,
              body=AnswerBody, answers=Approval, codes=("Conflict",), ahead=ballot),
    Operation("POST", "/approvals/{approval_id}/withdrawals", "withdrawVote", withdraw, APPROVERS,
              body=WithdrawalBody, body_optional=True, answers=Approval, codes=("Conflict",), ahead=ballot),
    Operation("GET", "/approvals/{approval_id}/rule", "proposeRule", proposal, APPROVERS,
              ("scope", "decision", "width"), answers=ProposedRule, codes=("Conflict",)),
    Operation("GET", "/approvals/{approval_id}/explain", "explainApproval", explain, READERS, answers=Explanation),
)
