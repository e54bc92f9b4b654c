"""Each field of a lane's state has one module that writes it, and is stored if it differs from its default."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC

import msgspec
import pytest

from benchmarks.product.structure import SOURCE
from interlock.engine.bridge.context.context_state import ContextState, PendingCompaction
from interlock.engine.bridge.entries import clocks_of
from interlock.engine.bridge.lane_state import EndedTurn, Incoming, LaneState
from interlock.session.chat.resets import Clocks, Reset, due
from interlock.session.context.tokens import Calibration
from interlock.session.store.entry import SessionFields
from interlock.session.turn import OpenTool, OpenTurn, TurnMachine

MUTATING = {"append", "pop", "setdefault", "clear", "extend", "update", "remove", "insert", "add", "discard"}


LEFT_OUT: dict[type[msgspec.Struct], dict[str, object]] = {
    LaneState: {
        "workspace_access": "rw", "opening": "closed", "open_message_id": "", "permission": "never", "holding": None,
        "let_through": "", "trusted_kinds": False, "offered_box": None, "box": None, "fell": False, "unasked": None,
        "staged_n": 0, "start_commit": None, "plan_n": 0, "settings_n": 0, "features": {}, "control_seq": 0,
        "control_acked": 0, "noop_seq": None, "noop_chosen": False, "last_seq": 0, "n": 0, "upload_seq": 0,
        "uploads": [], "incoming": {}, "agent_session": "", "compacting": None, "prompt_message_id": "",
        "turn_start_n": 0, "turns": 0, "machine": {}, "active": None, "ended": None, "last_error": None, "fatal": None,
        "close_deadline_ms": None, "lost_turn": "", "orphan": None, "cancels": {}, "holds": {}, "pause_message_id": "",
        "controller": "", "attached": False, "detached_since_ms": None, "reopen_deadline_ms": None,
        "silent_heartbeats": 0, "stage": "", "stage_told": "", "percent": None, "percent_told_ms": 0,
        "input_tokens": 0, "output_tokens": 0, "context_tokens": None, "context_estimated": False, "cost_usd": 0.0,
        "cost_told": None, "turn_tokens": 0, "turn_raised": {}, "budget_pause": False, "held_answers": [],
        "lost_frames": 0, "lost_ahead": 0, "lost_above": 0, "lost_synced": "", "lost_count": 0,
        "lost_uncounted": False, "transcript_leaf": None, "model": "", "updated_ms": 0, "entry": {}, "first_line": "",
        "leaves": "", "leaves_asked": False, "wished": [], "context": {}},
    EndedTurn: {"exit_code": None, "unanswered": False, "timed_out": False, "reason": ""},
    Incoming: {"seq": 0, "chunks": 0, "size": 0, "objects": [], "over": False},
    ContextState: {
        "owner": "agent", "leaf": None, "window_told": None, "reported": None, "calibration": {}, "due": "",
        "due_reply": "", "instructions": None, "pending": None, "failures": 0, "question": "", "rests": False,
        "untold": "", "sent": None, "turn_entry": "", "next_entry": ""},
    PendingCompaction: {
        "leaf": None, "first_kept": "", "entries": 0, "tokens_before": 0, "tokens_kept": 0, "tokens_summarised": 0,
        "supplied": "", "read_files": [], "modified_files": [], "instructions": None, "waits_for_trust": False},
    Calibration: {"factor": 1.0, "reported": 0, "estimated": 0},
    TurnMachine: {"phase": "closed", "turn": None, "next_index": 0},
    OpenTurn: {"tools": {}, "interactions": {}},
    OpenTool: {"title": None, "kind": None},
}
"""The values a stored state omits because every version that reads it assumes the same."""


@pytest.mark.parametrize("part", LEFT_OUT)
def test_a_default_omitted_by_stored_states_never_changes(part: type[msgspec.Struct]) -> None:
    """Another default would change the meaning of what is stored: a field gets a new name instead."""
    defaults: dict[str, object] = {}
    for field in msgspec.structs.fields(part):
        if field.default_factory is not msgspec.NODEFAULT:
            defaults[field.name] = msgspec.to_builtins(field.default_factory())
        elif field.default is not msgspec.NODEFAULT:
            defaults[field.name] = msgspec.to_builtins(field.default)
    assert {name: defaults[name] for name in LEFT_OUT[part]} == LEFT_OUT[part]


def test_a_state_is_stored_as_its_differences_from_the_defaults() -> None:
    """It is written with every command, so each field without information would be written each time."""
    state = LaneState(session_id="s", tenant_id="t", session_key="k", agent_id="a", runner_id="r", workspace="/w",
                      created_ms=0, opening="open")
    stored = msgspec.json.encode(state)
    assert msgspec.json.decode(stored) == {
        "session_id": "s", "tenant_id": "t", "session_key": "k", "agent_id": "a", "runner_id": "r", "workspace": "/w",
        "created_ms": 0, "opening": "open", "machine": {}, "context": {}}
    assert msgspec.json.decode(stored, type=LaneState) == state


def test_a_state_with_every_default_is_read_like_one_with_none() -> None:
    """Versions before this one wrote all fields."""
    required = {"session_id": "s", "tenant_id": "t", "session_key": "k", "agent_id": "a", "runner_id": "r",
                "workspace": "/w", "created_ms": 0}
    full = msgspec.json.encode({**required, **LEFT_OUT[LaneState], "machine": LEFT_OUT[TurnMachine],
                                "context": LEFT_OUT[ContextState]})
    assert msgspec.json.decode(full, type=LaneState) == LaneState(**required)  # pyright: ignore[reportArgumentType]


def test_no_field_of_a_lanes_state_is_assigned_by_several_modules() -> None:
    """Fields that several modules change are changed by a method of the state that names the transition."""
    writers: dict[str, set[str]] = defaultdict(set)
    for path in (SOURCE / "engine").rglob("*.py"):
        for name in _written(ast.parse(path.read_text())):
            writers[name].add(path.stem)
    assert {name: sorted(found) for name, found in writers.items() if len(found) > 1} == {}


HOUR_MS = 3_600_000
BEGAN_MS = 1_780_000_000_000


def used_session(**entry: int) -> LaneState:
    """A session whose conversation has begun."""
    return LaneState(session_id="s", tenant_id="t", session_key="k", agent_id="a", runner_id="r", workspace="/w",
                     created_ms=BEGAN_MS, control_seq=1, entry=SessionFields(**entry))


@pytest.mark.req("I-2")
def test_system_messages_neither_keep_a_session_alive_nor_end_it() -> None:
    idle, state = Reset(None, HOUR_MS), used_session()
    # One overloaded `updatedAt` was moved by every heartbeat, and idle sessions never ended.
    for minute in range(0, 60, 5):
        state.note_message(BEGAN_MS + minute * 60_000, person=False)
    assert due(idle, clocks_of(state), BEGAN_MS + HOUR_MS, UTC) == "idle"
    state.note_message(BEGAN_MS + 59 * 60_000, person=True)
    assert due(idle, clocks_of(state), BEGAN_MS + HOUR_MS, UTC) is None


@pytest.mark.req("I-2")
@pytest.mark.parametrize("person", [True, False])
def test_clocks_that_were_ahead_are_set_back_by_the_next_message(person: bool) -> None:
    ahead_ms = BEGAN_MS + 10_000 * HOUR_MS
    state = used_session(session_started_at=ahead_ms, last_interaction_at=ahead_ms)
    state.note_message(BEGAN_MS, person=person)
    assert clocks_of(state) == Clocks(BEGAN_MS, BEGAN_MS)


@pytest.mark.req("I-2")
def test_a_person_who_keeps_writing_does_not_move_the_daily_boundary() -> None:
    state = used_session(session_started_at=BEGAN_MS, last_interaction_at=BEGAN_MS)
    state.note_message(BEGAN_MS + 5 * HOUR_MS, person=True)
    assert clocks_of(state) == Clocks(BEGAN_MS, BEGAN_MS + 5 * HOUR_MS)


def test_the_first_message_starts_a_session_that_was_opened_before() -> None:
    state = used_session()
    state.control_seq = 0
    state.note_message(BEGAN_MS + HOUR_MS, person=False)
    assert clocks_of(state) == Clocks(BEGAN_MS + HOUR_MS, BEGAN_MS + HOUR_MS)


@pytest.mark.parametrize(("line", "found"), [
    ("state.opening, state.box = 'closed', None", {"opening", "box"}), ("lane.state.n += 1", {"n"}),
    ("lane.state.cancels.setdefault('c', []).append('d')", {"cancels"}), ("state.incoming['t'] = 1", {"incoming"}),
    ("del lane.state.holds['c']", {"holds"}), ("seen = lane.state.n", set()), ("record.state = 'x'", set()),
])
def test_a_write_is_found_in_every_syntactic_form(line: str, found: set[str]) -> None:
    assert set(_written(ast.parse(line))) == found


def _written(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        for target in _targets(node):
            while isinstance(target, ast.Subscript):
                target = target.value
            if isinstance(target, ast.Attribute) and target.attr in LaneState.__struct_fields__ \
                    and _is_state(target.value):
                yield target.attr


def _targets(node: ast.AST) -> Iterator[ast.expr]:
    match node:
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            for target in targets:
                yield from target.elts if isinstance(target, ast.Tuple) else [target]
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            yield target
        case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in MUTATING:
            yield value
        case _:
            pass


def _is_state(value: ast.expr) -> bool:
    return (isinstance(value, ast.Name) and value.id == "state") or (
        isinstance(value, ast.Attribute) and value.attr == "state" and isinstance(value.value, ast.Name)
        and value.value.id in ("lane", "self"))
