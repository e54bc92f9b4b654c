"""Stopping commands: in every state of the target, both the cancel and its target end (C-2, C-3)."""

from __future__ import annotations

from typing import Any

import pytest

from engine.conversation import OWNER, Table, remember
from interlock.engine.bridge.inputs.gateway import StartLooked
from interlock.protocol import payloads as p
from interlock.protocol.drains import DrainBody
from interlock.protocol.problems import Problem
from interlock.protocol.resources import Target

pytestmark = pytest.mark.anyio


async def running(table: Table, **fields: Any) -> tuple[str, str]:
    """A command whose turn has started: its id and its session's."""
    command = await table.execute(**fields)
    await table.opened(command.target.session_id)
    await table.started(command.target.session_id)
    return command.id, command.target.session_id


async def refused_prompt(table: Table, session_id: str, code: str) -> None:
    prompt = table.wire.last("control.prompt.request")
    await table.send(session_id, "session.error", p.SessionError(error_code=code, message="no", fatal=False),
                     in_reply_to=prompt.message_id)


async def command_running(table: Table) -> tuple[Any, str]:
    command = await table.execute()
    await table.opened(command.target.session_id)
    await table.started(command.target.session_id)
    return command, command.target.session_id


async def ended(table: Table, command: Any) -> tuple[str, str | None]:
    """The command's state, and the code of its error."""
    record = await table.ledger.command(command.id, "default")
    assert record is not None
    return record.command.state, record.command.error.code if record.command.error is not None else None


async def restarted(table: Table, session_id: str) -> None:
    """The runner's report of an open turn after its own restart (D-6)."""
    await table.send(session_id, "agent.error", p.AgentError(
        severity="fatal", error_code="RUNNER_RESTARTED", message="The runner was started anew.", turn_id="t1"))
    await table.ended(session_id, "error")
    await table.send(session_id, "session.closed", p.SessionClosed(reason="the runner was started anew"))


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
