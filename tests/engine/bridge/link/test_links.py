"""Reports of the link to a lane: the runner disconnected, returned, or has lost its state (C-7, D-7)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.bridge.steps import ended, refused_prompt, running
from engine.conversation import Table
from interlock.engine.bridge.inputs.gateway import ClockTicked
from interlock.engine.bridge.inputs.runner import AgentReported, ControlsConfirmed, RunnerAttached, RunnerDetached
from interlock.engine.bridge.link.links import REOPEN_MS
from interlock.protocol import payloads as p
from interlock.protocol.clock import iso
from interlock.protocol.resources import Target

pytestmark = pytest.mark.anyio


def held(table: Table) -> str:
    return table.wire.last("x-interlock.interaction.held").payload.approval_id


@pytest.mark.req("C-7", "D-7")
async def test_control_frames_that_the_runner_does_not_have_are_sent_again_in_order() -> None:
    table = Table()
    command = await table.execute()
    table.begin()
    await table.reattach(command.target.session_id, control_seq=0)
    assert [(f.type, f.seq) for f in table.wire.sent] == [("control.session.open", 1), ("control.prompt.request", 2)]


@pytest.mark.req("C-7")
async def test_a_lost_link_is_reported_and_does_not_end_the_agent() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)

    shell = await table.lane(session_id)
    await shell.call(RunnerDetached())
    assert await table.state(command.id) == "running"
    await table.reattach(session_id, control_seq=3)
    record = await table.ledger.command(command.id, "default")
    assert [n.code for n in record.command.notices] == ["Detached", "Reattached"]  # type: ignore[union-attr]
    await shell.call(AgentReported(False))
    assert await table.state(command.id) == "running"
    await shell.call(AgentReported(False))
    assert await table.state(command.id) == "failed"
    assert (await table.ledger.command(command.id, "default")).command.error.code == "AgentLost"  # type: ignore[union-attr]


@pytest.mark.req("C-8", "D-6", "D-7")
async def test_a_runner_that_restarted_before_it_opened_gets_open_and_prompt_again() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    opened = table.wire.last("control.session.open")
    await table.send(session_id, "session.error", p.SessionError(
        error_code="RUNNER_RESTARTED", message="restarted", fatal=True), in_reply_to=opened.message_id)
    await table.send(session_id, "session.closed", p.SessionClosed(reason="restarted"))
    await refused_prompt(table, session_id, "SESSION_NOT_FOUND")
    assert await table.state(command.id) == "dispatched"
    assert table.wire.types()[-2:] == ["control.session.open", "control.prompt.request"]


async def _notices(table: Table, command_id: str) -> list[tuple[str, str | None]]:
    record = await table.ledger.command(command_id, "default")
    assert record is not None
    return [(one.code, one.since) for one in record.command.notices]


@pytest.mark.req("C-7")
async def test_a_link_reopened_in_time_is_not_a_loss() -> None:
    table = Table()
    command_id, session_id = await running(table)
    shell = await table.lane(session_id)
    await shell.call(RunnerDetached(reopens=True))
    table.clock.advance(REOPEN_MS - 1)
    await shell.call(ClockTicked())
    await table.reattach(session_id, control_seq=3)
    table.clock.advance(REOPEN_MS)
    await shell.call(ClockTicked())
    assert await _notices(table, command_id) == []
    assert await table.state(command_id) == "running"


@pytest.mark.req("C-7")
async def test_a_link_not_reopened_in_time_is_a_loss_since_its_close() -> None:
    table = Table()
    command_id, session_id = await running(table)
    shell, closed_at = await table.lane(session_id), iso(table.clock.now_ms())
    await shell.call(RunnerDetached(reopens=True))
    assert shell.lane.deadline_ms() == table.clock.now_ms() + REOPEN_MS
    table.clock.advance(REOPEN_MS)
    await shell.call(ClockTicked())
    await shell.call(ClockTicked())
    assert await _notices(table, command_id) == [("Detached", closed_at)]
    await table.reattach(session_id, control_seq=3)
    assert await _notices(table, command_id) == [("Detached", closed_at), ("Reattached", closed_at)]


@pytest.mark.req("C-7")
async def test_no_loss_is_reported_without_a_command_that_waits_for_the_link() -> None:
    table = Table()
    command_id, session_id = await running(table)
    shell = await table.lane(session_id)
    await shell.call(RunnerDetached(reopens=True))
    table.clock.advance(table.limits.detach_ttl_ms + 1)
    await shell.call(ClockTicked())
    assert await table.state(command_id) == "failed"
    assert not await table.has_notice(session_id, "Detached")


@pytest.mark.req("C-7")
async def test_a_reopened_and_then_lost_link_is_one_loss() -> None:
    table = Table()
    command_id, session_id = await running(table)
    shell = await table.lane(session_id)
    await shell.call(RunnerDetached(reopens=True))
    await table.reattach(session_id, control_seq=3)
    await shell.call(RunnerDetached())
    table.clock.advance(REOPEN_MS)
    await shell.call(ClockTicked())
    assert [code for code, _ in await _notices(table, command_id)] == ["Detached"]


@pytest.mark.req("C-4", "C-7")
async def test_a_lane_read_while_its_runner_is_attached_reports_no_loss() -> None:
    """The gateway before died while the link was reopened, and the runner's new hello reached this one first."""
    table = Table()
    command_id, session_id = await running(table)
    shell = await table.lane(session_id)
    await shell.call(RunnerDetached(reopens=True))
    shell.lane.state.note_link(attached=True)
    table.clock.advance(REOPEN_MS)
    await shell.call(ClockTicked())
    assert await _notices(table, command_id) == []


@pytest.mark.req("C-7", "C-8")
async def test_a_runner_that_reconnects_without_the_session_has_lost_its_agent() -> None:
    table = Table()
    command_id, session_id = await running(table)
    await table.asked(session_id)
    approval_id = held(table)
    shell = await table.lane(session_id)
    await shell.call(RunnerDetached())
    await shell.attach(table.wire, RunnerAttached(0, None))
    assert await table.state(command_id) == "failed"
    assert (await table.ledger.approval(approval_id, "default")).approval.state == "void"  # type: ignore[union-attr]
    again = await table.execute("again", target=Target(session_id=session_id))
    assert await table.state(again.id) == "dispatched"


@pytest.mark.req("C-4", "C-7")
async def test_a_command_ends_if_its_runner_never_reconnects_after_a_restart() -> None:
    table = Table()
    command = await table.execute()
    table.begin()
    table.engine.presence.get("local").link = None  # type: ignore[union-attr]
    await table.engine.start()
    shell = await table.lane(command.target.session_id)
    await shell.call(ClockTicked())
    table.clock.advance(table.limits.detach_ttl_ms + 1)
    await shell.call(ClockTicked())
    assert await table.state(command.id) == "failed"


@pytest.mark.req("C-7", "D-7")
async def test_an_abandoned_prompt_does_not_run_when_its_runner_reconnects() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    shell = await table.lane(session_id)
    await shell.call(RunnerDetached())
    table.clock.advance(table.limits.detach_ttl_ms + 1)
    await shell.call(ClockTicked())
    assert await table.state(command.id) == "failed"
    table.wire.sent.clear()
    await table.reattach(session_id, control_seq=1)
    assert "control.prompt.request" not in table.wire.types()
    assert "control.turn.cancel" in table.wire.types()


@pytest.mark.req("C-7", "P-6")
async def test_an_agent_missing_from_heartbeats_ends_its_questions() -> None:
    table = Table()
    command_id, session_id = await running(table)
    await table.asked(session_id)
    shell = await table.lane(session_id)
    for _ in range(2):
        await shell.call(AgentReported(False))
    assert await table.state(command_id) == "failed"
    assert (await table.ledger.approval(held(table), "default")).approval.state == "void"  # type: ignore[union-attr]


@pytest.mark.req("C-7")
async def test_a_runner_that_was_away_while_idle_is_not_reported() -> None:
    table = Table()
    _, session_id = await running(table)
    await table.ended(session_id)
    shell = await table.lane(session_id)
    await shell.call(RunnerDetached())
    await table.reattach(session_id, control_seq=3)
    events = await table.ledger.events("default", f"s/{session_id}", 0, 100)
    assert [event.kind for event in events].count("notice") == 0


@pytest.mark.req("C-8")
@pytest.mark.req("C-7")
async def test_a_dispatched_command_survives_its_lost_link_up_to_the_detach_ttl() -> None:
    table = Table()
    command = await table.execute()
    shell = await table.lane(command.target.session_id)
    await shell.call(RunnerDetached())
    table.clock.advance(table.limits.detach_ttl_ms - 1)
    await shell.call(ClockTicked())
    assert await ended(table, command) == ("dispatched", None)
    table.clock.advance(1)
    await shell.call(ClockTicked())
    assert await ended(table, command) == ("failed", "AgentLost")


class Watched(dict[int, bytes]):
    """Control frames by number; counts those that are looked at."""

    looked = 0

    def __iter__(self) -> Iterator[int]:
        for number in super().__iter__():
            self.looked += 1
            yield number


@pytest.mark.req("D-7")
async def test_a_confirmation_looks_only_at_what_it_confirms() -> None:
    table = Table()
    _, session_id = await running(table)
    shell = await table.lane(session_id)
    lane = shell.lane
    for _ in range(300):
        await table.send(session_id, "agent.text.done", p.TextDone(turn_id="old", block_id="b", text="late"))
    first, *_, last = lane.unconfirmed
    lane.unconfirmed = watched = Watched(lane.unconfirmed)
    for number in range(first, first + 3):
        await shell.call(ControlsConfirmed(number))
    assert watched.looked <= 6
    assert (min(lane.unconfirmed), max(lane.unconfirmed)) == (first + 3, last)
    await shell.call(ControlsConfirmed(last))
    assert lane.unconfirmed == {}
