"""A lane's index of its live commands, compared with a search through all of them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.bridge.live import STALE_CLOCKS, LiveCommands, activity, due_ms
from interlock.engine.bridge.tenant_lane import tenant_lane_state
from interlock.protocol.records import CommandRecord
from interlock.protocol.resources import Actor, Command, CommandState, Target

AT = "2026-11-21T10:00:00.000Z"
STEP = st.tuples(st.integers(0, 9), st.one_of(st.none(), st.integers(0, 99)), st.sampled_from(["keep", "run", "drop"]))


def record(number: int, due: int | None) -> CommandRecord:
    command = Command(id=f"cmd_{number}", created_at=AT, updated_at=AT, tenant_id="t1",
                      actor=Actor(type="user", id="u"), type="execute", target=Target(agent_id="shell"),
                      state="queued", timeout_ms=1, on_busy="interrupt" if number == 0 else "enqueue")
    return CommandRecord(command=command, session_id="s", created_ms=0, queue_deadline_ms=due)


@pytest.mark.req("C-3", "C-4")
@given(st.lists(STEP, max_size=5 * STALE_CLOCKS))
def test_the_nearest_deadline_is_the_minimum_of_all(steps: list[tuple[int, int | None, str]]) -> None:
    live = LiveCommands()
    for number, due, step in steps:
        if step == "drop":
            live.drop(f"cmd_{number}")
        elif step == "run" and due is not None:
            live.keep(msgspec.structs.replace(record(number, None), running_since_ms=due, remaining_ms=7))
        else:
            live.keep(record(number, due))
        assert live.due_ms == min((at for one in live.values() if (at := due_ms(one)) is not None), default=None)
        assert bool(live.interrupting) == ("cmd_0" in live)
    assert LiveCommands(live.values()).due_ms == live.due_ms


@pytest.mark.req("G-7")
@pytest.mark.parametrize(("fields", "found", "shown"), [
    ({"opening": "open"}, [], "idle"),
    ({"opening": "closed"}, [], "closed"),
    ({"opening": "open"}, ["queued"], "queued"),
    ({"opening": "open", "active": "cmd_0"}, ["running", "queued"], "running"),
    ({"opening": "open", "active": "cmd_0"}, ["paused"], "paused"),
])
def test_a_session_is_listed_with_its_current_activity(
    fields: dict[str, Any], found: list[CommandState], shown: str
) -> None:
    state = tenant_lane_state("house:t1", 0)
    for name, value in fields.items():
        setattr(state, name, value)
    live = LiveCommands(msgspec.structs.replace(one, command=msgspec.structs.replace(one.command, state=to))
                        for one, to in ((record(number, None), to) for number, to in enumerate(found)))
    assert activity(state, live, []) == shown
