"""The command door: policy on executes, and what happens to a command that was admitted on the assumption that its
agent asks before its tool calls, if it does not (A-10, H-11).

Whether an agent asks is known once it is open, and may change. So such a command is sent with the condition that the
agent asks; if it does not, nothing has run, and the command waits for approvers like any command of an agent that does
not ask.
"""

from __future__ import annotations

import msgspec

from interlock.command.audit.record_seal import box_fact
from interlock.command.card.lines import prompt_title
from interlock.command.policy.policy import Permission, PolicySubject, PolicyVerdict, RuleSet
from interlock.engine.bridge.approvals.approvals import open_approval
from interlock.engine.bridge.approvals.policy_subjects import command_subject, judged, origin_of, quorums
from interlock.engine.bridge.commands.command_end import end_canceled, end_command, fail, requeue
from interlock.engine.bridge.commands.dispatch import queued
from interlock.engine.bridge.lane import SYSTEM, Lane
from interlock.engine.bridge.lane_state import OPEN_MODE
from interlock.protocol.codes import Code
from interlock.protocol.hold import Holding
from interlock.protocol.records import CommandRecord
from interlock.protocol.resources import Approval, Notice, StatusEvent

CODE = "ToolsNotGated"


def ask_people(lane: Lane, record: CommandRecord, on: PolicySubject, verdict: PolicyVerdict, required: int = 0,
               holding: Holding | None = None) -> Approval:
    """Open the approval that an execute waits for; its input is the payload's bytes. `on` is what was judged; `holding`
    is how its agent is held, if that differs from the session's."""
    command = record.command
    raw = bytes(command.payload) if isinstance(command.payload, msgspec.Raw) else b""
    return open_approval(
        lane, door="command", title=prompt_title(lane.state.agent_id, raw), input_bytes=raw, rule=verdict.rule,
        required=max(verdict.required, required), ttl_ms=verdict.ttl_ms or lane.limits.approval_ttl_ms,
        command_id=command.id, requested_by=command.actor, driver=record.driver, self_approval=verdict.self_approval,
        groups=quorums(verdict), deny_threshold=verdict.deny_threshold, signed=verdict.signed,
        require_independent=verdict.require_independent, dangerous=verdict.dangerous, holding=holding,
        judged=judged(on, lane.state.expected_box),
    )


def hold_queued(lane: Lane, policy: RuleSet, because: str) -> None:
    """Hold every queued command that was admitted on the assumption that its agent asks, so that approvers decide on
    it."""
    for record in queued(lane):
        if record.needs_asking:
            hold(lane, record, policy, because)


def hold(lane: Lane, record: CommandRecord, policy: RuleSet, because: str, permission: Permission = "never") -> None:
    """Judge a command again that has not run: its agent is not known to ask, or has a weaker box than was shown.
    `because` is one sentence."""
    command = record.command
    if command.state == "canceling":
        lane.state.release()
        end_canceled(lane, record)
        return
    on = command_subject(lane, command.actor, record.driver, origin_of_record(record), command.payload_sha256 or "",
                 permission)
    verdict = policy.decide(on)
    if verdict.effect == "deny" or record.origin == "flush":
        _refuse(lane, record, f"{because} Policy rule {verdict.rule} denies a command of such an agent.")
        return
    asks = permission == "asks"
    needs_asking = record.needs_asking and asks and verdict.effect == "allow"
    dropped = {"needs_asking": False} if record.needs_asking and not needs_asking else {}
    record = lane.keep(msgspec.structs.replace(record, needs_asking=needs_asking))
    if verdict.effect == "allow":
        if not asks:
            lane.state.note_let_through(verdict.rule)
        if command.state == "dispatched":
            box = lane.state.expected_box if record.needs_box is not None else None
            requeue(lane, msgspec.structs.replace(record, needs_box=box),
                    {"rule": verdict.rule, "needs_box": box_fact(box), **dropped})
        elif dropped:  # Its state does not change, so no transition records what it no longer needs.
            lane.audit("reevaluate", SYSTEM, {"rule": verdict.rule, **dropped}, command_id=command.id)
        return
    record = _notice(lane, record, f"{because} Its whole command waits for an approval.")
    if lane.state.active == command.id:
        lane.state.release()
    lane.state.note_let_through("")
    # The mode that the prompt names may be the reason: the session's agent asks, but in this command's mode it would
    # not.
    as_asked = Holding(held="command", why=OPEN_MODE) if lane.state.permission == "asks" else None
    approval = ask_people(lane, record, on, verdict, holding=as_asked)
    record = msgspec.structs.replace(record, needs_box=lane.state.expected_box)
    lane.move(record, "pending_approval", SYSTEM,
              {"rule": verdict.rule, "needs_box": box_fact(record.needs_box), **dropped}, approval_id=approval.id,
              prompt_id=None, prompt_seq=None, queue_deadline_ms=None, detach_deadline_ms=None)


def origin_of_record(record: CommandRecord) -> str:
    """Return the command's origin in policy terms."""
    return origin_of(record) if record.origin != "user" else "user"


def _refuse(lane: Lane, record: CommandRecord, sentence: str) -> None:
    if record.command.state == "queued":
        end_command(lane, record, "canceled", SYSTEM, error=("Forbidden", sentence))
    else:
        fail(lane, record, Code.NOT_ASKING.value, sentence)


def _notice(lane: Lane, record: CommandRecord, sentence: str) -> CommandRecord:
    notice = Notice(code=CODE, message=sentence)
    command = msgspec.structs.replace(record.command, notices=[*record.command.notices, notice])
    lane.status(StatusEvent(event="notice", command_id=record.command.id, at=lane.at, notice=notice))
    return lane.keep(msgspec.structs.replace(record, command=command))
