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


def add_entry(lane: Lane, given: i.EntryAdded) -> tuple[str, str | None] | Problem:
    """Append a label or a branch under policy (X-6); returns the entry's id and its parent's."""
    return under_policy(lane, lane.conditions.policy, LaneVerb(given.name, given.principal, given.body),
                        lambda: _added(lane, given))


def _added(lane: Lane, given: i.EntryAdded) -> tuple[str, str | None]:
    transcriber = lane.transcriber
    assert transcriber is not None, "a lane keeps a transcript if there is a service for it"
    if given.name == "branch":
        _check_still(lane)
        draft = tree_edits.branch_draft(given.text, given.entry_id, transcriber.leaf)
        transcriber.branch(given.entry_id)
    else:
        draft = Label(given.entry_id, given.text)
    parent = transcriber.leaf
    lane.transcribe([draft])
    entry_id = transcriber.leaf or ""
    lane.audit(AUDIT_ACTION, given.principal.who, {"op": given.name, "entry": entry_id, "target": given.entry_id})
    return entry_id, parent


def begin(lane: Lane, given: i.TranscriptBegun) -> SessionRecord:
    """Start the session with the content of its transcript (X-2); returns its row."""
    if lane.transcriber is not None and given.leaf is not None:
        lane.transcriber.rejoin(given.leaf, set(given.ids))
        lane.note_leaf()
    who, session_id = given.principal.who, lane.state.session_id
    lane.audit(AUDIT_ACTION, who, {**given.meta, "entries": len(given.ids)})
    lane.feed(FeedEvent(event="session", at=lane.at, id=session_id, state=lane.session_state(), session_id=session_id,
                        by=who["id"]))
    return lane.snapshot().record


def begin_repair(lane: Lane, given: i.RepairBegun) -> Problem | None:
    """Write an audit record that a damaged transcript is repaired, subject to policy, before its file is changed
    (X-4)."""

    def note() -> None:
        _check_still(lane)
        if given.found is not None:
            # No transaction spans both: the outcome of the repair is audited afterwards.
            lane.audit(AUDIT_ACTION, given.principal.who, {"op": "repair", "step": "begun", "found": given.found})

    return under_policy(lane, lane.conditions.policy, LaneVerb("repair", given.principal, {}), note)


def end_repair(lane: Lane, given: i.RepairDone) -> bool:
    """Continue in the rewritten file (X-4)."""
    if lane.transcriber is not None:
        lane.transcriber.rejoin(given.leaf, set(given.ids))
        lane.note_leaf()
    if given.found is not None:
        lane.audit(AUDIT_ACTION, given.principal.who, {
            "op": "repair", "step": "done", "found": given.found, "kept": given.kept, "entries": given.entries})
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
