"""Trust in workspace files that configure an agent: approvers are asked before it starts, and again when the files
change (H-13).

The runner checks at each start and starts nothing while a question is open. The command returns to the queue meanwhile;
an open that names the digest of the allowed files starts the agent, if the runner finds the same files again.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import msgspec

from interlock.command.audit.register import bound
from interlock.command.card.lines import workspace_title
from interlock.command.card.permission_request import workspace_files
from interlock.command.policy.policy import PolicySubject, PolicyVerdict, Rule, RuleSet
from interlock.command.policy.remembered_rule import plain
from interlock.command.policy.rule import Origin
from interlock.engine.bridge.approvals import asking_agents
from interlock.engine.bridge.approvals.approvals import open_approval
from interlock.engine.bridge.approvals.policy_subjects import files_subject, judged, origin_of, person_of, quorums
from interlock.engine.bridge.commands.cancellation import cancel_command
from interlock.engine.bridge.commands.command_end import files_not_allowed, terminate
from interlock.engine.bridge.commands.dispatch import waits_for_trust
from interlock.engine.bridge.context import compaction
from interlock.engine.bridge.lane import SYSTEM, Lane
from interlock.ports.ledger import Put
from interlock.protocol import payloads as p
from interlock.protocol.clock import iso
from interlock.protocol.codes import Code
from interlock.protocol.problems import Problem
from interlock.protocol.records import ApprovalRecord, CommandRecord, RuleRecord
from interlock.protocol.resources import Actor, Approval, RememberedRule

TRUSTED_MS = 365 * 86_400_000
"""How long a yes is valid for unchanged files."""


class TrustRequester(NamedTuple):
    """The reason for starting an agent, a command or otherwise a compaction, and who requested it."""

    command: CommandRecord | None
    actor: Actor
    driver: Actor | None
    origin: Origin

    @property
    def command_id(self) -> str | None:
        return self.command.command.id if self.command is not None else None


def found(lane: Lane, payload: p.SessionError, policy: RuleSet) -> bool:
    """Decide on the files that the runner found. Returns False if no question is possible: then the open has failed
    with its sentence."""
    asker = _to_be_started(lane)
    if not isinstance(payload.workspace_files, msgspec.Raw) or asker is None:
        return False
    raw = bytes(payload.workspace_files)
    files = workspace_files(raw)
    if files is None:
        return False
    digest = hashlib.sha256(raw).hexdigest()
    subject = _subject(lane, asker, files, digest)
    verdict = policy.decide(subject)
    pending = lane.state.context.pending if asker.command is None else None
    if verdict.effect == "deny":
        _denied(lane, asker, payload.message, verdict, digest)
        return True
    if pending is not None:
        pending.waits_for_trust = True
    if verdict.effect == "allow":
        _allowed(lane, asker, verdict.rule, digest)
        return True
    ttl_ms = verdict.ttl_ms or lane.limits.approval_ttl_ms
    if pending is not None:
        pending.deadline_ms = lane.now + ttl_ms
    approval = open_approval(
        lane, door="command", title=workspace_title(files), input_bytes=raw, rule=verdict.rule,
        required=verdict.required, ttl_ms=ttl_ms, requested_by=asker.actor, driver=asker.driver,
        self_approval=verdict.self_approval, command_id=asker.command_id, groups=quorums(verdict),
        deny_threshold=verdict.deny_threshold, signed=verdict.signed,
        require_independent=verdict.require_independent, dangerous=verdict.dangerous, workspace_files=True,
        judged=judged(subject))
    _no_longer(lane, approval)
    return True


def review(lane: Lane, policy: RuleSet) -> None:
    """Answer a question that a rule now allows, because the same files were allowed in another session."""
    asker = _waiting(lane)
    for record in [r for r in lane.approvals.values() if r.approval.workspace_files and r.approval.state == "pending"]:
        files = workspace_files(bytes(record.approval.input))
        if asker is None or files is None:
            continue
        verdict = policy.decide(_subject(lane, asker, files, record.approval.digest))
        if verdict.effect == "allow":
            lane.move_approval(record, "void", {"id": f"policy:{verdict.rule}", "role": "system"}, decided_at=lane.at)
            _allowed(lane, asker, verdict.rule, record.approval.digest)
            _go_on(lane, asker.command)


def _to_be_started(lane: Lane) -> TrustRequester | None:
    """Return what a failed open was for; None if nothing waits for it any more."""
    record = lane.active
    if record is None:
        return _compaction(lane)
    started = record.command.started_at is not None or record.command.state == "canceling"
    return None if started else _asker_of(record)


def _waiting(lane: Lane) -> TrustRequester | None:
    """Return what waits for an answer about files."""
    waiting = next((r for r in lane.approvals.values() if r.approval.workspace_files
                    and r.approval.state == "pending" and r.approval.command_id in lane.commands), None)
    return _compaction(lane) if waiting is None else _asker_of(lane.commands[waiting.approval.command_id or ""])


def _asker_of(record: CommandRecord) -> TrustRequester:
    return TrustRequester(record, record.command.actor, record.driver, origin_of(record))


def _compaction(lane: Lane) -> TrustRequester | None:
    """Return the requested compaction of an agent that owns its context. Any other starts no agent."""
    pending = lane.state.context.pending
    if pending is None or pending.cause != "manual" or compaction.owns(lane.state):
        return None
    kind, _, name = pending.by["id"].partition(":")
    actor = Actor(type="agent" if kind == "agent" else "user", id=name)
    return TrustRequester(None, actor, None, actor.type)


def _allowed(lane: Lane, asker: TrustRequester, rule: str, digest: str) -> None:
    lane.trust_files(digest)
    lane.audit("workspace_allowed", {"id": f"policy:{rule}", "role": "system"}, {"digest": digest, "rule": rule},
               command_id=asker.command_id)


def _denied(lane: Lane, asker: TrustRequester, sentence: str, verdict: PolicyVerdict, digest: str) -> None:
    lane.audit("workspace_denied", {"id": f"policy:{verdict.rule}", "role": "system"},
               {"digest": digest, "rule": verdict.rule}, command_id=asker.command_id)
    denied = (f"{sentence.rstrip('.')}: the policy rule {verdict.rule} denies it"
              f"{f', {verdict.reason}' if verdict.reason else ''}")
    if asker.command is None:
        compaction.failed(lane, denied)
    terminate(lane, Code.WORKSPACE_NOT_TRUSTED, denied)


def remember(lane: Lane, approval: Approval, by: str, who: dict[str, str], remembered: int, limit: int) -> Approval:
    """Store a yes as a rule for this agent, runner and directory while the files stay the same. A yes that needs
    several people or a signature, or that a rule marks as dangerous, is asked for at each start: no rule replaces it.
    Raises Problem if there are too many rules."""
    files = workspace_files(bytes(approval.input))
    if files is None or approval.required > 1 or approval.groups or approval.signed or (
            approval.require_independent or approval.dangerous or not approval.self_approval):
        return approval
    if remembered >= limit:
        raise Problem("QuotaExceeded", f"{limit} rules are remembered already",
                      hint="Revoke some: interlock policy rules, interlock trust.")
    rule = Rule(name=f"workspace files of {approval.agent_id}", effect="allow", tenant=approval.tenant_id,
                door="workspace", agent=approval.agent_id, runner=approval.runner_id, workspace=files.directory,
                digest=approval.digest, until=iso(lane.wall + TRUSTED_MS))
    kept = RememberedRule(id=lane.new_id("rul"), tenant_id=approval.tenant_id, created_at=lane.at, created_by=by,
                          approval_id=approval.id, rule=plain(rule))
    row = RuleRecord(rule=kept)
    lane.out.writes.append(Put(row))
    lane.audit("policy_change", who, {"rule": kept.id, "change": "remembered", "effect": "allow", **bound(row)},
               command_id=approval.command_id, approval_id=approval.id)
    return msgspec.structs.replace(approval, remembered=kept.id)


def decided(lane: Lane, approval: Approval, who: dict[str, str]) -> None:
    """Continue the command or the compaction after a yes; end it after a no."""
    record = lane.commands.get(approval.command_id or "")
    if approval.state == "granted":
        _go_on(lane, record)
    elif record is not None:
        cancel_command(lane, record, who["id"], "workspace")
    elif compaction.waiting_for_trust(lane) is not None:
        compaction.failed(lane, files_not_allowed(who["id"]))


def closed(lane: Lane) -> None:
    """Continue a compaction after the runner ended the session whose agent it did not start, unless a question is
    open."""
    if not waits_for_trust(lane):
        _go_on(lane, None)


def _go_on(lane: Lane, record: CommandRecord | None) -> None:
    if record is not None:
        if record.queue_deadline_ms is not None:
            lane.keep(msgspec.structs.replace(record, queue_deadline_ms=lane.now + lane.limits.queue_ttl_ms))
        return
    if lane.state.opening == "closed" and compaction.waiting_for_trust(lane) is not None:
        asking_agents.compact_again(lane)
        for approval in [r for r in lane.approvals.values() if r.approval.workspace_files]:
            if approval.approval.state == "granted" and approval.approval.command_id is None:
                lane.move_approval(approval, "consumed", SYSTEM)


def expired(lane: Lane, record: ApprovalRecord) -> None:
    """Treat an expired question as denied (P-6)."""
    decided(lane, lane.move_approval(record, "expired", SYSTEM, decided_at=lane.at).approval, SYSTEM)


def _no_longer(lane: Lane, newer: Approval) -> None:
    """Void an earlier yes that was for other content, so that it does not apply to this one."""
    for record in [r for r in lane.approvals.values() if r.approval.workspace_files]:
        if record.approval.id != newer.id:
            lane.move_approval(record, "void", SYSTEM, decided_at=record.approval.decided_at or lane.at)


def _subject(lane: Lane, asker: TrustRequester, files: p.WorkspaceFiles, digest: str) -> PolicySubject:
    state = lane.state
    known: dict[str, Any] = {
        "tenant_id": state.tenant_id, "agent_id": state.agent_id, "origin": asker.origin,
        "permission": state.permission, "at_ms": lane.wall, "session_id": state.session_id, "cost_usd": state.cost_usd,
        "runner_id": state.runner_id or None, "person": person_of(asker.actor, asker.driver),
    }
    return files_subject(files, digest, **known)
