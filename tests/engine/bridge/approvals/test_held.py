"""How an agent is held, as its session, its approvals and the audit log name it (H-10)."""

from __future__ import annotations

import msgspec
import pytest

from engine.conversation import OWNER, Table
from interlock.command.card.asked_by import names
from interlock.command.policy.policy import RuleSet
from interlock.command.policy.rule import Rule
from interlock.protocol import payloads as p
from interlock.protocol.hold import Holding, phrase
from interlock.protocol.resources import Approval, Session, Target

pytestmark = [pytest.mark.anyio, pytest.mark.req("H-10")]
CHECKED = Holding(held="asks", version="1.52.0", checked="2026-11-22T12:30:00Z")
LINE = "asks (checked 2026-11-22, v1.52.0)"


async def session(table: Table, session_id: str) -> Session:
    record = await table.ledger.session(session_id, OWNER.tenant_id)
    assert record is not None
    return table.engine.sessions.shown(record)


async def held(table: Table, session_id: str) -> str:
    holding = (await session(table, session_id)).holding
    assert holding is not None
    return phrase(holding)


async def audited(table: Table, action: str) -> list[str]:
    rows = [msgspec.json.decode(row.body) for row in await table.ledger.audit("default", 0, 1_000)]
    return [row["meta"].get("held", "") for row in rows if row["action"] == action]


async def approval(table: Table, approval_id: str) -> Approval:
    record = await table.ledger.approval(approval_id, "default")
    assert record is not None
    return record.approval


async def test_a_checked_agent_is_shown_with_its_check_everywhere() -> None:
    table = Table(holding=CHECKED)
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    await table.asked(session_id)
    asked = await approval(table, table.wire.last("x-interlock.interaction.held").payload.approval_id)

    assert await held(table, session_id) == LINE
    assert asked.holding == CHECKED
    assert names(asked)[-1] == f"held: {LINE}"
    assert await audited(table, "enqueue") == [LINE]
    assert await audited(table, "tool_call") == [LINE]


async def test_an_agent_held_as_a_whole_has_a_reason() -> None:
    table = Table(permission="never", holding=Holding(held="command", why="not checked"))
    command = await table.execute()
    asked = await approval(table, command.approval_id)

    assert await held(table, command.target.session_id) == "command (not checked)"
    assert names(asked)[-1] == "held: command (not checked)"


async def test_a_rule_that_allows_an_agent_without_requests_leaves_it_unheld() -> None:
    rule = Rule(name="let-it", door="command", effect="allow", permission="never")
    table = Table(RuleSet([rule]), permission="never", holding=Holding(held="command", why="asks = false"))
    command = await table.execute()

    assert await held(table, command.target.session_id) == "none (rule let-it)"
    assert await audited(table, "enqueue") == ["none (rule let-it)"]


async def test_a_mode_without_requests_holds_the_whole_command() -> None:
    table = Table(holding=CHECKED)
    command = await table.execute()
    table.permission = "never"
    await table.opened(command.target.session_id)

    assert await held(table, command.target.session_id) == (
        "command (it does not ask in the mode that it is in, checked 2026-11-22, v1.52.0)")


async def test_a_tool_that_ran_without_a_request_holds_the_whole_command() -> None:
    table = Table(holding=CHECKED)
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    await table.send(session_id, "agent.error", p.AgentError(
        error_code="RAN_UNASKED", message="It ran a tool without a question.", severity="warning"))
    assert await held(table, session_id) == "command (it used a tool without a yes)"

    await table.ended(session_id, "cancelled")
    again = await table.execute("more", target=Target(session_id=session_id))
    assert (await audited(table, "tool_call"))[-1] == "command (it used a tool without a yes)"
    assert again.state == "pending_approval"


async def test_the_way_of_holding_survives_a_restart() -> None:
    table = Table(holding=CHECKED)
    command = await table.execute()
    state = (await table.lane(command.target.session_id)).lane.state

    assert msgspec.json.decode(msgspec.json.encode(state), type=type(state)).holding == CHECKED
