"""Staged changes as recorded by the gateway: what is staged at the runner, what was landed, what was discarded (H-17).

Whether they are landed is an ordinary question of the turn, asked as the tool `land_changes`: policy, votes and audit
are those of every tool call. This module handles the runner's reports.
"""

from __future__ import annotations

from typing import Any

from interlock.engine.bridge.lane import Lane
from interlock.protocol import payloads as p
from interlock.protocol.problems import Problem
from interlock.protocol.resources import Notice

MAX_AUDITED = 100
"""Files that one audit record lists with their digests; its own digest covers all of them."""
MAX_NAMED = 5
"""Refused files that a notice names."""


def reported(lane: Lane, payload: p.ChangesReport) -> None:
    """Store the report's position in the session's stream, and audit what changed the workspace or the staged files."""
    if payload.event == "staged":
        lane.state.staged_n = lane.state.n if payload.count or payload.refused_count else 0
        return
    record = lane.active
    meta: dict[str, Any] = {
        "digest": payload.digest, "count": payload.count, "refused": payload.refused_count,
        "files": [[file.path, file.change, file.sha256] for file in payload.files[:MAX_AUDITED]]}
    lane.audit(f"changes_{payload.event}", {"id": lane.state.runner_id, "role": "runner"}, meta,
               command_id=record.command.id if record is not None else None)
    lane.notice(Notice(code="ChangesLanded" if payload.event == "landed" else "ChangesDiscarded",
                       message=_sentence(payload)))


def check_staged(lane: Lane) -> None:
    """Raise Problem unless the runner reported staged changes of this session."""
    if not lane.state.staged_n:
        raise Problem("Conflict", "Nothing is staged in this session")


def discard(lane: Lane, who: dict[str, str], files: list[str] | None) -> None:
    """Request that the runner discards staged changes; its report has the outcome. Raises Problem."""
    lane.check_controlled()
    check_staged(lane)
    if lane.active is not None:
        raise Problem("Conflict", "The session works on a command, or asks whether its changes land",
                      hint="Answer the question, or wait for the end of the turn; then discard.")
    lane.control("x-interlock.changes.discard", p.ChangesDiscard(files=files))
    lane.audit("session_change", who, {"change": "discard", "files": len(files) if files is not None else "all"})


def _sentence(payload: p.ChangesReport) -> str:
    verb = "landed in the workspace" if payload.event == "landed" else "were thrown away"
    done = f"{payload.count} staged changes {verb}." if payload.count != 1 else (
        f"1 staged change {verb.replace('were', 'was')}.")
    if not payload.refused_count:
        return done
    named = "; ".join(f"{file.path}: {file.why}" for file in payload.refused[:MAX_NAMED])
    more = f"; and {payload.refused_count - MAX_NAMED} more" if payload.refused_count > MAX_NAMED else ""
    return f"{done} {payload.refused_count} did not: {named}{more}."
