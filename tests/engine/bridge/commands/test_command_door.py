"""A command that was allowed because its agent asks before its tools, when the agent does not (A-10, H-11)."""

from __future__ import annotations

import msgspec
import pytest

from engine.conversation import Table
from interlock.backends.memory.ledger import MemoryLedger
from interlock.command.policy.policy import Rule, RuleSet
from interlock.engine.bridge.lane_state import Limits
from interlock.protocol import payloads as p
from interlock.protocol.codes import Code
from interlock.protocol.resources import Command, Target

pytestmark = [pytest.mark.anyio, pytest.mark.req("A-10", "H-11")]
SENTENCE = "The agent is not known to ask before its tools in its mode 'auto'."
SWITCHED = "The agent was switched to its mode 'auto', in which it is not known to ask before its tools."


async def now(table: Table, command: Command) -> Command:
    found = await table.ledger.command(command.id, "default")
    assert found is not None
    return found.command


async def refused(table: Table, command: Command) -> Command:
    """The open shows an agent that does not ask, and its runner refuses the prompt before a turn starts."""
    session_id = command.target.session_id
    await table.send(session_id, "session.capabilities", p.Capabilities(
        dps_version="rawp-dps-1.0", features={"adapter_type": "process", "permission": "never"}))
    prompt = table.wire.last("control.prompt.request")
    assert prompt.payload.only_if_asks
    await table.send(session_id, "session.error", p.SessionError(
        error_code=Code.NOT_ASKING.value, message=SENTENCE, fatal=False), in_reply_to=prompt.message_id)
    return await now(table, command)


async def test_the_first_command_of_an_agent_without_requests_waits_for_approval() -> None:
    table = Table()
    command = await table.execute()
    held = await refused(table, command)
    assert (held.state, held.started_at) == ("pending_approval", None)
    assert [(one.code, SENTENCE in one.message) for one in held.notices] == [("ToolsNotGated", True)]
    assert held.approval_id is not None
    stored = await table.ledger.approval(held.approval_id, "default")
    assert (stored.approval.door, stored.approval.rule, stored.approval.digest) == (
        "command", "ask before an execute", held.payload_sha256)
    await table.vote(held.approval_id, "grant")
    assert not table.wire.last("control.prompt.request").payload.only_if_asks
    await table.started(command.target.session_id)
    await table.ended(command.target.session_id)
    ended = await now(table, command)
    assert ended.state == "succeeded"
    assert "its command was approved" in ended.notices[-1].message, "somebody approved it, and only then it says so"


async def test_after_a_denial_nothing_runs() -> None:
    table = Table()
    held = await refused(table, await table.execute())
    await table.vote(held.approval_id, "deny")
    ended = await now(table, held)
    assert (ended.state, ended.started_at) == ("rejected", None)
    assert table.wire.types().count("control.prompt.request") == 1


async def test_it_keeps_waiting_after_a_restart_of_the_gateway() -> None:
    table = Table()
    held = await refused(table, await table.execute())
    table.begin()
    assert (await now(table, held)).state == "pending_approval"
    await table.reattach(held.target.session_id, 9)
    await table.vote(held.approval_id, "grant")
    assert not table.wire.last("control.prompt.request").payload.only_if_asks


async def test_a_row_edited_to_drop_its_condition_does_not_run() -> None:
    table = Table()
    first = await table.execute()
    await table.opened(first.target.session_id)
    second = await table.execute("more", target=Target(session_id=first.target.session_id))
    table.begin()
    record = await table.ledger.command(second.id, "default")
    assert record is not None
    assert record.needs_asking
    assert isinstance(table.ledger, MemoryLedger)
    table.ledger._commands[second.id] = msgspec.structs.replace(record, needs_asking=False)
    await table.reattach(first.target.session_id, 9)
    ended = await now(table, second)
    assert (ended.state, "whether it needs an agent that asks" in ended.error.message) == ("canceled", True)


async def test_a_rule_for_agents_without_requests_decides_it_again() -> None:
    deny = Rule(name="no such agents", effect="deny", door="command", type="execute", permission="never")
    table = Table(RuleSet([deny]))
    ended = await refused(table, await table.execute())
    assert (ended.state, ended.error.code) == ("failed", "NOT_ASKING")
    assert "no such agents denies" in ended.error.message
    allow = Rule(name="trusted", effect="allow", door="command", type="execute", permission="never")
    table = Table(RuleSet([allow]))
    await table.opened((await table.execute()).target.session_id)
    assert not table.wire.last("control.prompt.request").payload.only_if_asks, "a rule lets it run either way"


async def test_queued_commands_are_held_with_it() -> None:
    table = Table()
    first = await table.execute()
    session_id = first.target.session_id
    second = await table.execute("more", target=Target(session_id=session_id))
    await refused(table, first)
    assert [(await now(table, one)).state for one in (first, second)] == ["pending_approval"] * 2


async def test_a_runner_that_does_not_know_the_condition_has_its_turn_cancelled() -> None:
    table = Table()
    table.engine.configure(table.policy, Limits(on_unasked="tell"))
    command = await table.execute()
    session_id = command.target.session_id
    await table.send(session_id, "session.capabilities", p.Capabilities(
        dps_version="rawp-dps-1.0", features={"adapter_type": "process", "permission": "never"}))
    await table.started(session_id)
    assert table.wire.last("control.turn.cancel").payload.reason == "NOT_ASKING"
    await table.ended(session_id, "cancelled")
    ended = await now(table, command)
    assert (ended.state, ended.error.code, ended.notices) == ("failed", "NOT_ASKING", [])


async def switched(table: Table, *, asks: bool, session_id: str) -> None:
    await table.send(session_id, "x-interlock.asking.changed", p.AskingChanged(asks=asks, message=SWITCHED))


async def test_an_agent_that_stops_asking_in_a_turn_has_it_cancelled_and_its_next_command_held() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    queued = await table.execute("more", target=Target(session_id=session_id))
    await switched(table, asks=False, session_id=session_id)
    assert table.wire.last("control.turn.cancel").payload.reason == "STOPPED_ASKING"
    await table.ended(session_id, "cancelled")
    ended = await now(table, command)
    assert (ended.state, ended.error.code, ended.error.message) == ("failed", "STOPPED_ASKING", SWITCHED)
    assert [one.code for one in ended.notices] == ["StoppedAsking"]
    assert "asking_stopped" in await table.actions()
    assert (await now(table, queued)).state == "pending_approval"
    assert (await table.execute("third", target=Target(session_id=session_id))).state == "pending_approval"


async def test_an_agent_that_requests_permission_again_is_no_longer_held() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    await table.ended(session_id)
    await switched(table, asks=False, session_id=session_id)
    assert "control.turn.cancel" not in table.wire.types()
    assert (await table.execute("held", target=Target(session_id=session_id))).state == "pending_approval"
    await switched(table, asks=True, session_id=session_id)
    assert (await table.execute("free", target=Target(session_id=session_id))).state == "queued" or (
        table.wire.last("control.prompt.request").payload.text == "free")
    assert (await table.actions()).count("asking_resumed") == 1


async def test_an_agent_that_used_a_tool_without_a_grant_stays_held() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    await table.send(session_id, "agent.error", p.AgentError(severity="error", error_code="RAN_UNASKED", message="x"))
    await table.ended(session_id, "cancelled")
    await switched(table, asks=True, session_id=session_id)
    await table.send(session_id, "session.closed", p.SessionClosed(reason="idle"))
    assert (await table.execute("held", target=Target(session_id=session_id))).state == "pending_approval"


async def test_the_config_can_restrict_a_switch_to_a_report() -> None:
    table = Table()
    table.engine.configure(table.policy, Limits(on_unasked="tell"))
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    await switched(table, asks=False, session_id=session_id)
    await table.ended(session_id)
    ended = await now(table, command)
    assert (ended.state, [one.code for one in ended.notices]) == ("succeeded", ["StoppedAsking"])


TRUSTED = RuleSet([Rule(name="trusted", effect="allow", door="command", type="execute", permission="never")])


async def two_let_through(table: Table) -> tuple[Command, Command]:
    """One command whose prompt is out and one behind it: both may start only if their agent asks."""
    first = await table.execute()
    await table.opened(first.target.session_id)
    return first, await table.execute("more", target=Target(session_id=first.target.session_id))


@pytest.mark.req("H-5", "U-1")
async def test_a_command_freed_from_its_condition_by_policy_survives_a_restart() -> None:
    table = Table()
    first, queued = await two_let_through(table)
    session_id = first.target.session_id
    await table.started(session_id)
    table.policy = TRUSTED
    table.engine.configure(TRUSTED, table.limits)
    await switched(table, asks=False, session_id=session_id)
    record = await table.ledger.command(queued.id, "default")
    assert record is not None
    assert (record.command.state, record.needs_asking) == ("queued", False)
    assert (await table.actions()).count("reevaluate") == 1
    await table.restart()
    await table.reattach(session_id, 9)
    assert (await now(table, queued)).state == "queued"
    assert "tampered" not in await table.actions()


@pytest.mark.req("H-5", "U-1")
async def test_a_command_requeued_without_its_condition_survives_a_restart() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    table.policy = TRUSTED
    table.engine.configure(TRUSTED, table.limits)
    sent = await refused(table, command)
    assert (sent.state, sent.attempt) == ("dispatched", 2)
    assert not table.wire.last("control.prompt.request").payload.only_if_asks
    await table.restart()
    await table.reattach(session_id, 9)
    assert (await now(table, command)).state == "dispatched"
    assert "tampered" not in await table.actions()


@pytest.mark.req("H-5")
async def test_a_row_that_gets_its_condition_back_by_sql_does_not_run() -> None:
    table = Table()
    first, queued = await two_let_through(table)
    session_id = first.target.session_id
    await table.started(session_id)
    table.policy = TRUSTED
    table.engine.configure(TRUSTED, table.limits)
    await switched(table, asks=False, session_id=session_id)
    await table.restart()
    record = await table.ledger.command(queued.id, "default")
    assert record is not None
    assert isinstance(table.ledger, MemoryLedger)
    table.ledger._commands[queued.id] = msgspec.structs.replace(record, needs_asking=True)
    await table.reattach(session_id, 9)
    assert (await now(table, queued)).state == "canceled"
