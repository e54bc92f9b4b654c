"""The command's machine against the published diagram: every pair of states, legal or not (C-0)."""

from __future__ import annotations

import re

import pytest

from interlock.command.machine import (
    ACTIVE,
    AUDIT_ACTION,
    INITIAL,
    MOVES,
    STATES,
    TERMINAL,
    IllegalMove,
    check_move,
)

DIAGRAM = """
pending_approval → queued | rejected | expired | canceled
queued     → dispatched | canceled | expired
dispatched → running | queued | failed | canceling
running    → succeeded | failed | timed_out | pausing | canceling
pausing    → paused | running | succeeded | failed | timed_out
paused     → resuming | canceling | timed_out
resuming   → running | canceling | timed_out
canceling  → canceled | timed_out | succeeded | failed
"""
"""racp section 1. "Terminal" after pausing is what a running command can end as by itself."""

BEYOND = {
    ("pausing", "canceling"): "a cancel does not wait for a pause (C-6: cancel and close work)",
    ("paused", "failed"): "the agent of a paused command may die or its session be closed (C-8)",
    ("paused", "succeeded"): "what the agent wrote before it was stopped may hold its real result",
    ("resuming", "succeeded"): "a real result may come before the word that it was resumed",
    ("resuming", "failed"): "the agent may die while it is resumed (C-8)",
    ("queued", "pending_approval"): "its agent stopped asking while it waited (H-11)",
    ("dispatched", "pending_approval"): "its runner refused it before it started: the agent does not ask (H-11)",
}
"""Moves that the diagram leaves out and the prose around it asks for."""

PUBLISHED = {(before, after)
             for before, *after_all in (re.findall(r"\w+", line) for line in DIAGRAM.strip().splitlines())
             for after in after_all}


@pytest.mark.req("C-0")
@pytest.mark.parametrize("to", STATES)
@pytest.mark.parametrize("state", STATES)
def test_a_transition_is_legal_if_the_diagram_has_it(state: str, to: str) -> None:
    if (state, to) in PUBLISHED | set(BEYOND):
        check_move(state, to)  # type: ignore[arg-type]
        return
    with pytest.raises(IllegalMove, match=rf"^a command that is {state} cannot become {to}; possible: \w") as caught:
        check_move(state, to)  # type: ignore[arg-type]
    assert (caught.value.state, caught.value.to) == (state, to)


@pytest.mark.req("C-0")
def test_terminal_states_are_immutable_and_every_other_can_end() -> None:
    assert {"succeeded", "failed", "timed_out", "canceled", "rejected", "expired"} == TERMINAL
    assert set(STATES) == ACTIVE | INITIAL | TERMINAL
    assert not ACTIVE & (INITIAL | TERMINAL)
    for state in set(STATES) - TERMINAL:
        seen, ahead = set[str](), [state]
        while ahead:
            seen.add(here := ahead.pop())
            ahead += MOVES[here] - seen
        assert seen & TERMINAL, state


@pytest.mark.req("C-0")
def test_a_cancel_reaches_every_command_that_has_not_ended() -> None:
    for state in set(STATES) - TERMINAL - {"canceling"}:
        assert MOVES[state] & {"canceled", "canceling"}, state


@pytest.mark.req("C-1")
def test_a_started_command_is_never_queued_again() -> None:
    back = {state for state, after in MOVES.items() if after & {"queued", "dispatched", "pending_approval"}}
    assert back == {"pending_approval", "queued", "dispatched"}


@pytest.mark.req("U-1")
def test_every_state_has_an_action_of_the_audit_log() -> None:
    assert set(AUDIT_ACTION) == set(STATES)
    assert set(AUDIT_ACTION.values()) <= {"enqueue", "dispatch", "start", "pause", "resume", "cancel", "complete",
                                          "error", "timeout", "reject", "expire"}
