"""At the runner's start: close what its last run left open, from the rows of the outbox (D-6, D-7)."""

from __future__ import annotations

import contextlib

from interlock.ports.agent import TurnOutcome, TurnUsage
from interlock.ports.outbox import CloseBlock, Outbox, RefuseControl, TransientText
from interlock.protocol import payloads as p
from interlock.protocol.codes import Code
from interlock.protocol.envelope import Frame
from interlock.protocol.frames import Direction, InvalidFrame, decode
from interlock.runner.journal import Journal
from interlock.runner.session.session_control import refusal
from interlock.runner.session.uploads import forget, take_chunk
from interlock.runner.session_state import TurnState
from interlock.runner.turn import endings
from interlock.runner.turn.blocks import PREFIXES
from interlock.runner.turn.tool_calls import AnnouncedCall
from interlock.session.transfers import content_of, named

SENTENCE = "The runner was restarted while the agent worked."
_CHANNELS: frozenset[str] = frozenset({"stdout", "stderr", "progress", "agent"})


async def recover(journal: Journal, outbox: Outbox) -> None:
    """Close one session's turn and opening, answer every stored prompt that never started, and refuse frames of a
    gateway that does not control it."""
    writes: list[Frame | CloseBlock | RefuseControl] = []
    state = journal.state
    controller, *others = await outbox.controlling(journal.session_id)
    stored = await _unhandled(journal, outbox, controller)
    writes += _take_files(journal, stored)
    unanswered = [frame for frame in stored if isinstance(frame.payload, p.PromptRequest | p.SessionOpen)]
    if state.turn is not None:
        writes += await _end_turn(journal, outbox, state.turn)
    for frame in unanswered:
        fatal = isinstance(frame.payload, p.SessionOpen)
        sentence = "The runner was restarted before it started the agent." if fatal else (
            "The runner was restarted before the prompt was started.")
        writes.append(journal.session_error(Code.RUNNER_RESTARTED, sentence, fatal, frame.message_id))
    opened = any(isinstance(frame.payload, p.SessionOpen) for frame in unanswered)
    if state.opening != "closed" or opened:
        writes += endings.closed(journal, "the runner was restarted", None)
    for gateway_id in others:
        writes += [RefuseControl(journal.session_id, gateway_id, refusal(frame, controller))
                   for frame in await _unhandled(journal, outbox, gateway_id)]
    # The state is written even if it changed alone: accepted files survive this start.
    await journal.write(*writes)


async def _unhandled(journal: Journal, outbox: Outbox, gateway_id: str) -> list[Frame]:
    """Return a gateway's stored control frames without an outcome in the outbox; the next write contains it."""
    found: list[Frame] = []
    for record in await outbox.controls(journal.session_id, journal.state.handled(gateway_id), gateway_id):
        journal.state.note_handled(gateway_id, record.seq)
        with contextlib.suppress(InvalidFrame):  # An invalid one was refused when it arrived.
            found.append(decode(record.body, Direction.M))
    return found


def _take_files(journal: Journal, stored: list[Frame]) -> list[Frame]:
    """Accept the files of pending prompts, and forget those of cancelled ones; return the frames that refuse a file."""
    refused: list[Frame] = []
    for frame in stored:
        if isinstance(frame.payload, p.FileTransfer):
            sentence = take_chunk(journal.state, frame)
            if sentence is not None:
                refused.append(journal.session_error(Code.INVALID_FRAME, sentence, False, frame.message_id))
        elif isinstance(frame.payload, p.PromptRequest):
            forget(journal.state, named(content_of(frame.payload)))
        elif isinstance(frame.payload, p.TurnCancel):
            forget(journal.state, frame.metadata.get("transfers"))
    return refused


async def _end_turn(journal: Journal, outbox: Outbox, turn: TurnState) -> list[Frame | CloseBlock]:
    owed = endings.usage(journal, turn.turn_id, TurnUsage(), crashed=True)
    if turn.usage_owed:
        return [owed]
    writes: list[Frame | CloseBlock] = []
    calls = {name: AnnouncedCall(name, started_ms, silent=turn.silent) for name, started_ms in turn.tools.items()}
    for piece in await outbox.pieces(journal.session_id):
        writes += _close_piece(journal, turn, calls, piece)
    for name, call in calls.items():
        result = call.result("cancelled", "text", None, journal.now_ms)
        writes.append(journal.frame("tool.invoke.result", result, {**call.metadata, "partial": True}))
        writes += [CloseBlock(journal.session_id, f"{name}/{channel}") for channel in sorted(_CHANNELS)]
    for interaction_id in turn.interactions:
        resolved = p.InteractionResolved(
            interaction_id=interaction_id, outcome="void", by="runner", decided_at=journal.at
        )
        writes.append(journal.frame("x-interlock.interaction.resolved", resolved))
    writes.append(journal.agent_error("fatal", Code.RUNNER_RESTARTED, SENTENCE, turn.turn_id))
    writes.append(endings.turn_end(journal, turn, TurnOutcome("error")))
    writes.append(owed)
    return writes


def _close_piece(journal: Journal, turn: TurnState, calls: dict[str, AnnouncedCall], piece: TransientText
                 ) -> list[Frame | CloseBlock]:
    """Close a block with the text so far; a tool's text is added to its call, which is closed afterwards."""
    invocation_id, slash, channel = piece.block.rpartition("/")
    if slash and channel in _CHANNELS:
        call = calls.get(invocation_id)
        if call is not None:
            call.stream(_channel(channel), piece.text)
        return []
    kind = "thinking" if piece.block.startswith(PREFIXES["thinking"]) else "text"
    payload = p.TextDone(turn_id=turn.turn_id, block_id=piece.block, text=piece.text)
    frame = journal.frame(f"agent.{kind}.done", payload, {
        "partial": True, **({"silent": True} if turn.silent else {})})
    return [frame, CloseBlock(journal.session_id, piece.block)]


def _channel(name: str) -> p.Channel:
    channels: dict[str, p.Channel] = {"stdout": "stdout", "stderr": "stderr", "progress": "progress", "agent": "agent"}
    return channels[name]
