"""Handle people's changes to a session's transcript (X-4, X-6)."""

from __future__ import annotations

from typing import Any

from interlock.engine.bridge.commands.verbs import LaneVerb, under_policy
from interlock.engine.bridge.context import compaction
from interlock.engine.bridge.inputs import people as i
from interlock.engine.bridge.lane import Lane
from interlock.protocol.problems import Problem
from interlock.protocol.records import SessionRecord
from interlock.protocol.resources import FeedEvent
from interlock.session.transcript import tree_edits
from interlock.session.transcript.entries import Label

AUDIT_ACTION = "transcript"


def add_entry(lane: Lane, input_: i.EntryAdded) -> tuple[str, str | None] | Problem:
    """Append a label or a branch under policy (X-6); returns the entry's id and its parent's."""
    return under_policy(lane, lane.conditions.policy, LaneVerb(input_.name, input_.principal, input_.body),
                        lambda: _added(lane, input_))


def _added(lane: Lane, input_: i.EntryAdded) -> tuple[str, str | None]:
    transcriber = lane.transcriber
    assert transcriber is not None, "a lane keeps a transcript if there is a service for it"
    if input_.name == "branch":
        _check_still(lane)
        draft = tree_edits.branch_draft(input_.text, input_.entry_id, transcriber.leaf)
        transcriber.branch(input_.entry_id)
    else:
        draft = Label(input_.entry_id, input_.text)
    parent = transcriber.leaf
    lane.transcribe([draft])
    entry_id = transcriber.leaf or ""
    lane.audit(AUDIT_ACTION, input_.principal.who, {"op": input_.name, "entry": entry_id, "target": input_.entry_id})
    return entry_id, parent


def begin(lane: Lane, input_: i.TranscriptBegun) -> SessionRecord:
    """Start the session with the content of its transcript (X-2); returns its row."""
    if lane.transcriber is not None and input_.leaf is not None:
        lane.transcriber.rejoin(input_.leaf, set(input_.ids))
        lane.note_leaf()
    who, session_id = input_.principal.who, lane.state.session_id
    lane.audit(AUDIT_ACTION, who, {**input_.meta, "entries": len(input_.ids)})
    lane.feed(FeedEvent(event="session", at=lane.at, id=session_id, state=lane.session_state(), session_id=session_id,
                        by=who["id"]))
    return lane.snapshot().record


def begin_repair(lane: Lane, input_: i.RepairBegun) -> Problem | None:
    """Write an audit record that a damaged transcript is repaired, subject to policy, before its file is changed
    (X-4)."""

    def note() -> None:
        _check_still(lane)
        if input_.found is not None:
            # No transaction spans both: the outcome of the repair is audited afterwards.
            lane.audit(AUDIT_ACTION, input_.principal.who, {"op": "repair", "step": "begun", "found": input_.found})

    return under_policy(lane, lane.conditions.policy, LaneVerb("repair", input_.principal, {}), note)


def end_repair(lane: Lane, input_: i.RepairDone) -> bool:
    """Continue in the rewritten file (X-4)."""
    if lane.transcriber is not None:
        lane.transcriber.rejoin(input_.leaf, set(input_.ids))
        lane.note_leaf()
    if input_.found is not None:
        lane.audit(AUDIT_ACTION, input_.principal.who, {
            "op": "repair", "step": "done", "found": input_.found, "kept": input_.kept, "entries": input_.entries})
    return True


def _check_still(lane: Lane) -> None:
    """Raise Problem Conflict while the session has work, which would build on the part that was moved."""
    lane.check_controlled()
    if lane.active is not None or lane.state.machine.phase == "turn" or compaction.at_work(lane):
        raise Problem("Conflict", f"Session {lane.state.session_id} is at work; its transcript cannot be moved now",
                      hint="Wait until it is idle, or cancel what runs.")


HANDLERS: dict[type[Any], Any] = {
    i.EntryAdded: add_entry, i.TranscriptBegun: begin, i.RepairBegun: begin_repair, i.RepairDone: end_repair,
}
