"""Decisions of a lane by time only: the queue, the timeout, and which session is read first after a restart (C-1)."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from engine.bridge.steps import running, shown
from engine.conversation import Table, turn_uuid
from interlock.engine.bridge.inputs.gateway import ClockTicked
from interlock.engine.lanes import due_sessions
from interlock.protocol.resources import ApprovalRequirement, Target

pytestmark = pytest.mark.anyio


def held(table: Table) -> str:
    return table.wire.last("x-interlock.interaction.held").payload.approval_id


async def time_passes(table: Table, session_id: str, ms: int) -> None:
    table.clock.advance(ms)
    await (await table.lane(session_id)).call(ClockTicked())


async def asked_and_held(table: Table, session_id: str) -> str:
    await table.asked(session_id)
    return table.wire.last("x-interlock.interaction.held").payload.approval_id


@pytest.mark.req("C-1", "C-8")
async def test_a_timeout_cancels_the_turn_and_ends_as_timed_out() -> None:
    table = Table(timeout_ms=1_000)
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    shell = await table.lane(session_id)
    table.clock.advance(1_001)

    await shell.call(ClockTicked())
    assert await table.state(command.id) == "canceling"
    assert table.wire.last("control.turn.cancel").payload.turn_id == turn_uuid("t1")
    await table.ended(session_id, "cancelled")
    assert await table.state(command.id) == "timed_out"


@pytest.mark.req("C-4")
async def test_the_row_of_a_session_with_a_live_command_is_marked_for_the_next_start() -> None:
    table = Table()
    command = await table.execute()
    assert [(due.session_id, due.state) for due in await table.ledger.due_sessions()] == [
        (command.target.session_id, "running")]


@pytest.mark.req("C-4", "C-1")
async def test_a_starting_gateway_reads_the_session_with_the_nearest_deadline_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = Table()
    by_time = {}
    for timeout_ms in (30_000, 10_000, 20_000):
        command = await table.execute(timeout_ms=timeout_ms)
        by_time[timeout_ms] = command.target.session_id
        await table.opened(command.target.session_id)
        await table.started(command.target.session_id)
    await table.engine.stop()
    table.begin()
    table.clock.advance(10_001)
    monkeypatch.setattr(due_sessions, "READ_AT_ONCE", 1)
    await table.engine.start()
    with anyio.fail_after(5):
        while len(table.engine.lanes.live()) < len(by_time) or "control.turn.cancel" not in table.wire.types():
            await anyio.lowlevel.checkpoint()
    read = [shell.lane.state.session_id for shell in table.engine.lanes.live()]
    assert read == [by_time[10_000], by_time[20_000], by_time[30_000]]
    canceled = [frame.session_id for frame in table.wire.sent if frame.type == "control.turn.cancel"]
    assert canceled == [by_time[10_000]]


@pytest.mark.req("C-1")
async def test_a_command_queued_too_long_expires_and_never_runs() -> None:
    table = Table()
    table.limits = table.limits._replace(queue_ttl_ms=5_000, timeout_ms=10**9)
    table.begin()
    _, session_id = await running(table)
    waiting = await table.execute("late", target=Target(session_id=session_id))
    await time_passes(table, session_id, 4_999)
    assert await table.state(waiting.id) == "queued"
    await time_passes(table, session_id, 1)
    command = await shown(table, waiting.id)
    assert (command.state, command.error.code) == ("expired", "Timeout")
    await table.ended(session_id)
    assert table.wire.types().count("control.prompt.request") == 1


@pytest.mark.req("C-1")
async def test_the_queues_timeout_begins_with_the_grant() -> None:
    table = Table()
    table.limits = table.limits._replace(queue_ttl_ms=5_000, timeout_ms=10**9)
    table.begin()
    _, session_id = await running(table)
    held = await table.execute("held", target=Target(session_id=session_id), approval=ApprovalRequirement())
    await time_passes(table, session_id, 60_000)
    assert await table.state(held.id) == "pending_approval"
    await table.vote(held.approval_id, "grant")
    await time_passes(table, session_id, 4_999)
    assert await table.state(held.id) == "queued"
    await time_passes(table, session_id, 1)
    assert await table.state(held.id) == "expired"
    record = await table.ledger.approval(held.approval_id, "default")
    assert record is not None
    assert record.approval.state == "void", "a yes that nothing used is not a yes to anything else"


@pytest.mark.req("C-1", "P-6")
async def test_the_timeout_continues_when_a_question_has_expired() -> None:
    table = Table()
    table.limits = table.limits._replace(approval_ttl_ms=1_000_000, timeout_ms=60_000)
    table.begin()
    command_id, session_id = await running(table)
    await asked_and_held(table, session_id)
    await time_passes(table, session_id, 1_000_000)
    assert table.wire.sent[-1].type == "control.interaction.timeout"
    await time_passes(table, session_id, 59_999)
    assert await table.state(command_id) == "running"
    await time_passes(table, session_id, 1)
    assert await table.state(command_id) == "canceling"


@pytest.mark.req("C-1", "C-6")
async def test_the_timeout_runs_until_an_agent_has_paused() -> None:
    table = Table()
    command_id, session_id = await running(table)
    await table.order("pause", command_id)
    await time_passes(table, session_id, 59_999)
    assert await table.state(command_id) == "pausing"
    await time_passes(table, session_id, 1)
    assert await table.state(command_id) == "canceling"
    await table.ended(session_id, "cancelled")
    assert await table.state(command_id) == "timed_out"
