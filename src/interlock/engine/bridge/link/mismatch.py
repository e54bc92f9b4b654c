"""Rows that differ from their audit records: detected when a lane is read, and refused before anything else (H-5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from interlock.command.audit.record_seal import (
    BrokenRecord,
    SealedFields,
    changed_approval,
    changed_command,
    read,
    target,
    terms,
)
from interlock.command.machine import ACTIVE
from interlock.engine.bridge.approvals.approvals import restart_clock
from interlock.engine.bridge.commands.cancellation import cancel_command
from interlock.engine.bridge.commands.command_end import end_command
from interlock.engine.bridge.lane import SYSTEM, Lane
from interlock.protocol import payloads as p
from interlock.protocol.problems import Problem
from interlock.protocol.records import ApprovalRecord, AuditRecord, CommandRecord
from interlock.protocol.resources import Notice

SENTENCE = "The stored row of {} differs from the audit record, so it does not run: {}"


class RowMismatch(NamedTuple):
    """A row that differs, and how."""

    about: str
    how: str


def subjects(lane: Lane) -> list[str]:
    """Return the commands and approvals whose audit records `examine` needs."""
    executes = [one.command.id for one in lane.commands.values() if one.command.type == "execute"]
    return list(dict.fromkeys([*executes, *map(_subject, lane.approvals.values())]))


def examine(lane: Lane, records: Mapping[str, Sequence[AuditRecord]]) -> list[RowMismatch]:
    """Compare every live execute and approval with its records."""
    findings: list[RowMismatch] = []
    for approval in lane.approvals.values():
        how = _how(records[_subject(approval)], approval)
        if how is not None:
            findings.append(RowMismatch(approval.approval.id, how))
    changed = {one.about for one in findings}
    for command in [one for one in lane.commands.values() if one.command.type == "execute"]:
        how = _how_command(lane, command, records[command.command.id])
        if how is None and command.command.state in ("pending_approval", "queued"):
            held = next((one for one in lane.approvals.values() if one.approval.id in changed
                         and one.approval.door == "command" and one.approval.command_id == command.command.id), None)
            how = f"approval {held.approval.id} differs" if held is not None else None
        if how is not None:
            findings.append(RowMismatch(command.command.id, how))
    return findings


def stored_otherwise(lane: Lane, approval: ApprovalRecord, command: CommandRecord | None) -> list[RowMismatch]:
    """Compare an approval and its command, as now stored in the ledger, with what this lane wrote: a voter is shown the
    stored rows. Votes and states change while a row is read, so they are not compared here."""
    kept, findings = lane.approvals[approval.approval.id], list[RowMismatch]()
    if (terms(kept), kept.approval.digest) != (terms(approval), approval.approval.digest):
        findings.append(RowMismatch(kept.approval.id, "it was changed after it was written"))
    held = lane.commands.get(kept.approval.command_id or "")
    if held is None or held.command.state != "pending_approval":
        return findings
    if command is None or (command.command.payload, target(command)) != (held.command.payload, target(held)):
        findings.append(RowMismatch(held.command.id, "it was changed after it was written"))
    elif findings:
        findings.append(RowMismatch(held.command.id, f"approval {kept.approval.id} differs"))
    return findings


def refuse(lane: Lane, findings: Sequence[RowMismatch]) -> Problem:
    """Void, cancel or fail what differs; each is audited and reported. Returns the answer to a vote on it."""
    for finding in findings:
        approval, command = lane.approvals.get(finding.about), lane.commands.get(finding.about)
        about = approval.approval if approval is not None else None
        sentence = SENTENCE.format(finding.about, finding.how)
        lane.audit("tampered", SYSTEM, {"row": finding.about, "how": finding.how},
                   command_id=about.command_id if about is not None else command and command.command.id,
                   approval_id=about.id if about is not None else None)
        lane.notice(Notice(code="Tampered", message=sentence))
        if approval is not None:
            _void(lane, approval, sentence)
        elif command is not None:
            _end(lane, command, sentence)
    first = findings[0]
    return Problem("Conflict", SENTENCE.format(first.about, first.how),
                   hint="Somebody edited the database: compare it with `interlock audit verify`, then ask again.")


def _void(lane: Lane, record: ApprovalRecord, sentence: str) -> None:
    approval = lane.move_approval(record, "void", SYSTEM, decided_at=record.approval.decided_at or lane.at).approval
    turn = lane.state.machine.turn
    if approval.interaction_id is None:
        return
    lane.state.drop_held_answer(approval.interaction_id)
    if turn is not None and approval.interaction_id in turn.interactions:
        lane.control("control.interaction.response", p.InteractionResponse(
            interaction_id=approval.interaction_id, decision="deny", by=SYSTEM["id"], message=sentence))
        restart_clock(lane)


def _end(lane: Lane, record: CommandRecord, sentence: str) -> None:
    if record.command.state not in ACTIVE:
        end_command(lane, record, "canceled", SYSTEM, error=("Conflict", sentence))
    elif lane.state.active == record.command.id:
        cancel_command(lane, record, SYSTEM["id"], "tampered")
    else:
        end_command(lane, record, "failed", SYSTEM, error=("Conflict", sentence))


def _subject(record: ApprovalRecord) -> str:
    return record.approval.command_id or record.approval.id


def _how(stored: Sequence[AuditRecord], record: ApprovalRecord) -> str | None:
    records = _read(stored)
    return records if isinstance(records, str) else changed_approval(record, records)


def _how_command(lane: Lane, record: CommandRecord, stored: Sequence[AuditRecord]) -> str | None:
    records = _read(stored)
    if isinstance(records, str):
        return records
    how = changed_command(record, lane.approvals.values(), records)
    state, target = lane.state, record.command.target
    there = (state.agent_id, state.runner_id, state.workspace, state.workspace_access)
    if how is None and there != (target.agent_id, target.runner_id, target.workspace or "",
                                 target.workspace_access or "rw"):
        return "its session has another agent, runner or workspace"
    return how


def _read(stored: Sequence[AuditRecord]) -> list[SealedFields] | str:
    try:
        return read(stored)
    except BrokenRecord as broken:
        return str(broken)
