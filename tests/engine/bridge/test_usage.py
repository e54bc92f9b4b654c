"""Usage that agents report, as the gateway counts it per day, read as the conversation with the runner."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engine.bridge.commands.test_budgets import running, uses
from engine.conversation import Table
from interlock.command.policy.budget import DAY_MS
from interlock.engine.bridge.usage import COUNTED_MAX
from interlock.ports.usage import UsageQuery
from interlock.protocol import payloads as p
from interlock.protocol.records import UsageRecord

pytestmark = [pytest.mark.anyio, pytest.mark.req("J-13")]
DAY = 20_000


def table_of_a_day() -> Table:
    table = Table()
    table.begin()
    table.clock.at_ms = DAY * DAY_MS
    return table


async def ends(table: Table, session_id: str, stop_reason: Any = "end_turn") -> None:
    """The turn is over, and owes its usage."""
    await table.send(session_id, "session.turn.end", p.TurnEnd(turn_id="t1", stop_reason=stop_reason))


async def counted(table: Table, **query: Any) -> list[UsageRecord]:
    everything = frozenset({"day", "agent", "model", "session", "person"})
    asked = UsageQuery("default", 0, 99_999, **{"by": everything, **query})
    return (await table.ledger.usage(asked)).records


async def test_a_turns_figures_are_counted_once_by_day_agent_session_and_person() -> None:
    table = table_of_a_day()
    command = await running(table)
    session_id = command.target.session_id
    await uses(table, session_id, tokens=600, usd=0.25)  # A running total of the turn, in its middle.
    await ends(table, session_id)
    await uses(table, session_id, tokens=900, usd=0.5)
    assert await counted(table) == [UsageRecord(
        tenant_id="default", day=DAY, agent_id="shell", session_id=session_id, person="user:owner", turns=1,
        input_tokens=900, cost_micros=500_000)]


async def test_the_cost_of_a_turn_after_midnight_counts_for_the_next_day() -> None:
    table = table_of_a_day()
    command = await running(table)
    session_id = command.target.session_id
    await uses(table, session_id, usd=0.25)
    table.clock.advance(DAY_MS)
    await ends(table, session_id)
    await uses(table, session_id, tokens=10, usd=1.0)
    assert [(one.day, one.turns, one.input_tokens, one.cost_micros) for one in await counted(table)] == [
        (DAY + 1, 1, 10, 750_000), (DAY, 0, 0, 250_000)]


async def test_a_turn_whose_agent_exited_is_counted_without_figures() -> None:
    table = table_of_a_day()
    command = await running(table)
    session_id = command.target.session_id
    await ends(table, session_id, "error")
    await uses(table, session_id, estimated=True)
    (record,) = await counted(table)
    assert (record.turns, record.estimated_turns, record.input_tokens) == (1, 1, 0)


async def test_a_huge_figure_does_not_overflow_the_sum() -> None:
    table = table_of_a_day()
    command = await running(table)
    session_id = command.target.session_id
    await ends(table, session_id)
    await uses(table, session_id, tokens=2**53 - 1, usd=1e12)
    (record,) = await counted(table)
    assert (record.input_tokens, record.cost_micros) == (COUNTED_MAX, COUNTED_MAX)


async def test_a_session_controlled_by_another_gateway_is_counted_there() -> None:
    table = table_of_a_day()
    command = await running(table)
    session_id = command.target.session_id
    await table.send(session_id, "x-interlock.control.changed", p.ControlChanged(gateway_id="another"))
    await ends(table, session_id)
    await uses(table, session_id, tokens=900, usd=0.5)
    assert await counted(table) == []


async def test_the_model_is_that_of_the_session() -> None:
    table = table_of_a_day()
    command = await running(table)
    session_id = command.target.session_id
    shell = await table.lane(session_id)
    shell.lane.state.model = "small"
    await uses(table, session_id, usd=0.25)
    shell.lane.state.entry = msgspec.structs.replace(shell.lane.state.entry, model_override="large")
    await uses(table, session_id, usd=0.75)
    assert [(one.model, one.cost_micros) for one in await counted(table, by=frozenset({"model"}))] == [
        ("large", 500_000), ("small", 250_000)]
