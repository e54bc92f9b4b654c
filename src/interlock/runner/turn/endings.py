"""The frames that end a turn, its usage, a process or an opening (A-2, T-2, T-3)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from interlock.agents.credentials import remark_on
from interlock.ports.agent import ProcessExit, TurnOutcome, TurnUsage
from interlock.protocol import payloads as p
from interlock.protocol.clock import iso
from interlock.protocol.codes import Code
from interlock.protocol.envelope import Frame
from interlock.protocol.limits import LARGEST_SEQ
from interlock.runner.journal import Journal
from interlock.runner.process.exits import ExitKind, kind_of, sentence_of
from interlock.runner.session_state import TurnState

STDERR_LINES = 20
STDERR_CHARS = 4_000
"""Characters of an agent's standard error that the error about its failure quotes (A-8)."""


def with_stderr(sentence: str, stderr: str) -> str:
    """Return the sentence, followed by the last lines of the agent's standard error."""
    lines = stderr.strip().splitlines()[-STDERR_LINES:]
    shown = "\n".join(lines)[-STDERR_CHARS:]
    return f"{sentence}\n{shown}" if shown else sentence


def failure(journal: Journal, sentence: str, stderr: str) -> str:
    """Return the sentence about an agent's failure, the remedy if it lacks a key that is set here, and its last lines.
    """
    remark = remark_on(f"{sentence}\n{stderr}", journal.state.agent_id, journal.keys_left_out)
    return with_stderr(f"{sentence} {remark}".rstrip(), stderr)


def exit_error(journal: Journal, ended: ProcessExit, stderr: str, turn_id: str | None, *,
               expected: bool) -> list[Frame]:
    """Return `agent.error` for a non-zero exit (A-2); `expected` marks one that the runner requested."""
    kind = kind_of(ended)
    if kind is ExitKind.OK:
        return []
    code = Code.SIGNAL_EXIT if kind is ExitKind.SIGNAL else Code.PROCESS_EXIT
    sentence = sentence_of(ended) if expected else failure(journal, sentence_of(ended), stderr)
    return [journal.agent_error("fatal", code, sentence, turn_id, {"expected": True} if expected else None)]


def outcome_errors(journal: Journal, outcome: TurnOutcome, stderr: str, turn_id: str) -> list[Frame]:
    """Return the error and notice frames that precede a turn's end."""
    frames: list[Frame] = []
    if outcome.notice is not None:
        frames.append(journal.agent_error("warning", *outcome.notice, turn_id))
    if outcome.error is not None:
        code, sentence = outcome.error
        shown = failure(journal, sentence, "" if outcome.exit_code is not None else stderr)
        frames.append(journal.agent_error("error", code, shown, turn_id))
    return frames


def turn_end(journal: Journal, turn: TurnState, outcome: TurnOutcome, *, timed_out: bool = False,
             reason: str = "") -> Frame:
    """Return `session.turn.end`. `timed_out` is true if the runner's own timer cancelled the turn (C-1); `reason` is
    why the runner cancelled it by itself."""
    metadata: dict[str, Any] = {}
    exit_code = outcome.exit_code
    if exit_code is None and outcome.process is not None:
        exit_code = outcome.process.code
    if exit_code is not None:
        metadata["exit_code"] = exit_code
    if outcome.unanswered:
        metadata["unanswered"] = True
    if timed_out and outcome.stop_reason == "cancelled":
        metadata["timed_out"] = True
    if reason and outcome.stop_reason == "cancelled":
        metadata["reason"] = reason
    payload = p.TurnEnd(
        turn_id=turn.turn_id, stop_reason=outcome.stop_reason, tool_invocation_count=turn.tool_count
    )
    return journal.frame("session.turn.end", payload, metadata)


def usage(journal: Journal, turn_id: str, reported: TurnUsage, *, crashed: bool) -> Frame:
    """Return the usage frame of a turn (T-2). Figures that the agent did not report are 0, marked after a crash."""
    estimated = crashed and reported.input_tokens is None
    return _usage(journal, turn_id, reported, {"estimated": True} if estimated else None)


def running_usage(journal: Journal, turn_id: str, reported: TurnUsage) -> Frame:
    """Return the running totals of the turn (T-2)."""
    return _usage(journal, turn_id, reported, None)


def compaction_usage(journal: Journal, reported: TurnUsage) -> Frame:
    """Return the usage of a compaction outside of turns; it has no turn, and only the totals grow."""
    return _usage(journal, None, reported, None)


def _usage(journal: Journal, turn_id: str | None, reported: TurnUsage, metadata: dict[str, Any] | None) -> Frame:
    state, turn = journal.state, journal.state.turn
    if reported.cost_usd is not None:
        before = turn.cost_usd if turn is not None else 0.0
        state.cost_usd += max(reported.cost_usd - before, 0.0)
        if turn is not None:
            turn.cost_usd = max(reported.cost_usd, before)
    payload = p.Usage(
        turn_id=turn_id,
        token_usage=_tokens(reported),
        cost_usage=p.Quota(limit=-1, used=state.cost_usd, unit="USD"),
        message_usage=p.MessageQuota(limit=-1, used=state.messages, unit="COUNT"),
        context_window=_window(reported),
        time_to_reset=month_end(journal.now_ms),
        request_usage=p.TokenUsage(**reported.request._asdict()) if reported.request is not None else None,
    )
    return journal.frame("session.usage", payload, metadata)


def _tokens(reported: TurnUsage) -> p.TokenUsage:
    return p.TokenUsage(
        input_tokens=_count(reported.input_tokens) or 0, output_tokens=_count(reported.output_tokens) or 0,
        cache_read_tokens=_count(reported.cache_read_tokens), cache_write_tokens=_count(reported.cache_write_tokens),
        thinking_tokens=_count(reported.thinking_tokens),
    )


def _count(reported: int | None) -> int | None:
    """Return an agent's figure in the range of a frame; a negative one counts as unknown."""
    return reported if reported is not None and 0 <= reported <= LARGEST_SEQ else None


def _window(reported: TurnUsage) -> p.ContextWindow:
    utilization = None
    if reported.context_capacity and reported.context_used is not None:
        utilization = min(max(reported.context_used / reported.context_capacity, 0.0), 1.0)
    return p.ContextWindow(capacity=_count(reported.context_capacity), used=_count(reported.context_used),
                           utilization=utilization)


def month_end(now_ms: int) -> str:
    """Return the end of the current UTC month: the first instant of the next."""
    now = datetime.fromtimestamp(now_ms // 1000, UTC)
    year, month = divmod(now.year * 12 + now.month, 12)
    return iso(int(datetime(year, month + 1, 1, tzinfo=UTC).timestamp()) * 1000)


def closed(journal: Journal, reason: str, ended: ProcessExit | None) -> list[Frame]:
    """Return the frames that end an opening: the agent's last state and `session.closed`."""
    payload = p.SessionClosed(
        reason=reason, exit_code=ended.code if ended else None, signal=ended.signal if ended else None
    )
    return [*journal.state_changed("terminated"), journal.frame("session.closed", payload)]
