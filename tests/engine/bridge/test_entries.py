"""A session's entry in its lane: recorded changes of fields, times of messages, what a person may not set (I-2,
V-2)."""

from __future__ import annotations

from typing import Any

import pytest

from engine.conversation import OWNER, Table, remember
from engine.within import Within
from interlock.engine.bridge import entries
from interlock.engine.bridge.lane import Lane
from interlock.protocol.problems import Problem

pytestmark = pytest.mark.anyio
OWNER_ACTOR = {"id": "user:owner", "role": "owner"}


async def opened(table: Table) -> str:
    command = await table.execute()
    await table.opened(command.target.session_id)
    return command.target.session_id


async def within(table: Table, session_id: str, what: Any) -> Any:
    return await (await table.lane(session_id)).call(Within(what))


@pytest.mark.req("V-2")
async def test_a_patch_is_recorded_once_and_one_that_changes_nothing_is_not() -> None:
    table = Table()
    session_id = await opened(table)
    await table.engine.sessions.patch(OWNER, session_id, {"label": "mine"}, remember)
    await table.engine.sessions.patch(OWNER, session_id, {"label": "mine"}, remember)

    assert (await table.actions()).count("session_change") == 1
    assert (await table.lane(session_id)).lane.state.entry.label == "mine"
    with pytest.raises(Problem) as refused:
        await within(table, session_id, lambda lane: entries.patch(lane, OWNER_ACTOR, {"nonsense": "x"}))
    assert refused.value.errors[0].pointer == "/nonsense"
    await table.engine.stop()


async def test_a_field_that_is_not_known_is_kept_only_from_a_file_that_was_edited() -> None:
    table = Table()
    session_id = await opened(table)
    await within(table, session_id, lambda lane: entries.patch(lane, OWNER_ACTOR, {"nonsense": "x"}, keep_unknown=True))

    assert (await table.actions()).count("session_change") == 1
    await table.engine.stop()


@pytest.mark.req("I-2")
async def test_only_a_persons_message_keeps_a_session_from_idling() -> None:
    table = Table()
    session_id = await opened(table)
    lane: Lane = (await table.lane(session_id)).lane
    started, before = lane.state.entry.session_started_at, lane.state.entry.last_interaction_at
    assert started is not None
    table.clock.advance(5_000)
    await within(table, session_id, lambda lane: lane.state.note_message(lane.wall, person=False))
    assert lane.state.entry.last_interaction_at == before
    await within(table, session_id, lambda lane: lane.state.note_message(lane.wall, person=True))

    assert lane.state.entry.last_interaction_at == table.clock.now_ms()
    assert lane.state.entry.session_started_at == started
    await table.engine.stop()


async def test_the_next_session_of_a_key_has_the_same_workspace_and_no_conversation() -> None:
    table = Table()
    session_id = await opened(table)
    state = (await table.lane(session_id)).lane.state

    after = entries.successor(state, "s2", 7)

    assert (after.session_id, after.created_ms, after.session_key) == ("s2", 7, state.session_key)
    assert (after.agent_id, after.workspace, after.runner_id) == (state.agent_id, state.workspace, state.runner_id)
    assert (after.control_seq, after.turns, after.opening) == (0, 0, "closed")
    await table.engine.stop()
