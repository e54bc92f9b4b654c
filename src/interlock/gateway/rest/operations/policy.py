"""Operations on policy: the rules in force, their verdict on a call, and the remembered rules (P-1, A-9)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal, cast, get_args

import msgspec
from starlette.types import ASGIApp

from interlock.command.audit.register import bound
from interlock.command.card.permission_request import request_from
from interlock.command.policy.policy import Door, PolicySubject, RuleSet
from interlock.command.policy.remembered_rule import plain
from interlock.engine.bridge.approvals.policy_subjects import facts_of, request_subject, tool_subject
from interlock.engine.bridge.approvals.unapproved_tools import when_fallen
from interlock.gateway.rest.answers import encode, json_answer, raw_answer
from interlock.gateway.rest.routes import ApiRequest, Handler
from interlock.ports.ledger import AuditAppend, Put, PutIdempotency, WriteBatch
from interlock.protocol import payloads as p
from interlock.protocol.answers import Explanation, PolicyRules, RuleList
from interlock.protocol.api import policy as api
from interlock.protocol.api.parameters import BOX_PATTERN
from interlock.protocol.box import Box, Part, parts
from interlock.protocol.clock import iso
from interlock.protocol.identifiers import AGENT_ID
from interlock.protocol.problems import Place, Problem
from interlock.protocol.records import AuditDraft, RuleRecord, SessionRecord


async def show(call: ApiRequest) -> ASGIApp:
    """GET /policy."""
    tenant = call.principal.tenant_id
    rules = [{"source": source, **plain(rule)} for source, rule in call.front.desk.policy.listed()
             if rule.tenant in (None, tenant)]
    return json_answer(PolicyRules(rules))


async def decision(call: ApiRequest) -> ASGIApp:
    """GET /policy/decision."""
    session_id = call.query("session_id")
    row = await call.front.desk.ledger.session(session_id, call.principal.tenant_id) if session_id else None
    return json_answer(explanation(call.front.desk.policy, _described(call, _own_facts(call, row))))


class _Machine(msgspec.Struct):
    """The fields of a lane's state that are read here."""

    permission: Literal["asks", "never"] = "asks"
    opening: str = "closed"
    box: Box | None = None
    offered_box: Box | None = None
    cost_usd: float = 0.0


_machine = msgspec.json.Decoder(_Machine)


def _own_facts(call: ApiRequest, row: SessionRecord | None) -> dict[str, Any]:
    """Return the facts of a session that the query gives, or otherwise the session's own. A command is judged by the
    box that its agent is to start in, a tool call by the one that its runner has reported."""
    state = _machine.decode(row.machine) if row is not None else _Machine()
    offered = state.offered_box if call.choice("door") == "command" else None
    box: Sequence[str] = parts(state.box if state.opening == "open" else offered)
    text = call.query("box")
    if text is not None:
        if re.fullmatch(BOX_PATTERN, text) is None:
            raise Problem("InvalidPayload", f"`box` names parts of a box: {', '.join(get_args(Part))}.",
                          errors=(Place("box", "parts of a box with commas between"),))
        box = text.split(",") if text else ()
    cost = call.number("cost_usd") if call.query("cost_usd") is not None else state.cost_usd
    return {"permission": call.choice("permission") or state.permission, "box": tuple(box), "cost_usd": cost}


async def remembered(call: ApiRequest) -> ASGIApp:
    """GET /policy/rules."""
    records = await call.front.desk.ledger.rules(call.principal.tenant_id, revoked=True)
    return json_answer(RuleList([record.rule for record in records]))


async def revoke(call: ApiRequest) -> ASGIApp:
    """POST /policy/rules/{id}/revoke."""
    memory, desk, principal = call.memory, call.front.desk, call.principal
    assert memory is not None
    record = await desk.ledger.rule(call.path["rule_id"], principal.tenant_id)
    if record is None:
        raise Problem("NotFound", f"There is no remembered rule {call.path['rule_id']}.",
                      hint="List them with `GET /v1/policy/rules`.")
    at = iso(call.front.clock.now_ms())
    who = principal.who
    rule = record.rule
    changes: list[Any] = []
    if rule.revoked_at is None:
        rule = msgspec.structs.replace(rule, revoked_at=at, revoked_by=who["id"])
        changes = [Put(RuleRecord(rule=rule)),
                   AuditAppend(AuditDraft(tenant_id=principal.tenant_id, at=at, who=who, action="policy_change",
                                          meta={"rule": rule.id, "change": "revoked", **bound(RuleRecord(rule=rule))}))]
    answer = memory.keep(200, encode(rule), {})
    await desk.ledger.commit(WriteBatch([*changes, PutIdempotency(answer)]))
    await desk.learn_rules()
    return raw_answer(answer.body, answer.status, answer.headers)


def explanation(policy: RuleSet, subject: PolicySubject, *, fell: bool = False) -> Explanation:
    """Return policy's verdict, and the rules that led to it. `fell`: the agent used a tool without a yes before."""
    verdict = when_fallen(policy.decide(subject), fell=fell)
    steps: list[dict[str, str | None]] = [
        {"rule": step.rule, "source": step.source, "effect": step.effect, "missed": step.missed,
         **({} if step.glob is None else {"glob": step.glob})}
        for step in policy.explain(subject)
    ]
    return Explanation(verdict.effect, verdict.rule, verdict.required, verdict.reason, steps, subject.facts.why_unclear)


def _described(call: ApiRequest, own: dict[str, Any]) -> PolicySubject:
    agent = call.query("agent") or ""
    if AGENT_ID.fullmatch(agent) is None:
        raise Problem("InvalidPayload", "`agent` names the agent that the call is of.",
                      errors=(Place("agent", "an agent's id"),))
    known: dict[str, Any] = {
        "tenant_id": call.principal.tenant_id, "agent_id": agent,
        "origin": call.choice("origin") or "user",
        "at_ms": call.front.clock.now_ms(), "session_id": call.query("session_id"), **own,
        "runner_id": call.query("runner"), "person": call.query("person"),
    }
    door = cast("Door", call.choice("door") or "tool")
    if door == "command":
        kind = call.choice("type") or "execute"
        return PolicySubject(door="command", command_type=kind, workspace=call.query("workspace"), **known)
    known["trusted_kinds"] = call.query("kind") is not None
    text = call.query("subject")
    if text is not None:
        return _recorded(text, call.query("workspace") or "", known)
    return tool_subject(_input(call), call.query("workspace") or "", tool_name=call.query("tool"),
                        tool_kind=call.query("kind"), **known)


def _recorded(text: str, workspace: str, known: dict[str, Any]) -> PolicySubject:
    """Return the subject of a complete permission request, as an approval shows it in `subject`: every fact of it
    counts."""
    try:
        msgspec.json.decode(text, type=p.InteractionSubject)
    except msgspec.MsgspecError as error:
        raise Problem("InvalidPayload", f"`subject` is not a permission request: {error}",
                      errors=(Place("subject", "a permission request"),)) from None
    request = request_from(text.encode())
    return request_subject(facts_of(request, workspace), request.digest, tool_name=request.asked.tool_name,
                           tool_kind=request.asked.kind, **known)


def _input(call: ApiRequest) -> bytes:
    """Return the tool's input: as JSON, or made from `command` and `path`."""
    text = call.query("input")
    if text is None:
        members = {name: value for name in ("command", "path") if (value := call.query(name)) is not None}
        return msgspec.json.encode(members)
    try:
        msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise Problem("InvalidPayload", f"`input` is not a JSON object: {error}",
                      errors=(Place("input", "a JSON object"),)) from None
    return text.encode()


HANDLERS: tuple[Handler, ...] = (
    Handler(api.GET_POLICY, show),
    Handler(api.DECIDE, decision),
    Handler(api.LIST_REMEMBERED_RULES, remembered),
    Handler(api.REVOKE_REMEMBERED_RULE, revoke),
)
