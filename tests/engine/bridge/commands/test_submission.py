"""Submission of a command to a lane: checked by policy, limits and the signing state of its log (C-0, P-1, U-3)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engine.bridge.steps import running
from engine.conversation import OWNER, Table, remember
from interlock.command.policy.policy import Rule, RuleSet
from interlock.engine.bridge.commands import submission
from interlock.engine.bridge.inputs.gateway import StartLooked
from interlock.protocol import payloads as p
from interlock.protocol.problems import Problem
from interlock.protocol.resources import ApprovalRequirement, CommandBody, Target

pytestmark = pytest.mark.anyio
WITH_SHELL = msgspec.Raw(msgspec.json.encode({
    "messages": [{"role": "user", "content": [{"contentType": "text", "value": "x"}]}], "tools": ["shell"]}))


@pytest.mark.req("P-1", "A-10", "C-0")
async def test_a_command_for_an_agent_without_requests_waits_for_approval() -> None:
    table = Table(permission="never")
    command = await table.execute()
    assert command.state == "pending_approval"
    assert table.wire.types() == []
    await table.vote(command.approval_id, "grant")
    assert await table.state(command.id) == "dispatched"
    await table.opened(command.target.session_id)
    await table.started(command.target.session_id)
    record = await table.ledger.command(command.id, "default")
    assert [notice.code for notice in record.command.notices] == ["ToolsNotGated"]  # type: ignore[union-attr]


@pytest.mark.req("P-1", "G-1")
async def test_a_reloaded_policy_decides_the_next_command() -> None:
    table = Table()
    await table.execute()
    table.engine.configure(RuleSet([Rule(name="stop", door="command", effect="deny", reason="not today")]),
                           table.limits)
    with pytest.raises(Problem, match="Policy rule stop denies it: not today"):
        await table.execute()
    assert (await table.actions())[-1] == "reject"


@pytest.mark.req("C-0", "P-1")
async def test_a_denied_command_is_rejected_and_never_sent() -> None:
    table = Table(permission="never")
    command = await table.execute()
    await table.vote(command.approval_id, "deny")
    assert await table.state(command.id) == "rejected"
    assert table.wire.types() == []


@pytest.mark.req("C-0", "P-1")
@pytest.mark.parametrize(("rule", "wish", "required"),
                         [(2, 1, 2), (2, 3, 3), (2, 0, 2), (1, 2, 2), (0, 2, 2), (0, 0, 0)])
async def test_an_approval_requested_by_a_command_can_only_tighten_policy(
    rule: int, wish: int, required: int
) -> None:
    effect: Any = "ask" if rule else "allow"
    table = Table(RuleSet([Rule(name="r", effect=effect, door="command", required=max(rule, 1))]))
    command = await table.execute(approval=ApprovalRequirement(required=wish))
    if required == 0:
        assert (command.state, command.approval_id) == ("queued", None)
        return
    record = await table.ledger.approval(command.approval_id, "default")
    assert record is not None
    assert (command.state, record.approval.required) == ("pending_approval", required)


@pytest.mark.req("C-0", "P-1")
async def test_the_tools_named_by_a_command_are_still_decided_by_policy() -> None:
    table = Table(RuleSet([Rule(name="no rm", effect="deny", command="rm .*"),
                           Rule(name="ask for make", effect="ask", command="make")]))
    command = await table.engine.submit(OWNER, CommandBody(type="execute", target=Target(agent_id="shell"),
                                                           payload=WITH_SHELL), remember)
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    for number, (line, answer) in enumerate((("ls", None), ("rm x", "deny"), ("make", None))):
        await table.asked(session_id, line, invocation=f"i{number}")
        last = table.wire.sent[-1]
        if answer is None:
            assert last.type == "x-interlock.interaction.held"
        else:
            assert (last.type, last.payload.decision) == ("control.interaction.response", answer)


@pytest.mark.req("C-0")
async def test_a_turn_of_another_command_does_not_share_its_tools() -> None:
    table = Table()
    command = await table.engine.submit(OWNER, CommandBody(type="execute", target=Target(agent_id="shell"),
                                                           payload=WITH_SHELL), remember)
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.send(session_id, "session.turn.start", p.TurnStart(turn_id="t1", turn_index=0), prompt_id="another")
    await table.asked(session_id)
    assert table.wire.sent[-1].type == "x-interlock.interaction.held"
    record = await table.ledger.approval(table.wire.sent[-1].payload.approval_id, "default")
    assert record is not None
    assert (record.approval.command_id, record.approval.requested_by) == (None, None)


@pytest.mark.req("C-3")
async def test_the_waiting_commands_of_a_session_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submission, "MAX_QUEUED_COMMANDS", 2)
    table = Table()
    _, session_id = await running(table)
    here = Target(session_id=session_id)
    waiting = [await table.execute(target=here) for _ in range(2)]
    with pytest.raises(Problem) as refused:
        await table.execute(target=here)
    assert refused.value.code == "QuotaExceeded"
    await table.cancel(waiting[0].id)
    assert (await table.execute(target=here)).state == "queued"


@pytest.mark.req("U-3")
async def test_no_command_is_accepted_while_the_log_is_unsigned_and_turns_continue() -> None:
    table = Table()
    first = await table.execute("first")
    session_id = first.target.session_id
    waiting = await table.execute("second", target=Target(session_id=session_id))
    await table.opened(session_id)
    await table.started(session_id)
    table.engine.signing.failed("default", "The bucket is away.")
    with pytest.raises(Problem, match="cannot be signed, so nothing new is started: The bucket is away") as refused:
        await table.execute("third", target=Target(session_id=session_id))
    assert (refused.value.code, refused.value.headers) == ("Unavailable", {"Retry-After": "5"})
    await table.ended(session_id)
    assert (await table.state(first.id), await table.state(waiting.id)) == ("succeeded", "queued")
    table.engine.signing.signed("default")
    await (await table.lane(session_id)).call(StartLooked())
    assert await table.state(waiting.id) == "dispatched"
    await table.execute("third", target=Target(session_id=session_id))
    await table.engine.stop()


@pytest.mark.req("U-3")
async def test_an_unsigned_log_of_one_tenant_does_not_stop_another() -> None:
    table = Table()
    table.engine.signing.failed("other", "It was rewritten.")
    command = await table.execute()
    assert await table.state(command.id) == "dispatched"
    await table.engine.stop()
