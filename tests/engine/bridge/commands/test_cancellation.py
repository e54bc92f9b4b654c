"""Stopping commands: in every state of the target, both the cancel and its target end (C-2, C-3)."""

from __future__ import annotations

import pytest

from engine.bridge.steps import command_running, ended, refused_prompt, restarted, running
from engine.conversation import OWNER, Table, remember
from interlock.engine.bridge.inputs.gateway import StartLooked
from interlock.protocol import payloads as p
from interlock.protocol.drains import DrainBody
from interlock.protocol.problems import Problem
from interlock.protocol.resources import Target

pytestmark = pytest.mark.anyio


@pytest.mark.req("C-0", "C-8")
async def test_a_cancel_is_a_command_of_its_own_and_ends_with_its_target() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    cancel = await table.cancel(command.id)
    assert cancel.state == "running"
    assert await table.state(command.id) == "canceling"
    await table.ended(session_id, "cancelled")
    assert await table.state(command.id) == "canceled"
    assert await table.state(cancel.id) == "succeeded"
    with pytest.raises(Problem, match="already ended"):
        await table.cancel(command.id)


@pytest.mark.req("C-0", "C-8")
async def test_a_turn_that_cancels_itself_cancels_its_command() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    await table.ended(session_id, "cancelled")
    assert await table.state(command.id) == "canceled"


@pytest.mark.req("C-0")
async def test_a_real_result_wins_the_race_against_a_cancel() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    cancel = await table.cancel(command.id)
    await table.ended(session_id, "end_turn")
    assert await table.state(command.id) == "succeeded"
    assert await table.state(cancel.id) == "failed"


@pytest.mark.req("C-8")
async def test_a_cancel_of_a_refused_prompt_ends_as_canceled() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.cancel(command.id)
    await table.send(session_id, "session.closed", p.SessionClosed(reason="idle"))
    await refused_prompt(table, session_id, "SESSION_NOT_FOUND")
    assert await table.state(command.id) == "canceled"


@pytest.mark.req("C-8")
@pytest.mark.req("D-6")
async def test_a_cancel_during_a_runners_restart_succeeds() -> None:
    table = Table()
    command, session_id = await command_running(table)
    cancel = await table.cancel(command.id)
    await restarted(table, session_id)
    assert await ended(table, command) == ("canceled", "Canceled")
    assert await table.state(cancel.id) == "succeeded"


@pytest.mark.req("C-3", "C-5")
async def test_an_interrupt_under_a_drain_ends_nothing_until_it_can_run() -> None:
    table = Table()
    first, session_id = await running(table)
    body = DrainBody(scope="session", id=session_id)
    await table.engine.drains.drain(OWNER, body, remember)
    urgent = await table.execute("urgent", target=Target(session_id=session_id), on_busy="interrupt")
    assert (await table.state(first), await table.state(urgent.id)) == ("running", "queued")
    await table.engine.drains.undrain(OWNER, body, remember)
    await (await table.lane(session_id)).call(StartLooked())
    assert await table.state(first) == "canceling"
