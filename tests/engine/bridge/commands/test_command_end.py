"""How a command ends: its approvals end with it, and its terminal state is its last event."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engine.conversation import Table
from interlock.command.policy.policy import Rule, RuleSet
from interlock.engine.bridge.inputs.gateway import ClockTicked
from interlock.engine.bridge.inputs.runner import RunnerDetached
from interlock.protocol.identifiers import command_stream
from interlock.protocol.limits import CANCEL_FORCE_MS
from interlock.protocol.problems import Problem

pytestmark = pytest.mark.anyio


async def held(table: Table) -> tuple[str, str, str]:
    """A command whose tool call waits for approval: the ids of command, session and approval."""
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    await table.asked(session_id)
    return command.id, session_id, table.wire.last("x-interlock.interaction.held").payload.approval_id


async def approval_state(table: Table, approval_id: str) -> str:
    record = await table.ledger.approval(approval_id, "default")
    assert record is not None
    return record.approval.state


async def events_of(table: Table, command_id: str) -> list[tuple[str, Any]]:
    rows = await table.ledger.events("default", command_stream(command_id), 0, 100)
    events = [msgspec.json.decode(row.body) for row in rows]
    return [(event["event"], event.get("state") or event.get("approval_state")) for event in events]


async def due(table: Table, session_id: str, after_ms: int) -> None:
    table.clock.advance(after_ms)
    await (await table.lane(session_id)).call(ClockTicked())


@pytest.mark.req("C-0", "S-2")
async def test_the_terminal_state_is_the_last_event_even_if_an_approval_ends_too() -> None:
    table = Table(RuleSet([Rule(name="ask", effect="ask", door="command")]))
    command = await table.execute()
    await table.cancel(command.id)
    assert (await events_of(table, command.id))[-3:] == [("error", None), ("approval", "void"), ("state", "canceled")]


@pytest.mark.req("P-6")
async def test_a_forced_cancel_ends_the_open_question() -> None:
    table = Table()
    command_id, session_id, approval_id = await held(table)
    await table.cancel(command_id)
    await due(table, session_id, CANCEL_FORCE_MS)
    assert (await table.state(command_id), await approval_state(table, approval_id)) == ("canceled", "void")
    assert (await events_of(table, command_id))[-1] == ("state", "canceled")
    with pytest.raises(Problem, match="already void"):
        await table.vote(approval_id, "grant")
    assert "control.interaction.response" not in table.wire.types()


@pytest.mark.req("P-6", "C-7")
async def test_a_runner_that_never_reconnects_leaves_no_open_question() -> None:
    table = Table()
    table.limits = table.limits._replace(detach_ttl_ms=60_000, timeout_ms=10**9)
    table.begin()
    command_id, session_id, approval_id = await held(table)
    await (await table.lane(session_id)).call(RunnerDetached())
    await due(table, session_id, 60_000)
    assert (await table.state(command_id), await approval_state(table, approval_id)) == ("failed", "void")


@pytest.mark.req("P-6", "C-0")
async def test_a_grant_stays_until_its_runner_reports_the_outcome() -> None:
    table = Table()
    command_id, session_id, approval_id = await held(table)
    await table.vote(approval_id, "grant")
    await table.cancel(command_id)
    await due(table, session_id, CANCEL_FORCE_MS)
    assert (await table.state(command_id), await approval_state(table, approval_id)) == ("canceled", "granted")
    before = await events_of(table, command_id)
    await table.resolved(session_id, "allowed")
    assert await approval_state(table, approval_id) == "consumed"
    assert await events_of(table, command_id) == before


@pytest.mark.req("C-8", "A-4")
@pytest.mark.parametrize(("metadata", "by", "message"), [
    ({"reason": "the runner is stopping"}, "its runner", "canceled by its runner: the runner is stopping"),
    ({"reason": ["not", "text"]}, "the agent or its runner", "canceled by the agent or its runner"),
    ({}, "the agent or its runner", "canceled by the agent or its runner"),
])
async def test_a_command_whose_runner_ended_the_turn_has_the_reason(metadata: dict[str, Any], by: str, message: str
                                                                       ) -> None:
    table = Table()
    command_id, session_id, _ = await held(table)
    await table.ended(session_id, "cancelled", **metadata)
    record = await table.ledger.command(command_id, "default")
    assert record is not None
    assert record.command.error is not None
    assert (record.command.state, record.canceled_by, record.command.error.message) == ("canceled", by, message)


@pytest.mark.req("C-8")
async def test_a_person_who_canceled_first_is_named_whatever_the_runner_reports() -> None:
    table = Table()
    command_id, session_id, _ = await held(table)
    await table.cancel(command_id)
    await table.ended(session_id, "cancelled", reason="the runner is stopping")
    record = await table.ledger.command(command_id, "default")
    assert record is not None
    assert record.command.error is not None
    assert record.command.error.message == f"canceled by {record.canceled_by}"
    assert record.canceled_by != "its runner"
