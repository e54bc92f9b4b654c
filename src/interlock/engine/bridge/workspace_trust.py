"""Files of a workspace that configure its agent: asked about before it starts, and again when they change (H-13).

The runner looks at each start and starts nothing while there is something to ask. The command goes back to the queue
meanwhile; an open that names the digest of what was allowed starts the agent, if the runner finds the same again.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from interlock.command.card.reading import workspace_files
from interlock.command.card.text import one_line
from interlock.command.policy import Policy, Rule, Subject
from interlock.command.register import bound
from interlock.command.remembering import plain
from interlock.engine.bridge import termination
from interlock.engine.bridge.approving import open_approval
from interlock.engine.bridge.canceling import cancel_command
from interlock.engine.bridge.judging import files_subject, judged, origin_of, person_of, quorums
from interlock.engine.bridge.lane import SYSTEM, Lane
from interlock.ports.ledger import PutRule
from interlock.protocol import payloads as p
from interlock.protocol.clock import iso
from interlock.protocol.codes import Code
from interlock.protocol.problems import Problem
from interlock.protocol.records import ApprovalRecord, CommandRecord, RuleRecord
from interlock.protocol.resources import Approval, RememberedRule

TRUSTED_MS = 365 * 86_400_000
"""How long a yes holds for files that do not change."""
TITLE_CHARS = 160


def found(lane: Lane, payload: p.SessionError, policy: Policy) -> bool:
    """Decide on what the runner found. False if nothing can be asked: then the open has failed with its sentence."""
    record = lane.active
    if not isinstance(payload.workspace_files, msgspec.Raw) or record is None or record.command.started_at is not None:
        return False
    raw = bytes(payload.workspace_files)
    files = workspace_files(raw)
    if files is None or record.command.state == "canceling":
        return False
    digest = hashlib.sha256(raw).hexdigest()
    subject = _subject(lane, record, files, digest)
    verdict = policy.decide(subject)
    who = {"id": f"policy:{verdict.rule}", "role": "system"}
    if verdict.effect == "allow":
        lane.trusted_files = digest
        lane.audit("workspace_allowed", who, {"digest": digest, "rule": verdict.rule}, command_id=record.command.id)
        return True
    if verdict.effect == "deny":
        lane.audit("workspace_denied", who, {"digest": digest, "rule": verdict.rule}, command_id=record.command.id)
        termination.begin(lane, Code.WORKSPACE_NOT_TRUSTED, f"{payload.message.rstrip('.')}: the policy rule "
                          f"{verdict.rule} denies it{f', {verdict.reason}' if verdict.reason else ''}")
        return True
    approval = open_approval(
        lane, door="command", title=title(files), input_bytes=raw, rule=verdict.rule, required=verdict.required,
        ttl_ms=verdict.ttl_ms or lane.limits.approval_ttl_ms, requested_by=record.command.actor, driver=record.driver,
        self_approval=verdict.self_approval, command_id=record.command.id, groups=quorums(verdict),
        deny_threshold=verdict.deny_threshold, signed=verdict.signed,
        require_independent=verdict.require_independent, workspace_files=True,
        judged=judged(subject))
    _no_longer(lane, approval)
    return True


def title(files: p.WorkspaceFiles) -> str:
    """Name the question in one line."""
    first, more = files.files[0].path if files.files else "files", len(files.files) - 1
    others = f" and {more} more" if more > 0 else ""
    return one_line(f"start {files.agent_id} as {first}{others} of {files.directory} configure it", TITLE_CHARS)


def remember(lane: Lane, approval: Approval, by: str, who: dict[str, str], remembered: int, limit: int) -> Approval:
    """Keep a yes as a rule for this agent, runner and directory while the files stay the same. One that several people
    must give, or sign, is asked for at each start: no rule replaces it. Raises Problem if too many are kept."""
    files = workspace_files(bytes(approval.input))
    if files is None or approval.required > 1 or approval.groups or approval.signed or (
            approval.require_independent or not approval.self_approval):
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
    lane.out.writes.append(PutRule(row))
    lane.audit("policy_change", who, {"rule": kept.id, "change": "remembered", "effect": "allow", **bound(row)},
               command_id=approval.command_id, approval_id=approval.id)
    return msgspec.structs.replace(approval, remembered=kept.id)


def decided(lane: Lane, approval: Approval, who: dict[str, str]) -> None:
    """A yes lets the command go on from the queue; a no ends it."""
    record = lane.commands.get(approval.command_id or "")
    if record is None:
        return
    if approval.state != "granted":
        cancel_command(lane, record, who["id"], "workspace")
    elif record.queue_deadline_ms is not None:
        lane.keep(msgspec.structs.replace(record, queue_deadline_ms=lane.now + lane.limits.queue_ttl_ms))


def expired(lane: Lane, record: ApprovalRecord) -> None:
    """Time is up, and that means no (P-6)."""
    decided(lane, lane.move_approval(record, "expired", SYSTEM, decided_at=lane.at).approval, SYSTEM)


def _no_longer(lane: Lane, newer: Approval) -> None:
    """An earlier yes was for other content: it must not be taken for this one."""
    for record in [r for r in lane.approvals.values() if r.approval.workspace_files]:
        if record.approval.id != newer.id:
            lane.move_approval(record, "void", SYSTEM, decided_at=record.approval.decided_at or lane.at)


def _subject(lane: Lane, record: CommandRecord, files: p.WorkspaceFiles, digest: str) -> Subject:
    state = lane.state
    known: dict[str, Any] = {
        "tenant_id": state.tenant_id, "agent_id": state.agent_id, "origin": origin_of(record),
        "permission": state.permission, "at_ms": lane.wall, "session_id": state.session_id, "cost_usd": state.cost_usd,
        "runner_id": state.runner_id or None, "person": person_of(record.command.actor, record.driver),
    }
    return files_subject(files, digest, **known)
