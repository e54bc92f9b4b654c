"""The outcome of a turn in which the agent's process ended, for every adapter (A-2)."""

from __future__ import annotations

import pytest

from interlock.agents.process_end import died
from interlock.ports.agent import ProcessExit


@pytest.mark.req("A-2")
@pytest.mark.parametrize(("code", "stop", "unanswered"), [
    (0, "end_turn", True), (1, "error", False), (None, "error", False)])
def test_a_program_that_ended_in_mid_turn_is_an_error(code: int | None, stop: str, unanswered: bool) -> None:
    ended = ProcessExit(code, None if code is not None else 9)
    outcome = died(ended)
    assert (outcome.stop_reason, outcome.unanswered, outcome.process) == (stop, unanswered, ended)
