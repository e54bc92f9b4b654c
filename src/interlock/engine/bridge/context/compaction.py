"""The gateway's part of compaction (Z-2, Z-4): triggers, the request to the agent, and the check of its report.

If the gateway owns the context, it makes the plan, the agent summarises, and the entry is appended here or not at all.
If the agent owns it, its reports are stored as they arrive. The shell reads transcripts (`engine.sessions.compactor`);
this module decides.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from interlock.engine.bridge.approvals import asking_people
from interlock.engine.bridge.context import memory_flush
from interlock.engine.bridge.context.context_state import Cause, PendingCompaction
from interlock.engine.bridge.context.contexts import Prepared, travelling
from interlock.engine.bridge.lane import SYSTEM, Lane
from interlock.engine.bridge.lane_state import LaneState, Limits
from interlock.protocol import payloads as p
from interlock.protocol.codes import Code
from interlock.protocol.envelope import Frame
from interlock.protocol.limits import MAX_SUMMARY_CHARS
from interlock.protocol.resources import Notice
from interlock.session.context.compaction_plan import CompactionPlan, Thresholds, size_fault, thresholds, tokens_after
from interlock.session.context.file_operations import Files
from interlock.session.context.tokens import text_tokens
from interlock.session.context.windows import window_of
from interlock.session.transcript.entries import CompactionSummary

COMPACT_TIMEOUT_MS = 330_000
"""Time from the request to the report, after which the compaction has failed: an agent's own limit is 300 s."""
MAX_FAILURES = 3
"""Consecutive failures after which a person is asked (Z-4)."""
MAX_PLAN_IDS = 20_000
"""Entries that a plan lists by id; beyond this it states their number."""
GOOD_ENDS = ("end_turn", "max_tokens", "awaiting_input")
"""Ends of a turn after which the size of the context is checked (Z-2)."""
COMPLETE, DONE = "🧹 Auto-compaction complete", "🧹 Compaction complete"


class ConversationMoved(Exception):
    """Raised if the conversation continued while its compaction was planned."""


class RequestedCompaction(NamedTuple):
    """A requested compaction: the message_id of its control frame, "" if a hook wrote the summary, and the session's
    last event at that time."""

    request_id: str
    message_id: str
    n: int


class CompactionRequest(NamedTuple):
    """The parameters of a compaction. `tip` is the context's leaf that the plan is based on."""

    plan: CompactionPlan
    tip: str | None
    cause: Cause
    by: dict[str, str]
    instructions: str | None = None


class ContextSnapshot(NamedTuple):
    """The context as the shell read it: its leaf at that time, and an estimate of its total size in tokens."""

    leaf: str | None
    estimated: int


def owns(state: LaneState) -> bool:
    """Return whether the gateway owns the session's context and controls the session."""
    return state.context.owner == "gateway" and not state.controller


def at_work(lane: Lane) -> bool:
    """Return whether the conversation is being compacted: no prompt is sent meanwhile (T-1)."""
    return lane.state.compacting is not None or bool(lane.state.context.due)


def window(lane: Lane) -> int:
    """Return the context window of the session's model, in tokens (Z-1)."""
    return window_of_state(lane.state, lane.limits)


def window_of_state(state: LaneState, limits: Limits) -> int:
    """Return the context window in tokens for a state without its lane."""
    model = state.entry.model_override or state.model
    return window_of(model, limits.compaction.windows, state.context.window_told)


def limits_of(lane: Lane) -> Thresholds:
    """Return the context sizes that trigger an action."""
    return thresholds(lane.limits.compaction.settings, window(lane))


# --- triggers ---
def after_turn(lane: Lane, stop_reason: str) -> None:
    """Schedule a check of the context's size after a turn that ended well and reported its usage."""
    context = lane.state.context
    if context.due == "overflow":
        context.due = ""  # The turn that waited for it is over.
    if owns(lane.state) and stop_reason in GOOD_ENDS and not context.due and lane.transcriber is not None:
        context.due = "look"


def overflowed(lane: Lane, frame: Frame) -> None:
    """Handle a context that the provider refused during a turn: it is compacted, and the agent retries (Z-2)."""
    context = lane.state.context
    if not owns(lane.state) or lane.state.machine.phase != "turn":
        return
    if lane.transcriber is None or not lane.limits.compaction.settings.enabled:
        refuse_overflow(lane, "automatic compaction is switched off", frame.message_id)
    elif lane.state.compacting is not None or context.due:
        refuse_overflow(lane, "it is being made smaller already", frame.message_id)
    else:
        context.due, context.due_reply = "overflow", frame.message_id


def looked(lane: Lane, seen: ContextSnapshot) -> bool:
    """Handle the context's size after a turn. Returns True if it must be compacted now; the next step is a plan."""
    context, state = lane.state.context, lane.state
    if context.due != "look":
        return False
    if seen.leaf != context.leaf:
        return False  # Read again: something was appended meanwhile.
    state.context_estimated = context.reported is None
    if context.reported is not None:
        context.calibration = context.calibration.adjusted(seen.estimated, context.reported)
        context.reported = None
    tokens = context.calibration.context(seen.estimated)
    state.context_tokens = tokens
    context.due = ""
    asking_people.look(lane)
    settings = lane.limits.compaction.settings
    if memory_flush.due(lane, window(lane), tokens):
        memory_flush.start(lane)
        return False
    if not settings.enabled or context.rests or context.question or tokens <= limits_of(lane).compaction:
        return False
    if not state.attached or state.opening != "open" or state.features.get("context_compaction") is not True:
        return False
    if lane.draining:  # Nothing starts now; the next turn checks again.
        return False
    context.due = "threshold"
    return True


def nothing_to_do(lane: Lane, sentence: str) -> None:
    """Continue unchanged after a plan failed or a hook vetoed it."""
    context = lane.state.context
    if context.due == "overflow":
        refuse_overflow(lane, sentence, context.due_reply)
    context.due, context.due_reply = "", ""


def refuse_overflow(lane: Lane, sentence: str, frame_id: str) -> None:
    """Notify the agent, which waits in its turn, that its context stays as it is. `frame_id` is that of its report."""
    lane.control("session.error", p.SessionError(
        error_code=Code.COMPACTION_FAILED, message=f"The conversation cannot be made smaller: {sentence}.",
        fatal=False), {"in_reply_to": frame_id})


# --- the request ---
def request(lane: Lane, compaction: CompactionRequest, prepared: Prepared,
            summary: str | None = None) -> RequestedCompaction:
    """Request a summary from the agent, or send it the one that a hook wrote. Raises ConversationMoved if the session
    changed after the plan was made, TransferRefused if the context exceeds the size of any file."""
    state, context = lane.state, lane.state.context
    if compaction.tip != context.leaf or state.compacting is not None:
        raise ConversationMoved
    request_id = lane.new_uuid()
    sent = travelling(context, prepared.messages, lane.new_uuid, lane.limits.compaction.pruning)
    for transfer in sent.transfers:
        lane.control("agent.file.transfer", transfer)
    plan: dict[str, Any] = {**msgspec.to_builtins(compaction.plan), "entries": len(compaction.plan.entry_ids),
                            "context": sent.context}
    if len(compaction.plan.entry_ids) > MAX_PLAN_IDS:
        plan["entry_ids"] = []
    if summary is not None:
        plan["summary"] = summary
    frame = lane.control("control.session.compact", p.SessionCompact(
        request_id=request_id, instructions=compaction.instructions, plan=plan))
    context.sent = sent.leaf
    state.compacting = frame.message_id
    context.due, context.instructions = "", None
    context.pending = _pending(lane, request_id, compaction)
    context.pending.supplied = summary or ""
    if compaction.cause == "manual":
        context.rests = False
    lane.audit("compact", compaction.by, {"request": request_id, "cause": compaction.cause})
    return RequestedCompaction(request_id, frame.message_id, state.n)


def count_reported(lane: Lane, tokens: int) -> None:
    """Store the size of the context that the agent reported."""
    lane.state.context_tokens, lane.state.context_estimated = tokens, False


def sent_as(lane: Lane, message_id: str) -> None:
    """Record that this request's answer is pending: no prompt is sent meanwhile (T-1)."""
    lane.state.compacting = message_id


def wait_for(lane: Lane, request_id: str, by: dict[str, str], instructions: str | None) -> None:
    """Record a request to an agent that owns its context: its report or a timeout ends it."""
    lane.state.context.pending = PendingCompaction(request_id=request_id, cause="manual", by=by,
                                                   instructions=instructions,
                                                   deadline_ms=lane.now + COMPACT_TIMEOUT_MS)


def waiting_for_trust(lane: Lane) -> PendingCompaction | None:
    """Return the compaction that is resent once the files that configure the agent are allowed (H-13)."""
    pending = lane.state.context.pending
    return pending if pending is not None and pending.waits_for_trust else None


def _pending(lane: Lane, request_id: str, request: CompactionRequest) -> PendingCompaction:
    plan = request.plan
    return PendingCompaction(
        request_id=request_id, cause=request.cause, by=request.by, deadline_ms=lane.now + COMPACT_TIMEOUT_MS,
        leaf=request.tip, first_kept=plan.first_kept, entries=len(plan.entry_ids), tokens_before=plan.tokens_before,
        tokens_kept=plan.tokens_kept, tokens_summarised=plan.tokens_summarised, read_files=plan.read_files,
        modified_files=plan.modified_files)


def supplied(lane: Lane, request: CompactionRequest, summary: str) -> RequestedCompaction:
    """Use a hook's summary, without asking the agent (Z-6). Raises ConversationMoved."""
    context = lane.state.context
    if request.tip != context.leaf or lane.state.compacting is not None:
        raise ConversationMoved
    request_id = lane.new_uuid()
    requested = RequestedCompaction(request_id, "", lane.state.n)
    context.pending, context.instructions = _pending(lane, request_id, request), None
    fault = summary_fault(lane, summary, request.plan.tokens_summarised)
    if fault is None:
        append(lane, context.pending, summary, by="hook")
    else:
        failed(lane, f"the hook's answer was not taken: {fault}")
    return requested


# --- the report ---
def take_report(lane: Lane, frame: Frame, report: p.Compacted) -> None:
    """Handle `session.compacted`: append the summary, or reject it and report why (Z-4, T-6)."""
    state, context = lane.state, lane.state.context
    answers = state.compacting is not None and frame.metadata.get("in_reply_to") == state.compacting
    if state.controller:
        return
    if context.owner == "agent":
        if answers:
            state.compacting, context.pending = None, None
        if report.trigger == "requested" and not answers:
            return
        _append_agents(lane, report)
        return
    if not answers or context.pending is None:
        lane.audit("compact", SYSTEM, {"op": "dropped", "trigger": report.trigger})
        return
    fault = _fault(lane, context.pending, report)
    if fault is None:
        by = "hook" if report.summary == context.pending.supplied else "gateway"
        append(lane, context.pending, report.summary, by=by)
        return
    # The agent may have replaced its context with its own summary: it is requested to forget it.
    lane.control("session.error", p.SessionError(error_code=Code.COMPACTION_FAILED, message=fault, fatal=False),
                 {"in_reply_to": frame.message_id})
    failed(lane, fault)


def _fault(lane: Lane, pending: PendingCompaction, report: p.Compacted) -> str | None:
    """Return why a report does not match its request; None if it does."""
    if report.request_id != pending.request_id or report.trigger != "requested":
        return "the report does not name its request"
    covers = report.covers
    if covers is None or (covers.first_kept, covers.entries) != (pending.first_kept, pending.entries):
        return "the report does not cover what was planned"
    if pending.leaf != lane.state.context.leaf:
        return "the conversation went on meanwhile"
    return summary_fault(lane, report.summary, pending.tokens_summarised)


def summary_fault(lane: Lane, summary: str, summarised: int) -> str | None:
    """Return why a text is not a valid summary, or is too long; `summarised` is the size of what it replaces, in
    tokens."""
    if not any(char.isalnum() for char in summary):
        return "the summary is empty"
    if (oversize := size_fault(summary)) is not None:
        return oversize
    tokens = lane.state.context.calibration.tokens(text_tokens(summary))
    if tokens >= summarised:
        return f"the summary has about {tokens} tokens, and what it sums up about {summarised}: nothing would be won"
    return None


def append(lane: Lane, done: PendingCompaction, summary: str, *, by: str) -> None:
    """Append the compaction, count it and report it, in one transaction with its audit record (Z-4)."""
    state, context = lane.state, lane.state.context
    after = tokens_after(done.tokens_before, done.tokens_kept, done.tokens_summarised,
                         context.calibration.tokens(text_tokens(summary)))
    details: dict[str, Any] = {"readFiles": done.read_files, "modifiedFiles": done.modified_files, "by": by}
    lane.transcribe([CompactionSummary(summary=summary, first_kept_entry_id=done.first_kept,
                                       tokens_before=done.tokens_before,
                                       details=details, from_hook=by == "hook")])
    _count(lane, after, estimated=True)
    context.calibration = context.calibration.forgotten()
    context.failures, context.pending, context.due, context.sent = 0, None, "", None
    context.due_reply, state.compacting = "", None
    lane.audit("compact", done.by, {
        "op": "done", "request": done.request_id, "cause": done.cause, "by": by, "entries": done.entries,
        "first_kept": done.first_kept, "tokens_before": done.tokens_before, "tokens_after": after})
    _notify(lane, f"about {done.tokens_before:,} tokens before, about {after:,} now", automatic=done.cause != "manual")


def _append_agents(lane: Lane, report: p.Compacted) -> None:
    """Record the compaction of a context that the agent owns: kept from the running turn's first entry, otherwise from
    the next one's (Z-4)."""
    if lane.transcriber is not None and report.summary.strip():
        lane.transcribe([CompactionSummary(
            summary=report.summary[:MAX_SUMMARY_CHARS], first_kept_entry_id=_turn_entry(lane),
            tokens_before=max(0, report.previous_token_count), details={**_preserved(report), "by": "agent"})])
    after = max(0, report.current_token_count)
    _count(lane, after, estimated=False)
    lane.audit("compact", {"id": lane.state.runner_id, "role": "runner"}, {
        "op": "told", "trigger": report.trigger, "by": "agent", "tokens_before": report.previous_token_count,
        "tokens_after": report.current_token_count})
    now = f"{after:,} now" if after else "now not known"
    _notify(lane, f"{report.previous_token_count:,} tokens before, {now}, as the agent reports",
          automatic=report.trigger == "auto")


def _turn_entry(lane: Lane) -> str:
    context = lane.state.context
    if lane.active is not None and context.turn_entry:
        return context.turn_entry
    context.next_entry = lane.reserve_entry()
    return context.next_entry


def _preserved(report: p.Compacted) -> dict[str, Any]:
    files = Files.of_details({"modifiedFiles": report.preserved_elements.get("files_modified")})
    return {"readFiles": [], "modifiedFiles": files.modified} if files.modified else {}


def _count(lane: Lane, after: int, *, estimated: bool) -> None:
    lane.state.patch_entry(compaction_count=lane.state.entry.compaction_count + 1)
    lane.state.context_tokens = after or lane.state.context_tokens
    lane.state.context_estimated = estimated or not after


def _notify(lane: Lane, sizes: str, *, automatic: bool) -> None:
    """Notify verbose surfaces of a compaction and of the number so far (V-1). An automatic one without a running
    command is reported with the next command: surfaces follow commands."""
    sentence = f"{COMPLETE if automatic else DONE} ({lane.state.entry.compaction_count} in this session): {sizes}."
    if automatic and lane.active is None:
        lane.state.context.untold = sentence
    else:
        lane.notice(Notice(code="AutoCompacted" if automatic else "Compacted", message=sentence))


def report_late(lane: Lane) -> None:
    """Report a compaction that preceded the prompt just sent, unless the turn is invisible to people."""
    context, record = lane.state.context, lane.active
    if context.untold and record is not None and record.origin != "flush":
        sentence, context.untold = context.untold, ""
        lane.notice(Notice(code="AutoCompacted", message=sentence))


# --- failures ---
def failed(lane: Lane, reason: str) -> None:
    """Record a failed compaction: nothing is appended, viewers are notified, and after MAX_FAILURES a person is asked
    (Z-4)."""
    state, context = lane.state, lane.state.context
    pending = context.pending
    state.compacting, context.pending, context.due, context.due_reply = None, None, "", ""
    context.sent = None  # The state of the agent's context is unknown.
    lane.notice(Notice(code="CompactionFailed", message=reason))
    if pending is None:
        return
    lane.audit("compact", SYSTEM, {"op": "failed", "request": pending.request_id, "cause": pending.cause},
               personal={"comment": reason})
    if not owns(state):
        return
    context.failures += 1
    if context.failures >= MAX_FAILURES:
        asking_people.ask(lane, reason)


def refused(lane: Lane, reason: str) -> None:
    """Handle the runner's refusal of the request. If the agent may not start yet, the request waits, and is sent again
    (H-13)."""
    if waiting_for_trust(lane) is None:
        failed(lane, reason)


def dropped(lane: Lane) -> None:
    """Stop waiting for an agent or session that is gone, unless the compaction waits for files to be allowed (H-13)."""
    state, context = lane.state, lane.state.context
    if waiting_for_trust(lane) is not None:
        return
    state.compacting, context.pending, context.sent, context.due_reply = None, None, None, ""
    context.due = ""  # The end of the next turn looks again.


def tick(lane: Lane) -> None:
    """Fail a compaction whose agent has not answered in time."""
    pending = lane.state.context.pending
    if pending is not None and pending.deadline_ms <= lane.now:
        failed(lane, f"the agent did not answer within {COMPACT_TIMEOUT_MS // 1000} s")
    asking_people.look(lane)
