"""How a command and its session's turns meet, row by row, where other tests only pass by (C-8, C-1, P-1)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engine.conversation import OWNER, Table, remember
from interlock.command.policy import QuorumGroup, Rule, RuleSet
from interlock.engine.bridge import submission
from interlock.engine.bridge.inputs.gateway import ClockTicked, StartLooked
from interlock.protocol import payloads as p
from interlock.protocol.drains import DrainBody
from interlock.protocol.limits import MAX_DISPATCH_ATTEMPTS
from interlock.protocol.problems import Problem
from interlock.protocol.resources import ApprovalWish, CommandBody, Target

pytestmark = pytest.mark.anyio
WITH_SHELL = msgspec.Raw(msgspec.json.encode({
    "messages": [{"role": "user", "content": [{"contentType": "text", "value": "x"}]}], "tools": ["shell"]}))


async def running(table: Table, **fields: Any) -> tuple[str, str]:
    """A command whose turn has started: its id and its session's."""
    command = await table.execute(**fields)
    await table.opened(command.target.session_id)
    await table.started(command.target.session_id)
    return command.id, command.target.session_id


async def shown(table: Table, command_id: str) -> Any:
    record = await table.ledger.command(command_id)
    assert record is not None
    return record.command


async def time_passes(table: Table, session_id: str, ms: int) -> None:
    table.clock.advance(ms)
    await (await table.lane(session_id)).call(ClockTicked())


@pytest.mark.req("C-8")
async def test_max_tokens_is_a_success_that_says_it_was_cut() -> None:
    table = Table()
    command_id, session_id = await running(table)
    await table.ended(session_id, "max_tokens")
    command = await shown(table, command_id)
    assert (command.state, [notice.code for notice in command.result.output.notices]) == ("succeeded", ["Truncated"])


@pytest.mark.req("C-8")
async def test_awaiting_input_is_a_success_that_says_so_and_the_next_execute_is_the_answer() -> None:
    table = Table()
    command_id, session_id = await running(table)
    await table.ended(session_id, "awaiting_input")
    command = await shown(table, command_id)
    assert (command.state, command.result.output.awaiting_input) == ("succeeded", True)
    answer = await table.execute("the left one", target=Target(session_id=session_id))
    assert (await table.state(answer.id), table.wire.last("control.prompt.request").payload.text) == (
        "dispatched", "the left one")
    await table.started(session_id, "t2")
    await table.ended(session_id, turn_id="t2")
    assert (await shown(table, answer.id)).result.output.awaiting_input is False


@pytest.mark.req("C-8")
async def test_an_agent_that_left_without_an_answer_has_failed_although_its_turn_ended_well() -> None:
    table = Table()
    command_id, session_id = await running(table)
    await table.ended(session_id, "end_turn", unanswered=True)
    command = await shown(table, command_id)
    assert (command.state, command.error.code, command.result.ok) == ("failed", "AgentExited", False)


@pytest.mark.req("C-8")
async def test_a_prompt_that_is_refused_again_and_again_is_given_up() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    for attempt in range(1, MAX_DISPATCH_ATTEMPTS + 1):
        now = await shown(table, command.id)
        assert (now.state, now.attempt) == ("dispatched", attempt)
        prompt = table.wire.last("control.prompt.request")
        await table.say(session_id, "session.error", p.SessionError(
            error_code="RUNNER_RESTARTED", message="again", fatal=False), in_reply_to=prompt.message_id)
    last = await shown(table, command.id)
    assert (last.state, last.error.code) == ("failed", "AgentLost")
    assert table.wire.types().count("control.prompt.request") == MAX_DISPATCH_ATTEMPTS


@pytest.mark.req("C-1")
async def test_what_waits_in_the_queue_too_long_expires_and_never_runs() -> None:
    table = Table()
    table.limits = table.limits._replace(queue_ttl_ms=5_000, timeout_ms=10**9)
    table.begin()
    _, session_id = await running(table)
    waiting = await table.execute("late", target=Target(session_id=session_id))
    await time_passes(table, session_id, 4_999)
    assert await table.state(waiting.id) == "queued"
    await time_passes(table, session_id, 1)
    command = await shown(table, waiting.id)
    assert (command.state, command.error.code) == ("expired", "Timeout")
    await table.ended(session_id)
    assert table.wire.types().count("control.prompt.request") == 1


@pytest.mark.req("C-1")
async def test_the_queues_clock_begins_with_the_yes_and_not_before() -> None:
    table = Table()
    table.limits = table.limits._replace(queue_ttl_ms=5_000, timeout_ms=10**9)
    table.begin()
    _, session_id = await running(table)
    held = await table.execute("held", target=Target(session_id=session_id), approval=ApprovalWish())
    await time_passes(table, session_id, 60_000)
    assert await table.state(held.id) == "pending_approval"
    await table.vote(held.approval_id, "grant")
    await time_passes(table, session_id, 4_999)
    assert await table.state(held.id) == "queued"
    await time_passes(table, session_id, 1)
    assert await table.state(held.id) == "expired"
    record = await table.ledger.approval(held.approval_id)
    assert record is not None
    assert record.approval.state == "void", "a yes that nothing used is no yes to anything else"


@pytest.mark.req("C-0", "P-1")
@pytest.mark.parametrize(("rule", "wish", "required"),
                         [(2, 1, 2), (2, 3, 3), (2, 0, 2), (1, 2, 2), (0, 2, 2), (0, 0, 0)])
async def test_an_approval_that_a_command_asks_for_only_tightens_what_policy_asks(
    rule: int, wish: int, required: int
) -> None:
    effect: Any = "ask" if rule else "allow"
    table = Table(RuleSet([Rule(name="r", effect=effect, door="command", required=max(rule, 1))]))
    command = await table.execute(approval=ApprovalWish(required=wish))
    if required == 0:
        assert (command.state, command.approval_id) == ("queued", None)
        return
    record = await table.ledger.approval(command.approval_id)
    assert record is not None
    assert (command.state, record.approval.required) == ("pending_approval", required)


@pytest.mark.req("C-0", "P-1")
async def test_the_tools_that_a_command_names_are_judged_by_policy_as_ever() -> None:
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
async def test_a_turn_that_is_not_the_commands_does_not_share_its_tools() -> None:
    table = Table()
    command = await table.engine.submit(OWNER, CommandBody(type="execute", target=Target(agent_id="shell"),
                                                           payload=WITH_SHELL), remember)
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.say(session_id, "session.turn.start", p.TurnStart(turn_id="t1", turn_index=0), prompt_id="another")
    await table.asked(session_id)
    assert table.wire.sent[-1].type == "x-interlock.interaction.held"
    record = await table.ledger.approval(table.wire.sent[-1].payload.approval_id)
    assert record is not None
    assert (record.approval.command_id, record.approval.requested_by) == (None, None)


@pytest.mark.req("C-3", "C-5")
async def test_an_interrupt_under_a_drain_ends_nothing_until_it_may_run_itself() -> None:
    table = Table()
    first, session_id = await running(table)
    body = DrainBody(scope="session", id=session_id)
    await table.engine.drains.drain(OWNER, body, remember)
    urgent = await table.execute("urgent", target=Target(session_id=session_id), on_busy="interrupt")
    assert (await table.state(first), await table.state(urgent.id)) == ("running", "queued")
    await table.engine.drains.undrain(OWNER, body, remember)
    await (await table.lane(session_id)).call(StartLooked())
    assert await table.state(first) == "canceling"


@pytest.mark.req("P-1")
@pytest.mark.parametrize("what", [
    {"required": 2}, {"groups": True}, {"signed": True}, {"self_approval": False}, {"dangerous": True}])
def test_every_kind_of_quorum_is_asked_before_what_is_remembered_and_a_plain_ask_is_not(what: dict[str, Any]) -> None:
    fields = {**what, **({"groups": [QuorumGroup(role="admin")]} if "groups" in what else {})}
    always = Rule(name="always", effect="allow", tool="shell")
    assert [rule.name for rule in RuleSet([Rule(name="q", effect="ask", **fields)], [always]).rules] == ["q", "always"]
    assert [rule.name for rule in RuleSet([Rule(name="q", effect="ask")], [always]).rules] == ["always", "q"]
    assert [rule.name for rule in RuleSet([Rule(name="q", effect="allow")], [always]).rules] == ["always", "q"]
    assert [rule.name for rule in RuleSet([Rule(name="q", effect="deny")], [always]).rules] == ["q", "always"]


async def held(table: Table, session_id: str) -> str:
    await table.asked(session_id)
    return table.wire.last("x-interlock.interaction.held").payload.approval_id


@pytest.mark.req("C-1", "P-6")
async def test_the_timeout_runs_on_when_a_question_has_expired() -> None:
    table = Table()
    table.limits = table.limits._replace(approval_ttl_ms=1_000_000, timeout_ms=60_000)
    table.begin()
    command_id, session_id = await running(table)
    await held(table, session_id)
    await time_passes(table, session_id, 1_000_000)
    assert table.wire.sent[-1].type == "control.interaction.timeout"
    await time_passes(table, session_id, 59_999)
    assert await table.state(command_id) == "running"
    await time_passes(table, session_id, 1)
    assert await table.state(command_id) == "canceling"


@pytest.mark.req("P-2", "P-6")
@pytest.mark.parametrize(("outcome", "state"), [("allowed", "consumed"), ("void", "void"), ("denied", "void")])
async def test_a_yes_is_used_where_the_runner_says_so_and_void_where_it_came_to_something_else(
    outcome: str, state: str
) -> None:
    table = Table()
    _, session_id = await running(table)
    approval_id = await held(table, session_id)
    await table.vote(approval_id, "grant")
    await table.resolved(session_id, outcome)
    record = await table.ledger.approval(approval_id)
    assert record is not None
    assert record.approval.state == state


@pytest.mark.req("C-3")
async def test_a_session_lets_so_many_wait_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.req("C-1", "C-6")
async def test_the_timeout_runs_while_an_agent_is_on_its_way_to_a_pause() -> None:
    table = Table()
    command_id, session_id = await running(table)
    await table.order("pause", command_id)
    await time_passes(table, session_id, 59_999)
    assert await table.state(command_id) == "pausing"
    await time_passes(table, session_id, 1)
    assert await table.state(command_id) == "canceling"
    await table.ended(session_id, "cancelled")
    assert await table.state(command_id) == "timed_out"
