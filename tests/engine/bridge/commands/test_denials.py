"""A command stores which of its calls were denied, by which person or rule, and why (Y-5)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engine.conversation import OWNER, Table, remember
from interlock.command.policy.policy import Rule, RuleSet
from interlock.engine.bridge.commands.denials import NOT_ANSWERED
from interlock.engine.bridge.inputs.gateway import ClockTicked
from interlock.protocol import payloads as p
from interlock.protocol.resources import Denial, GrantBody
from interlock.session.turn_output import MAX_DENIALS

pytestmark = [pytest.mark.anyio, pytest.mark.req("Y-5")]
NO_RM = Rule(name="no rm", effect="deny", door="tool", words="rm **", reason="It deletes.")


async def at_work(policy: RuleSet | None = None) -> tuple[Table, Any]:
    table = Table(policy)
    command = await table.execute()
    await table.opened(command.target.session_id)
    await table.started(command.target.session_id)
    return table, command


async def denials(table: Table, command: Any) -> list[Denial]:
    record = await table.ledger.command(command.id, "default")
    assert record is not None
    return record.command.denials


def fields_of(denial: Denial) -> tuple[str, str, str | None, str | None]:
    return denial.title, denial.by, denial.rule, denial.reason


async def test_a_persons_denial_has_person_and_reason_and_outlives_the_command() -> None:
    table, command = await at_work()
    session_id = command.target.session_id
    await table.asked(session_id, "rm -r build")
    approval_id = table.wire.last("x-interlock.interaction.held").payload.approval_id
    await table.engine.vote(OWNER, approval_id, GrantBody(decision="deny", comment="I need it"), remember)
    await table.resolved(session_id, "denied")
    await table.result(session_id, status="denied")
    await table.ended(session_id)
    assert await table.state(command.id) == "succeeded"
    one, = await denials(table, command)
    assert fields_of(one) == ("$ rm -r build", "user:owner", "ask before a tool", "I need it")
    assert (one.approval_id, one.invocation_id, one.tool_name) == (approval_id, "i1", "shell")


async def test_a_rules_denial_names_the_rule_and_its_reason() -> None:
    table, command = await at_work(RuleSet([NO_RM]))
    await table.asked(command.target.session_id, "rm -r build")
    one, = await denials(table, command)
    assert fields_of(one) == ("$ rm -r build", "policy:no rm", "no rm", "It deletes.")
    assert one.approval_id is None
    answer = table.wire.last("control.interaction.response").payload
    assert (answer.decision, answer.by, answer.message) == ("deny", "policy:no rm", "It deletes.")


async def test_an_approval_that_expires_is_a_denial_by_the_gateway() -> None:
    table, command = await at_work()
    await table.asked(command.target.session_id)
    table.clock.advance(table.limits.approval_ttl_ms + 1)
    await (await table.lane(command.target.session_id)).call(ClockTicked())
    one, = await denials(table, command)
    assert fields_of(one) == ("$ ls", "gateway", "ask before a tool", NOT_ANSWERED)


async def test_a_call_denied_by_the_runner_is_listed_with_its_warning() -> None:
    table, command = await at_work()
    session_id = command.target.session_id
    await table.send(session_id, "tool.invoke.request", p.ToolRequest(
        invocation_id="i1", turn_id="t1", tool_name="edit", input=msgspec.Raw(b"{}"), title="edit notes.md"))
    await table.send(session_id, "agent.error", p.AgentError(
        severity="warning", error_code="WORKSPACE_REFUSED", message="The session may only read.", retryable=False))
    await table.result(session_id, status="denied")
    await table.ended(session_id)
    one, = await denials(table, command)
    assert fields_of(one) == ("edit notes.md", "runner", None, "The session may only read.")


async def test_a_command_whose_calls_were_allowed_has_no_denials() -> None:
    table, command = await at_work(RuleSet([Rule(name="all", effect="allow", door="tool", words="ls")]))
    session_id = command.target.session_id
    await table.asked(session_id)
    await table.resolved(session_id, "allowed")
    await table.result(session_id)
    await table.ended(session_id)
    assert await denials(table, command) == []


async def test_the_newest_denials_are_kept() -> None:
    table, command = await at_work(RuleSet([NO_RM]))
    for number in range(MAX_DENIALS + 2):
        await table.asked(command.target.session_id, f"rm {number}", invocation=f"i{number}")
        await table.resolved(command.target.session_id, "denied", f"i{number}")
        await table.result(command.target.session_id, status="denied", invocation=f"i{number}")
    await table.ended(command.target.session_id)
    found = await denials(table, command)
    assert [one.title for one in found] == [f"$ rm {number}" for number in range(2, MAX_DENIALS + 2)]

