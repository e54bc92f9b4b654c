"""Pause and resume as the gateway sees them, read as the conversation with the runner (C-1, C-2, C-6)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engine.conversation import Table
from interlock.engine.bridge.inputs.gateway import ClockTicked
from interlock.engine.bridge.lane_state import Limits
from interlock.protocol import payloads as p
from interlock.protocol.problems import Problem

pytestmark = pytest.mark.anyio


async def running(table: Table, **fields: Any) -> Any:
    command = await table.execute(**fields)
    await table.opened(command.target.session_id)
    await table.started(command.target.session_id)
    return command


async def paused(table: Table, **fields: Any) -> Any:
    command = await running(table, **fields)
    await table.order("pause", command.id)
    await table.report_state(command.target.session_id, "paused")
    assert await table.state(command.id) == "paused"
    return command


@pytest.mark.req("C-0", "C-2", "C-6")
async def test_pause_and_resume_commands_end_when_the_agent_has_obeyed() -> None:
    table = Table()
    command = await running(table)
    session_id = command.target.session_id
    pause = await table.order("pause", session_id=session_id)  # The session's only live execute is meant.
    assert (pause.type, pause.state, pause.target.command_id) == ("pause", "running", command.id)
    assert await table.state(command.id) == "pausing"
    assert table.wire.types()[-1] == "control.turn.pause"
    await table.report_state(session_id, "paused")
    assert (await table.state(command.id), await table.state(pause.id)) == ("paused", "succeeded")
    assert (await table.ledger.session(session_id)).state == "paused"  # type: ignore[union-attr]
    resume = await table.order("resume", command.id)
    assert (await table.state(command.id), resume.state) == ("resuming", "running")
    assert table.wire.types()[-1] == "control.turn.resume"
    await table.report_state(session_id, "running", "paused")
    assert (await table.state(command.id), await table.state(resume.id)) == ("running", "succeeded")
    await table.ended(session_id)
    assert await table.state(command.id) == "succeeded"
    actions = await table.actions()
    assert [actions.count(action) for action in ("pause", "resume", "enqueue", "complete")] == [2, 1, 3, 3]


@pytest.mark.req("C-1", "C-6")
async def test_the_timeout_stops_while_paused_and_continues_with_the_rest() -> None:
    table = Table(timeout_ms=60_000)
    command = await running(table)
    session_id = command.target.session_id
    table.clock.advance(40_000)
    await table.order("pause", command.id)
    await table.report_state(session_id, "paused")
    table.clock.advance(3_600_000)
    await table.order("resume", command.id)
    await table.report_state(session_id, "running", "paused")
    table.clock.advance(19_999)
    await due(table, session_id)
    assert await table.state(command.id) == "running"
    table.clock.advance(1)
    await due(table, session_id)
    assert await table.state(command.id) == "canceling"
    await table.ended(session_id, "cancelled")
    assert await table.state(command.id) == "timed_out"


@pytest.mark.req("C-1")
async def test_the_runners_own_clock_counts_while_the_gateway_is_down() -> None:
    table = Table()
    command = await running(table)
    await table.ended(command.target.session_id, "cancelled", timed_out=True)
    assert await table.state(command.id) == "timed_out"


@pytest.mark.req("C-1", "C-6")
async def test_a_pause_has_a_timeout_of_its_own() -> None:
    table = Table()
    table.limits = Limits(pause_ttl_ms=5_000)
    table.begin()
    command = await paused(table)
    session_id = command.target.session_id
    table.clock.advance(4_999)
    await due(table, session_id)
    assert await table.state(command.id) == "paused"
    table.clock.advance(1)
    await due(table, session_id)
    assert (await table.state(command.id), table.wire.types()[-1]) == ("canceling", "control.turn.cancel")
    await table.ended(session_id, "cancelled")
    record = await table.ledger.command(command.id, "default")
    assert record is not None
    assert (record.command.state, record.command.error.message) == (  # type: ignore[union-attr]
        "timed_out", "it was paused for too long")


@pytest.mark.req("C-0", "C-6", "A-6")
async def test_a_pause_fails_naming_the_feature_if_the_agent_cannot_pause() -> None:
    table = Table()
    command = await running(table)
    pause = await table.order("pause", command.id)
    asked = table.wire.last("control.turn.pause")
    await table.send(command.target.session_id, "session.error", p.SessionError(
        error_code="UNSUPPORTED_CAPABILITY", message="This agent does not offer pause.", fatal=False),
        in_reply_to=asked.message_id)
    record = await table.ledger.command(pause.id, "default")
    assert record is not None
    assert (record.command.state, record.command.error.code) == ("failed", "UnsupportedCapability")  # type: ignore[union-attr]
    assert "pause" in record.command.error.message  # type: ignore[union-attr]
    assert await table.state(command.id) == "running"
    table.clock.advance(60_000)  # Its clock never stood.
    await due(table, command.target.session_id)
    assert await table.state(command.id) == "canceling"


@pytest.mark.req("C-2", "C-6")
async def test_an_impossible_pause_or_resume_is_a_conflict_with_a_reason() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    with pytest.raises(Problem, match=f"{command.id} is dispatched; only a running one"):
        await table.order("pause", command.id)
    await table.opened(session_id)
    await table.started(session_id)
    with pytest.raises(Problem, match="is running; only a paused one can be resumed"):
        await table.order("resume", command.id)
    other = await table.execute(target=msgspec.structs.replace(command.target, agent_id=None, workspace=None,
                                                               runner_id=None, session_key=None))
    with pytest.raises(Problem, match=f"exactly one live execute to pause; it has: {command.id}, {other.id}") as many:
        await table.order("pause", session_id=session_id)
    assert many.value.code == "Conflict"
    assert "target.command_id" in (many.value.hint or "")


@pytest.mark.req("C-6")
async def test_a_resume_before_the_boundary_withdraws_the_pause() -> None:
    table = Table()
    command = await running(table)
    pause = await table.order("pause", command.id)
    resume = await table.order("resume", command.id)
    assert (await table.state(command.id), await table.state(pause.id), resume.state) == (
        "running", "failed", "succeeded")
    assert table.wire.types()[-2:] == ["control.turn.pause", "control.turn.resume"]
    await table.report_state(command.target.session_id, "paused")
    await table.report_state(command.target.session_id, "running", "paused")
    assert await table.state(command.id) == "running"


@pytest.mark.req("C-6", "C-1")
async def test_an_approval_keeps_its_timeout_under_a_pause_and_its_answer_is_sent() -> None:
    table = Table()
    table.limits = Limits(approval_ttl_ms=9_000, timeout_ms=60_000)
    table.begin()
    command = await running(table)
    session_id = command.target.session_id
    for invocation in ("i1", "i2"):
        await table.asked(session_id, invocation=invocation)
    await table.order("pause", command.id)
    await table.report_state(session_id, "paused", "waiting_approval")
    first, second = [r.approval.id for r in (await table.lane(session_id)).lane.approvals.values()]
    await table.vote(first, "grant")
    assert table.wire.last("control.interaction.response").payload.decision == "allow"
    table.clock.advance(9_000)
    await due(table, session_id)
    assert (await table.ledger.approval(second, "default")).approval.state == "expired"  # type: ignore[union-attr]
    table.clock.advance(120_000)  # Neither the pause nor the questions have used the command's time.
    await table.order("resume", command.id)
    await table.report_state(session_id, "running", "paused")
    await due(table, session_id)
    assert await table.state(command.id) == "running"


@pytest.mark.req("C-6", "C-2")
@pytest.mark.parametrize("how", ["cancel", "close"])
async def test_cancel_and_close_work_while_paused(how: str) -> None:
    table = Table()
    command = await paused(table)
    session_id = command.target.session_id
    if how == "cancel":
        await table.cancel(command.id)
    else:
        from engine.conversation import OWNER, remember

        await table.engine.sessions.close(OWNER, session_id, "done", remember)
    assert await table.state(command.id) == "canceling"
    await table.ended(session_id, "cancelled")
    assert await table.state(command.id) == "canceled"


@pytest.mark.req("C-6", "C-4", "C-7")
async def test_a_pause_survives_a_lost_link_and_a_restart_of_the_gateway() -> None:
    table = Table()
    table.limits = Limits(pause_ttl_ms=50_000)
    table.begin()
    command = await paused(table)
    session_id = command.target.session_id
    table.begin()  # kill -9 of the gateway; the runner reconnects.
    await table.reattach(session_id, 10)
    assert await table.state(command.id) == "paused"
    table.engine.presence.get("local").link = None  # type: ignore[union-attr]
    table.begin()
    table.engine.presence.get("local").link = None  # type: ignore[union-attr]
    resume = await table.order("resume", command.id)  # Kept for the runner until it is there.
    assert (await table.state(command.id), resume.state) == ("resuming", "running")
    table.engine.presence.get("local").connect(table.wire)  # type: ignore[union-attr]
    await table.reattach(session_id, 10)
    assert table.wire.types()[-1] == "control.turn.resume"
    await table.report_state(session_id, "running", "paused")
    assert await table.state(resume.id) == "succeeded"


@pytest.mark.req("C-6", "C-8")
async def test_a_result_written_before_the_stop_wins() -> None:
    table = Table()
    command = await paused(table)
    resume = None
    await table.ended(command.target.session_id)
    assert await table.state(command.id) == "succeeded"
    command = await table.execute(target=msgspec.structs.replace(command.target, command_id=None))
    await table.started(command.target.session_id, "t2")
    pause = await table.order("pause", command.id)
    await table.ended(command.target.session_id, "error", "t2")
    assert (await table.state(command.id), await table.state(pause.id), resume) == ("failed", "failed", None)


async def due(table: Table, session_id: str) -> None:
    """Let time decide what it decides."""

    await (await table.lane(session_id)).call(ClockTicked())
