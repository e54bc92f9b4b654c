"""A turn that runs at the runner and is not open here is cancelled, and nothing starts before its end (T-1, C-7)."""

from __future__ import annotations

import pytest

from engine.conversation import Table, turn_uuid
from interlock.engine.bridge.inputs.gateway import ClockTicked
from interlock.engine.bridge.inputs.runner import AgentReported
from interlock.protocol import payloads as p
from interlock.protocol.limits import CANCEL_FORCE_MS
from interlock.protocol.resources import Target

pytestmark = [pytest.mark.anyio, pytest.mark.req("C-7")]


async def lost(table: Table) -> str:
    """A session whose agent was abandoned in its turn; returns its id."""
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    for _ in range(2):
        await (await table.lane(session_id)).call(AgentReported(False))
    assert await table.state(command.id) == "failed"
    return session_id


async def back(table: Table, session_id: str, turn: str | None) -> None:
    await (await table.lane(session_id)).call(AgentReported(True, turn))


async def test_an_abandoned_turn_that_still_runs_is_cancelled_and_awaited() -> None:
    table = Table()
    session_id = await lost(table)
    await back(table, session_id, turn_uuid("t1"))

    assert table.wire.last("control.turn.cancel").payload.turn_id == turn_uuid("t1")
    assert "late_event" in await table.actions()
    prompts = table.wire.types().count("control.prompt.request")
    waiting = await table.execute(target=Target(session_id=session_id))
    assert table.wire.types().count("control.prompt.request") == prompts

    await table.send(session_id, "session.turn.end", p.TurnEnd(turn_id="t1", stop_reason="cancelled"))
    assert table.wire.types().count("control.prompt.request") == prompts + 1
    assert await table.state(waiting.id) == "dispatched"
    await table.engine.stop()


async def test_an_agent_that_returns_idle_or_in_another_turn_has_no_orphan() -> None:
    for turn in (None, turn_uuid("t2")):
        table = Table()
        session_id = await lost(table)
        await back(table, session_id, turn)

        assert (await table.lane(session_id)).lane.state.orphan is None
        assert (await table.lane(session_id)).lane.state.lost_turn == ""
        await table.engine.stop()


async def test_an_ignored_cancel_ends_the_sessions_agent() -> None:
    table = Table()
    session_id = await lost(table)
    await back(table, session_id, turn_uuid("t1"))
    table.clock.advance(CANCEL_FORCE_MS)
    await (await table.lane(session_id)).call(ClockTicked())

    assert table.wire.types()[-1] == "control.session.close"
    assert (await table.lane(session_id)).lane.state.orphan is None
    await table.engine.stop()
