"""The effects of a runner's durable frame on its session and on the command that occupies it (C-8)."""

from __future__ import annotations

from typing import Any

import msgspec

from interlock.command.policy.policy import PolicyVerdict, RuleSet
from interlock.engine.bridge import staged_changes
from interlock.engine.bridge.approvals import unapproved_tools, workspace_trust
from interlock.engine.bridge.approvals.approvals import (
    accepts_change,
    deny_repeated,
    hand_answer,
    has_room,
    open_approval,
    restart_clock,
    stop_clock,
    void_interactions,
)
from interlock.engine.bridge.approvals.held import take_asking, take_box
from interlock.engine.bridge.approvals.policy_subjects import judged, quorums, request_of, subject_of
from interlock.engine.bridge.commands import command_door, progress
from interlock.engine.bridge.commands.budget_decisions import review
from interlock.engine.bridge.commands.budgets import begin_turn, report_overrun, take_usage
from interlock.engine.bridge.commands.command_end import (
    MAX_REASON_CHARS,
    end_canceled,
    end_command,
    fail,
    fail_fatally,
    requeue,
    terminate,
)
from interlock.engine.bridge.commands.denials import MAX_TITLE_CHARS, keep_denial
from interlock.engine.bridge.commands.pause import agent_state, pause_refused
from interlock.engine.bridge.context import compaction
from interlock.engine.bridge.entries import give_up_overrides
from interlock.engine.bridge.files import PassedOver, drop_files, passed_over, take_file
from interlock.engine.bridge.lane import SYSTEM, Lane
from interlock.engine.bridge.lane_state import EndedTurn
from interlock.engine.bridge.link import frame_refusal, orphans
from interlock.engine.bridge.link.observation import control_changed, follow
from interlock.engine.bridge.usage import count_tokens, count_turn
from interlock.protocol import payloads as p
from interlock.protocol.box import covers
from interlock.protocol.codes import MEANINGS, Code
from interlock.protocol.envelope import DPS_VERSION, Frame, Wire
from interlock.protocol.hold import BELOW, PROGRAM
from interlock.protocol.integers import whole
from interlock.protocol.limits import MAX_ID_CHARS
from interlock.protocol.resources import Denial, Notice, OfferedOption
from interlock.session.turn import Refusal

SENT_AGAIN = ("PROMPT_IN_PROGRESS", "RUNNER_RESTARTED", "SESSION_NOT_FOUND")
"""Refusals that do not concern the prompt itself: it crossed a turn, a restart, or an idle agent's close (C-8)."""


MAX_OPTIONS = 32
"""Stored options of one question: a runner shows no more (A-9)."""
NO_ROOM = PolicyVerdict("deny", "open approvals are limited", reason=(
    "The requests that wait for people in this session take too much memory together, so this one was denied. Ask "
    "again once they are decided."))
"""The answer if the open approvals are too large together."""
MAX_SENTENCE_CHARS = 1_000
"""Maximum length of the sentence about a refused frame."""


def take_frame(lane: Lane, frame: Frame, raw: bytes, policy: RuleSet) -> None:
    """Apply the next durable frame; one that does not fit is recorded and reported, and changes nothing (T-4, E-1)."""
    assert frame.seq is not None
    lane.state.reach(frame.seq)
    try:
        lane.state.machine.apply(frame)
    except Refusal as refusal:
        if not lane.state.controller:
            orphans.observe(lane, frame, refused=True)
            if refusal.code == Code.INVALID_FRAME:
                _go_on(lane, frame.type, frame.metadata, refusal.sentence)
            refuse(lane, raw, frame.message_id, refusal.code, refusal.sentence)
            if isinstance(frame.payload, p.InteractionRequest):
                deny_repeated(lane, frame.payload.interaction_id)
            return
        if not follow(lane, frame):
            # Earlier frames are missing here: the frame is shown, and has no meaning for an observer.
            lane.append("C", raw, frame.message_id, frame)
            return
    shown = frame
    if isinstance(frame.payload, p.FileTransfer):
        try:
            shown, raw = take_file(lane, frame, raw)
        except Refusal as refusal:
            refuse(lane, raw, frame.message_id, refusal.code, refusal.sentence)
            return
        except PassedOver:
            lane.append("refused", passed_over(frame, raw), frame.message_id)
            return
    state, transcriber = lane.state, lane.transcriber
    drafts = transcriber.fold.feed(shown, lane.wall) if transcriber is not None else None
    if state.machine.phase in ("turn", "usage") or state.ended is not None:
        lane.fold.feed(frame)
    lane.append("C", raw, frame.message_id, shown)
    if drafts:  # Most frames finish no entry.
        lane.transcribe(drafts)
    if state.orphan is not None:
        orphans.observe(lane, frame, refused=False)
    _react(lane, frame, policy)


def refuse_wire(lane: Lane, wire: Wire, raw: bytes, code: Code, sentence: str) -> None:
    """Record a frame that could not be understood; its number is used up all the same (E-1)."""
    if wire.seq is not None:
        lane.state.reach(wire.seq)
    _go_on(lane, wire.type, wire.metadata, sentence)
    refuse(lane, raw, wire.message_id, code, sentence)


def _go_on(lane: Lane, kind: str, metadata: dict[str, Any], sentence: str) -> None:
    """Continue without a refused frame; a turn whose usage was refused ends as if it had arrived."""
    if frame_refusal.settle(lane, kind, metadata.get("prompt_id"), sentence) and lane.state.ended is not None:
        stop_reason = lane.state.ended.stop_reason
        finish_turn(lane)
        compaction.after_turn(lane, stop_reason)


def refuse(lane: Lane, raw: bytes, message_id: str, code: Code, sentence: str) -> None:
    """Store a refused frame where an operator can find it, and send the runner the reason."""
    lane.append("refused", raw, message_id)
    # The answer must fit a frame, however long the names in the refused frame are (L-2).
    named = {"in_reply_to": message_id} if 0 < len(message_id) <= MAX_ID_CHARS else {}
    error = p.SessionError(error_code=code, message=sentence[:MAX_SENTENCE_CHARS], fatal=False)
    lane.control("session.error", error, named)


def _react(lane: Lane, frame: Frame, policy: RuleSet) -> None:
    payload = frame.payload
    match payload:
        case p.TextDone():  # The most frequent case is checked first.
            if lane.state.stage != "chat" or lane.state.stage_told != "chat":
                progress.at_stage(lane, "chat")
        case p.Capabilities():
            _opened(lane, frame, payload, policy)
        case p.TurnStart():
            _started(lane, frame, payload)
        case p.ToolRequest():
            progress.at_stage(lane, "retrieval" if frame.metadata.get("kind") in progress.RETRIEVAL_KINDS else "tool")
        case p.Progress():
            progress.at_percent(lane, payload.percent)
        case p.InteractionRequest():
            _asked(lane, payload, policy)
        case p.InteractionResolved():
            _resolved(lane, payload, policy)
        case p.AgentError() if unapproved_tools.reports(payload):
            unapproved_tools.report(lane, payload, policy)
        case p.ChangesReport():
            staged_changes.reported(lane, payload)
        case p.PlanChanged():
            lane.state.plan_n = lane.state.n if payload.steps else 0
        case p.AgentSettings():
            lane.state.settings_n = lane.state.n
        case p.AskingChanged():
            unapproved_tools.asking_changed(lane, payload, policy)
        case p.AgentError():
            if payload.severity != "warning" and frame.metadata.get("expected") is not True:
                lane.state.note_error((payload.error_code, payload.message))
            elif payload.error_code == Code.CONTEXT_OVERFLOW:
                compaction.overflowed(lane, frame)
        case p.Compacted():
            compaction.take_report(lane, frame, payload)
        case p.SessionError():
            _session_error(lane, frame, payload, policy)
        case p.TurnEnd():
            lane.state.note_end(EndedTurn(payload.stop_reason, _exit_code(frame.metadata.get("exit_code")),
                                          frame.metadata.get("unanswered") is True,
                                          frame.metadata.get("timed_out") is True,
                                          _reason(frame.metadata.get("reason"))))
        case p.Usage():
            _used(lane, frame, payload)
        case p.StateChanged():
            agent_state(lane, payload)
        case p.SessionClosed():
            _closed(lane, payload)
        case p.ControlChanged():
            control_changed(lane, payload.gateway_id)
        case _:
            pass


def _exit_code(value: object) -> int | None:
    """Return the exit code from the frame's open metadata if it is an integer in range; otherwise None."""
    code = whole(value)
    return code if code is not None and -(2**31) <= code < 2**32 else None


def _reason(value: object) -> str:
    """Return the reason from the frame's open metadata, shortened; otherwise an empty text."""
    return value[:MAX_REASON_CHARS] if isinstance(value, str) else ""


def _opened(lane: Lane, frame: Frame, payload: p.Capabilities, policy: RuleSet) -> None:
    state = lane.state
    named = frame.metadata.get("agent_session")
    state.name_conversation(named if isinstance(named, str) and len(named) <= MAX_ID_CHARS else "")
    if state.opening != "closing":
        state.mark_open()
    state.features = payload.features
    if state.start_commit is None:
        state.start_commit = payload.workspace_commit
    state.settings_n = state.n if payload.settings is not None else 0
    state.context.owner = "gateway" if payload.features.get("context_owner") == "gateway" else "agent"
    if payload.agent is not None and payload.agent.model:
        state.model = payload.agent.model
    # Only an answer to this very open is trusted, and only for as long as it is open (H-18).
    take_box(state, payload.box if frame.metadata.get("in_reply_to") == state.open_message_id else None)
    if not take_asking(state, asks=payload.features.get("permission") == "asks"):
        command_door.hold_queued(lane, policy, f"{state.agent_id} does not ask before it uses a tool.")
    uses = ["permission", "pause", *(["context_owner", "context_compaction"] if compaction.owns(lane.state) else [])]
    lane.control("session.capabilities", p.Capabilities(dps_version=DPS_VERSION, features={"uses": uses}))


def _started(lane: Lane, frame: Frame, payload: p.TurnStart) -> None:
    lane.state.turn_start_n = lane.state.n
    lane.state.turns = payload.turn_index + 1
    lane.fold.reset()
    lane.state.begin_turn()
    unapproved_tools.begin_turn(lane)
    begin_turn(lane)
    record = lane.active
    if lane.state.controller and record is None:
        return  # Another gateway's turn.
    turn = lane.state.machine.turn
    if turn is not None and record is not None and "prompt_id" not in frame.metadata:
        # RAWP-DPS 7.5.1 has no prompt_id. There is at most one query at a time (17.3.2): this turn is the prompt's.
        turn.prompt_id = record.prompt_id or ""
    if record is None or turn is None or record.prompt_id != turn.prompt_id:
        # No command waits for this turn any more, and no clock limits it.
        lane.audit("late_event", SYSTEM, {"frame": frame.type})
        lane.control("control.turn.cancel", p.TurnCancel(reason="its command has ended", turn_id=payload.turn_id))
        return
    progress.reset(lane)
    if record.command.state == "dispatched":
        progress.begin(lane)
        record = lane.move(record, "running", SYSTEM, {"attempt": record.command.attempt}, started_at=lane.at,
                           turn_id=payload.turn_id, remaining_ms=record.command.timeout_ms,
                           running_since_ms=lane.now, detach_deadline_ms=None)
        if record.needs_asking and lane.state.permission == "never":
            unapproved_tools.started_all_the_same(lane, Code.NOT_ASKING, "does not ask before it uses a tool")
        elif not covers(lane.state.box, record.needs_box):
            unapproved_tools.started_all_the_same(lane, Code.NOT_BOXED,
                                                  "did not start in the box that its command needs")
        elif lane.state.permission == "never":
            held = "its command was approved" if record.command.approval_id else "no one was asked about its command"
            rest = ("of what it does only the programs that it starts are held" if lane.state.holding_now.held == "box"
                    else "its single tools are not held")
            lane.notice(Notice(code="ToolsNotGated", message=f"{lane.state.agent_id} does not ask before it uses a "
                               f"tool: {held}, and {rest}."))
    elif record.command.state == "canceling":
        command = msgspec.structs.replace(record.command, started_at=lane.at, turn_id=payload.turn_id)
        lane.keep(msgspec.structs.replace(record, command=command))
        lane.control("control.turn.cancel", p.TurnCancel(reason="cancel", turn_id=payload.turn_id))
    else:  # The next turn of a query that continued after `tool_use`.
        lane.keep(msgspec.structs.replace(record, command=msgspec.structs.replace(record.command,
                                                                                  turn_id=payload.turn_id)))
    review(lane)


def _asked(lane: Lane, interaction: p.InteractionRequest, policy: RuleSet) -> None:
    """Hold a tool call: policy answers at once, or approvers are asked (A-5, P-1). An observer does neither (D-5)."""
    if lane.state.controller:
        return
    turn = lane.state.machine.turn
    tool = turn.tools.get(interaction.context.invocation_id or "") if turn is not None else None
    question = interaction.interaction_type == "QUESTION"
    # Each question counts separately: one tool call may ask several.
    request = request_of(interaction, None if question else tool)
    record = lane.active
    if record is not None and (turn is None or turn.prompt_id != record.prompt_id):
        record = None  # A turn that is not this command's does not share its tools.
    subject = subject_of(lane, record, request)
    verdict = unapproved_tools.judged(lane, policy.decide(subject))
    options = _offered(interaction)
    if (question or verdict.effect == "ask") and not has_room(lane, request, interaction.title, options):
        question, verdict = False, NO_ROOM
    who = {"id": f"policy:{verdict.rule}", "role": "system"}
    digest = request.digest
    command_id = record.command.id if record is not None else None
    if not question and verdict.effect != "ask":
        allow = verdict.effect == "allow"
        hand_answer(lane, p.InteractionResponse(
            interaction_id=interaction.interaction_id, decision="allow" if allow else "deny", by=who["id"],
            message=verdict.reason, option_id=_below(interaction) if allow and verdict.below else None))
        lane.audit("tool_call" if allow else "tool_denied", who,
                   {"tool": interaction.context.tool_name, "digest": digest, "rule": verdict.rule},
                   command_id=command_id)
        if not allow:
            lane.state.note_unallowed(interaction.interaction_id, "")
            keep_denial(lane, command_id, Denial(
                tool_name=interaction.context.tool_name, title=request.title[:MAX_TITLE_CHARS], by=who["id"],
                rule=verdict.rule, reason=verdict.reason, invocation_id=interaction.context.invocation_id, at=lane.at))
        return
    ttl_ms = verdict.ttl_ms or lane.limits.approval_ttl_ms
    approval = open_approval(
        lane, door="tool", title=interaction.title if question else request.title,
        agent_title="" if question else request.agents_words, input_bytes=request.input,
        subject_bytes=request.subject, rule=verdict.rule, required=verdict.required,
        ttl_ms=ttl_ms, requested_by=record.command.actor if record is not None else None,
        self_approval=verdict.self_approval, command_id=command_id, interaction_id=interaction.interaction_id,
        invocation_id=interaction.context.invocation_id, tool_name=interaction.context.tool_name,
        groups=quorums(verdict), deny_threshold=verdict.deny_threshold, signed=verdict.signed,
        require_independent=verdict.require_independent, dangerous=verdict.dangerous,
        kind="question" if question else "permission",
        accepts_change=None if question else accepts_change(lane, interaction.context.tool_name,
                                                            interaction.context.invocation_id),
        driver=record.driver if record is not None else None, options=options,
        judged=None if question else judged(subject, lane.state.stated_box, fell=lane.state.fell),
    )
    lane.state.note_unallowed(interaction.interaction_id, approval.id)
    lane.control("x-interlock.interaction.held", p.InteractionHeld(
        interaction_id=interaction.interaction_id, approval_id=approval.id, expires_in_ms=ttl_ms))
    stop_clock(lane)


def _below(interaction: p.InteractionRequest) -> str | None:
    """Return the option that lets a held program start any program, if this is one (H-16)."""
    return next((option.option_id for option in interaction.options if option.option_id == BELOW
                 and option.kind == "allow_once" and interaction.context.tool_name == PROGRAM), None)


def _offered(interaction: p.InteractionRequest) -> list[OfferedOption]:
    """Return the agent's options for a yes or no this once; "always" is Interlock's to remember (A-9)."""
    return [OfferedOption(option_id=option.option_id, label=option.label, kind=option.kind)
            for option in interaction.options[:MAX_OPTIONS] if option.kind in ("allow_once", "reject_once")]


def _resolved(lane: Lane, payload: p.InteractionResolved, policy: RuleSet) -> None:
    """Consume or void the approval according to what the runner actually sent to the agent (P-2, P-6). A yes that was
    never sent to the runner is reported like a tool that ran without one (H-12)."""
    _take_resolved(lane, payload)
    approval_id = lane.state.take_unallowed(payload.interaction_id)
    if approval_id is not None and payload.outcome == "allowed" and not lane.state.controller:
        unapproved_tools.allowed_without_yes(lane, payload.interaction_id, approval_id, policy)


def _take_resolved(lane: Lane, payload: p.InteractionResolved) -> None:
    record = next((r for r in lane.approvals.values() if r.approval.interaction_id == payload.interaction_id), None)
    who = {"id": lane.state.runner_id, "role": "runner"}
    if record is None:
        return
    state = record.approval.state
    if state == "granted":
        lane.move_approval(record, "consumed" if payload.outcome == "allowed" else "void", who)
    elif state == "pending":
        lane.move_approval(record, "expired" if payload.outcome == "expired" else "void", who, decided_at=lane.at)
        restart_clock(lane)


def _session_error(lane: Lane, frame: Frame, payload: p.SessionError, policy: RuleSet) -> None:
    """Handle a refusal before the start, by code (C-8), or the session's end from the runner's side (T-5)."""
    record = lane.active
    answered = frame.metadata.get("in_reply_to")
    if payload.fatal and payload.error_code == Code.WORKSPACE_NOT_TRUSTED and not lane.state.controller \
            and workspace_trust.found(lane, payload, policy):
        return
    if payload.fatal:
        if payload.error_code == Code.RUNNER_RESTARTED and answered is not None:  # Its prompt is sent again (C-8).
            lane.state.note_error((payload.error_code, payload.message))
        else:
            terminate(lane, payload.error_code, payload.message)
        return
    if lane.state.compacting is not None and answered == lane.state.compacting:
        compaction.refused(lane, payload.message)
        return
    if pause_refused(lane, answered, payload.error_code, payload.message):
        return
    busy = payload.error_code == Code.PROMPT_IN_PROGRESS
    unnamed = busy and answered is None  # RAWP-DPS 17.3.2 has no in_reply_to either.
    if record is None or record.prompt_seq is None or not (unnamed or _is_prompt(lane, answered)):
        return
    if record.command.started_at is not None:
        if busy:  # The turn that named no prompt was the agent's own.
            lane.control("control.turn.cancel", p.TurnCancel(reason="its prompt was refused"))
            fail(lane, record, payload.error_code, payload.message)
        return
    given_up = payload.error_code == Code.UNSUPPORTED_CAPABILITY and give_up_overrides(lane, record, payload.message)
    if payload.error_code == Code.SESSION_NOT_FOUND:
        lane.state.context.sent = None  # Its part of the conversation is lost: the prompt is sent with all of it again.
    if busy and lane.state.machine.phase == "idle":
        orphans.adopt(lane)
    if payload.error_code == Code.NOT_ASKING:
        command_door.hold(lane, record, policy, payload.message)
    elif payload.error_code == Code.NOT_BOXED:
        command_door.hold(lane, record, policy, payload.message, lane.state.permission)
    elif given_up or payload.error_code in SENT_AGAIN:
        requeue(lane, record)
    else:
        fail(lane, record, payload.error_code, payload.message)


def _is_prompt(lane: Lane, message_id: object) -> bool:
    """Return whether `message_id` is the prompt that the active command was sent with."""
    return isinstance(message_id, str) and message_id == lane.state.prompt_message_id


def _used(lane: Lane, frame: Frame, payload: p.Usage) -> None:
    """Handle a usage report: during the turn it carries running totals; the final one finishes the turn (T-2)."""
    in_turn = lane.state.machine.phase == "turn"
    take_usage(lane, frame, payload, in_turn=in_turn or lane.state.ended is not None)
    if lane.state.ended is None:
        if in_turn:
            review(lane)
        return
    tokens = payload.token_usage
    lane.state.input_tokens += tokens.input_tokens
    lane.state.output_tokens += tokens.output_tokens
    count_tokens(lane, tokens, estimated=frame.metadata.get("estimated") is True)
    if payload.context_window.used:
        compaction.count_reported(lane, payload.context_window.used)
    context, stop_reason = lane.state.context, lane.state.ended.stop_reason
    context.reported = payload.context_window.used
    context.window_told = payload.context_window.capacity or context.window_told
    report_overrun(lane)
    finish_turn(lane)
    compaction.after_turn(lane, stop_reason)


def finish_turn(lane: Lane) -> None:
    """End the command by C-8, once the turn's end and its usage have arrived."""
    ended, record = lane.state.take_end(), lane.active
    void_interactions(lane)
    if ended is None:
        return
    count_turn(lane)
    if record is None:
        return
    if record.command.started_at is None:
        return
    if fail_fatally(lane) or unapproved_tools.fail_unasked(lane, record):
        return
    if ended.stop_reason == "tool_use":
        return
    if ended.stop_reason == "error":
        code, message = lane.state.last_error or (Code.INTERNAL, MEANINGS[Code.INTERNAL].sentence)
        fail(lane, record, code, message, exit_code=ended.exit_code)
        return
    if ended.stop_reason == "cancelled":
        if ended.timed_out and record.cancel_cause is None:
            record = msgspec.structs.replace(record, cancel_cause="timeout")
        end_canceled(lane, record, ended.reason)
        return
    notices = list(record.command.notices)
    if ended.unanswered:
        end_command(lane, record, "failed", SYSTEM, output=lane.fold.output(lane.state.session_id, notices),
                    error=("AgentExited", "the agent's process ended in the middle of the turn without an answer"))
        return
    if ended.stop_reason == "max_tokens":
        notices.append(Notice(code="Truncated", message="the model reached its token limit before it was done"))
    output = lane.fold.output(lane.state.session_id, notices, exit_code=ended.exit_code,
                              awaiting_input=ended.stop_reason == "awaiting_input")
    end_command(lane, record, "succeeded", SYSTEM, output=output)


def _closed(lane: Lane, payload: p.SessionClosed) -> None:
    state = lane.state
    state.mark_closed()
    take_box(state, None)
    compaction.dropped(lane)
    drop_files(lane)
    if state.ended is not None:
        finish_turn(lane)
    void_interactions(lane)
    fail_fatally(lane)
    state.end_closing()
    record = lane.active
    if record is None:
        workspace_trust.closed(lane)
        return
    if record.command.started_at is not None:
        fail(lane, record, *(state.last_error or ("AgentExited", f"the session was closed: {payload.reason}")))
    # Otherwise the prompt met a closed session: its own refusal is under way and determines the outcome (C-8).
