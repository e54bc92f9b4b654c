"""Requests that are answered at once, subject to policy: if a rule holds one, it opens an approval, and succeeds once
after that is granted (P-1, P-2, F-1)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec

from interlock.command.policy.policy import PolicySubject, PolicyVerdict, RuleSet
from interlock.engine.bridge.approvals.approvals import open_approval
from interlock.engine.bridge.approvals.policy_subjects import judged, person_of, quorums
from interlock.engine.bridge.lane import SYSTEM, Lane
from interlock.protocol.problems import Problem
from interlock.protocol.records import ApprovalRecord, Principal

T = TypeVar("T")
MAX_HELD_VERBS = 100
"""Open approvals of such requests in one session, or in a tenant's lane, at one time."""
_encoder = msgspec.json.Encoder(order="sorted")


class LaneVerb(NamedTuple):
    """A request. `body` is its body, without the idempotency key; `on` names its object for people; `agent_id` is set
    if it concerns no session."""

    name: str
    principal: Principal
    body: Mapping[str, Any]
    on: str = ""
    agent_id: str | None = None

    def written(self, lane: Lane) -> bytes:
        """Return what is voted on: the verb, its object and its body, in a form that is equal for equal requests."""
        where = {"session_id": lane.state.session_id} if self.agent_id is None else {}
        return _encoder.encode({"verb": self.name, **where, **self.body})


def verb_body(body: msgspec.Struct) -> dict[str, Any]:
    """Return a body's fields as JSON values, without the idempotency key and without nulls.

    Fields that stay bytes (`payload`) are also decoded, by JSON, since `to_builtins` cannot.
    """
    members = msgspec.json.decode(msgspec.json.encode(body))
    return {name: value for name, value in members.items() if name != "idempotency_key" and value is not None}


def under_policy(lane: Lane, policy: RuleSet, verb: LaneVerb, do: Callable[[], T]) -> T | Problem:
    """Call `do` if no rule holds the request, or if an equal request of the same principal was granted, which is
    consumed. Otherwise return the Problem: Forbidden, which is audited, or ApprovalRequired, which names the
    approval."""
    written = verb.written(lane)
    digest = hashlib.sha256(written).hexdigest()
    verdict = policy.decide(_subject(lane, verb, digest))
    granted: ApprovalRecord | None = None
    if verdict.effect == "deny":
        lane.audit("reject", verb.principal.who, {"verb": verb.name, "rule": verdict.rule, "digest": digest})
        return Problem("Forbidden", f"Policy rule {verdict.rule} denies it: {verdict.reason or 'no reason'}")
    if verdict.effect == "ask":
        same = [record for record in _held(lane) if record.approval.digest == digest
                and record.approval.requested_by == verb.principal.actor and record.expires_ms > lane.now]
        granted = next((record for record in same if record.approval.state == "granted"), None)
        if granted is None:
            # Only here: an admitted request may still be refused, and must then leave no writes behind.
            lapse(lane)
            return _wait_for(lane, verb, verdict, written, same[0] if same else None)
    done = do()
    if granted is not None and not isinstance(done, Problem):
        lane.move_approval(granted, "consumed", verb.principal.who)
    return done


def lapse(lane: Lane) -> None:
    """Expire approvals that were not decided in time, or were granted and not used (P-6)."""
    for record in _held(lane):
        if record.expires_ms <= lane.now:
            lane.move_approval(record, "expired" if record.approval.state == "pending" else "void", SYSTEM,
                               decided_at=record.approval.decided_at or lane.at)


def _held(lane: Lane) -> list[ApprovalRecord]:
    return [record for record in lane.approvals.values() if record.approval.verb is not None]


def _subject(lane: Lane, verb: LaneVerb, digest: str) -> PolicySubject:
    state = lane.state
    of_tenant = verb.agent_id is not None
    return PolicySubject(
        door="command", tenant_id=state.tenant_id, agent_id=verb.agent_id or state.agent_id,
        origin=verb.principal.actor.type, permission="asks" if of_tenant else state.permission, at_ms=lane.wall,
        command_type=verb.name, session_id=None if of_tenant else state.session_id, cost_usd=state.cost_usd,
        digest=digest, runner_id=None if of_tenant else state.runner_id or None,
        workspace=None if of_tenant else state.workspace or None,
        person=person_of(verb.principal.actor, verb.principal.driver))


def _wait_for(lane: Lane, verb: LaneVerb, verdict: PolicyVerdict, written: bytes,
              pending: ApprovalRecord | None) -> Problem:
    if pending is None:
        if len(_held(lane)) >= MAX_HELD_VERBS:
            return Problem("QuotaExceeded", f"{MAX_HELD_VERBS} verbs wait for an approval here already.")
        approval = open_approval(
            lane, door="command", title=f"{verb.name} {verb.on or lane.state.session_key}", input_bytes=written,
            rule=verdict.rule, required=verdict.required, ttl_ms=verdict.ttl_ms or lane.limits.approval_ttl_ms,
            requested_by=verb.principal.actor, driver=verb.principal.driver,
            self_approval=verdict.self_approval, groups=quorums(verdict), deny_threshold=verdict.deny_threshold,
            signed=verdict.signed, require_independent=verdict.require_independent, dangerous=verdict.dangerous,
            verb=verb.name, agent_id=verb.agent_id,
            judged=judged(_subject(lane, verb, hashlib.sha256(written).hexdigest())))
    else:
        approval = pending.approval
    return Problem("ApprovalRequired", f"Policy rule {verdict.rule} requires an approval of {verb.name}: {approval.id} "
                   "waits for it", approval_id=approval.id,
                   hint=f"Once `interlock approve {approval.id}` has granted it, repeat the request: it goes through "
                        "once.")
