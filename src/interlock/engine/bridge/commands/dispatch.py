"""Dispatch from the queue to the runner: opening a session, sending a prompt, resending and replacing it."""

from __future__ import annotations

from typing import Any

import msgspec

from interlock.engine.bridge.approvals import held
from interlock.engine.bridge.commands.budgets import may_start
from interlock.engine.bridge.commands.command_end import end_command
from interlock.engine.bridge.commands.prompts import prompt_content
from interlock.engine.bridge.context import compaction
from interlock.engine.bridge.context.contexts import Travelling, travelling, without_prompt
from interlock.engine.bridge.entries import with_overrides
from interlock.engine.bridge.files import send_files
from interlock.engine.bridge.lane import SYSTEM, Lane
from interlock.protocol import payloads as p
from interlock.protocol.envelope import Frame
from interlock.protocol.records import CommandRecord
from interlock.session.transcript.transcript import prompt_draft
from interlock.session.transfers import carried


def queued(lane: Lane) -> list[CommandRecord]:
    """Return the waiting executes in order: interrupting ones first, then by higher priority, then older (C-3)."""
    waiting = [r for r in lane.commands.values() if r.command.state == "queued" and r.command.type == "execute"]
    return sorted(waiting, key=lambda r: (r.command.on_busy != "interrupt", -r.command.priority, r.created_ms,
                                          r.command.id))


def dispatch_next(lane: Lane) -> None:
    """Send the next prompt if the session is free and its runner is attached (T-1, C-8)."""
    state = lane.state
    if state.active is not None or not state.attached:
        return
    if state.controller or lane.draining or state.opening == "closing" or state.orphan is not None:
        return
    if state.machine.phase in ("turn", "usage") or state.compacting is not None or state.context.due:
        return
    waiting = queued(lane)
    if not waiting:
        return
    record = waiting[0]
    if waits_for_trust(lane) or not may_start(lane, record):
        return
    if state.context.owner == "gateway" and lane.transcriber is not None and not _prepared(lane):
        return
    if state.opening == "closed":
        open_session(lane)
    _send_prompt(lane, record)


def waits_for_trust(lane: Lane) -> bool:
    """Return whether the session's agent may not start yet: a question about files that configure it is open (H-13)."""
    return any(record.approval.workspace_files and record.approval.state == "pending"
               for record in lane.approvals.values())


def context_unreadable(lane: Lane, sentence: str) -> None:
    """Cancel the next command because the conversation that its prompt needs cannot be read; otherwise it would wait
    until it expired, without any message."""
    waiting = queued(lane)
    if waiting and lane.state.active is None:
        end_command(lane, waiting[0], "canceled", SYSTEM, error=("Unavailable", sentence))


def _prepared(lane: Lane) -> bool:
    """Return whether the conversation for the prompt is loaded; if not, request that the shell reads it (B-1)."""
    return lane.has_context()


def open_session(lane: Lane) -> None:
    """Request that the runner starts the session's agent, which resumes its conversation if it can."""
    state = lane.state
    frame = lane.control(
        "control.session.open",
        p.SessionOpen(session_id=state.session_id, agent_id=state.agent_id, workspace=state.workspace,
                      workspace_access=state.workspace_access, resume=state.turn_start_n > 0,
                      buffer_policy=lane.limits.buffer_policy, trusted_files=_trusted_files(lane)),
        # A runner that lost its outbox continues its numbers from here: its frames must not look like repetitions
        # (D-6).
        {**({"last_durable_seq": state.last_seq} if state.last_seq else {}),
         **({"next_turn_index": state.turns} if state.turns else {}),
         **({"agent_session": state.agent_session} if state.agent_session else {})},
    )
    state.begin_opening()
    held.take_box(state, None)
    state.open_message_id = frame.message_id
    state.context.sent = None


def _trusted_files(lane: Lane) -> str | None:
    """Return the digest of the files that may configure the next start: a policy has just allowed them, or a person's
    yes is unused. It is never read from the session's row, which no audit record binds (H-5)."""
    digest = lane.take_trusted_files()
    granted = [record.approval.digest for record in lane.approvals.values()
               if record.approval.workspace_files and record.approval.state == "granted"]
    return digest or (granted[-1] if granted else None)


def _send_prompt(lane: Lane, record: CommandRecord) -> None:
    command = record.command
    prompt_id = lane.new_uuid()
    lane.state.occupy(command.id)
    payload = msgspec.structs.replace(
        prompt_content(bytes(command.payload) if isinstance(command.payload, msgspec.Raw) else b"{}"),
        prompt_id=prompt_id, origin=record.origin, command_id=command.id, timeout_ms=command.timeout_ms,
        silent=record.origin == "flush", only_if_asks=record.needs_asking, only_in_box=record.needs_box,
    )
    lands = payload.input_type == "landing"
    payload = payload if lands else with_overrides(lane, payload)
    context = None if lands else _context(lane, again=command.attempt > 0)
    if command.attempt == 0 and not lands:
        # the prompt is in the transcript before the agent can run; a resent prompt is not added again.
        lane.transcribe([prompt_draft(payload, lane.wall)])
        lane.state.context.turn_entry = lane.state.transcript_leaf or ""
    carried_payload, transfers = carried(payload, lane.new_uuid)
    if context is not None:
        transfers = [*context.transfers, *transfers]
        carried_payload = msgspec.structs.replace(carried_payload, context=context.context)
        lane.state.context.sent = context.leaf
    send_files(lane, transfers)
    frame = lane.control("control.prompt.request", carried_payload)
    lane.state.prompt_message_id = frame.message_id
    lane.move(
        record, "dispatched", SYSTEM, {"attempt": command.attempt + 1},
        attempt=command.attempt + 1, prompt_id=prompt_id, prompt_seq=frame.seq, queue_deadline_ms=None,
    )
    compaction.report_late(lane)
    for approval in [r for r in lane.approvals.values() if r.approval.command_id == command.id]:
        if approval.approval.door == "command" and approval.approval.state == "granted":
            lane.move_approval(approval, "consumed", SYSTEM)


def _context(lane: Lane, *, again: bool) -> Travelling | None:
    """Return the conversation to send with the prompt; None if the agent keeps its own (B-1)."""
    prepared = lane.take_context()
    if prepared is None or lane.state.context.owner != "gateway":
        return None
    messages = without_prompt(prepared.messages, lane.state.context.turn_entry) if again else prepared.messages
    return travelling(lane.state.context, messages, lane.new_uuid, lane.limits.compaction.pruning)


def replace_prompt(lane: Lane, record: CommandRecord) -> None:
    """Replace the prompt that a detached runner has not confirmed by a no-op with the same seq (D-7)."""
    seq = record.prompt_seq
    if seq is None:
        return
    state = lane.state
    for upload_seq in range(max(state.upload_seq, state.control_acked + 1), seq) if state.uploads else ():
        _replace(lane, upload_seq, {"replaces": record.prompt_id})
    # Files that the runner has already are to go, too.
    _replace(lane, seq, {"replaces": record.prompt_id, **({"transfers": state.uploads} if state.uploads else {})})
    lane.state.place_noop(seq)


def replace_by_nothing(lane: Lane, seq: int) -> None:
    """Replace a control frame that must not be sent by a no-op."""
    _replace(lane, seq, {"replaces": ""})


def _replace(lane: Lane, seq: int, metadata: dict[str, Any]) -> None:
    lane.replace_control(Frame(
        type="control.turn.cancel", payload=p.TurnCancel(reason="canceled before it was delivered"),
        message_id=lane.new_uuid(), session_id=lane.state.session_id, seq=seq, timestamp=lane.at, metadata=metadata))


def start_detach_clock(lane: Lane) -> None:
    """Limit how long a started command may be detached from its runner (C-7)."""
    record = lane.active
    if record is not None and record.detach_deadline_ms is None:
        lane.keep(msgspec.structs.replace(record, detach_deadline_ms=lane.now + lane.limits.detach_ttl_ms))
