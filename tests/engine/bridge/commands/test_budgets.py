"""Budgets as the gateway enforces them, read as the conversation with the runner: a session pauses and asks (P-7)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engine.conversation import OWNER, Table, remember
from interlock.command.policy.budget import DAY_MS, BudgetRule
from interlock.command.policy.policy import QuorumGroup
from interlock.engine.bridge.inputs.gateway import ClockTicked, StartLooked
from interlock.engine.bridge.lane_state import Limits
from interlock.protocol import payloads as p
from interlock.protocol.envelope import DPS_VERSION
from interlock.protocol.problems import Problem
from interlock.protocol.resources import Actor, GrantBody, Remembering, Target

pytestmark = pytest.mark.anyio

DAILY = BudgetRule(name="daily", usd_per_day="1.00")
TOKENS = BudgetRule(name="turn", tokens_per_turn=1_000)


def table_with(*budgets: BudgetRule, **limits: Any) -> Table:
    table = Table()
    table.limits = Limits(timeout_ms=60_000, budgets=budgets, **limits)
    table.begin()
    return table


async def running(table: Table, pause: str = "signal", **fields: Any) -> Any:
    command = await table.execute(**fields)
    session_id = command.target.session_id
    await table.send(session_id, "session.capabilities", p.Capabilities(
        dps_version=DPS_VERSION, features={"adapter_type": "process", "permission": "asks", "pause": pause}))
    await table.started(session_id)
    return command


async def uses(table: Table, session_id: str, tokens: int = 0, usd: float = 0.0, turn_id: str | None = "t1",
               **metadata: Any) -> None:
    await table.send(session_id, "session.usage", p.Usage(
        turn_id=turn_id, token_usage=p.TokenUsage(input_tokens=tokens, output_tokens=0),
        cost_usage=p.Quota(limit=-1, used=usd, unit="USD"),
        message_usage=p.MessageQuota(limit=-1, used=1, unit="COUNT"),
        context_window=p.ContextWindow(), time_to_reset="2026-12-01T00:00:00.000Z"), **metadata)


async def question(table: Table) -> Any:
    """The one approval that waits."""
    (record,) = await table.ledger.approvals("default", "pending", None, 10)
    return record.approval


async def pending(table: Table) -> int:
    return len(await table.ledger.approvals("default", "pending", None, 10))


async def settle(table: Table, session_id: str) -> None:
    """Let a lane do what others left it to do."""
    await (await table.lane(session_id)).call(StartLooked())


async def time_passes(table: Table, session_id: str, ms: int) -> None:
    table.clock.advance(ms)
    await (await table.lane(session_id)).call(ClockTicked())


@pytest.mark.req("P-7")
async def test_a_turn_over_its_token_budget_pauses_and_a_grant_continues_it() -> None:
    table = table_with(TOKENS)
    command = await running(table)
    session_id = command.target.session_id
    await uses(table, session_id, tokens=999)
    assert (await table.state(command.id), await pending(table)) == ("running", 0)
    await uses(table, session_id, tokens=1_200)
    assert await table.state(command.id) == "pausing"
    assert table.wire.last("control.turn.pause").payload.reason == "budget turn is used up"
    approval = await question(table)
    assert (approval.door, approval.kind, approval.command_id) == ("command", "permission", command.id)
    assert (approval.budget.limit, approval.budget.used, approval.budget.raise_by) == ("1000", "1200", "1000")
    assert approval.rule == "budget:turn"
    await table.report_state(session_id, "paused")
    assert (await table.ledger.session(session_id)).state == "waiting_approval"  # type: ignore[union-attr]
    await uses(table, session_id, tokens=1_250)  # A usage frame that was in transit causes no second question.
    assert await pending(table) == 1
    await table.vote(approval.id, "grant")
    assert await table.state(command.id) == "resuming"
    assert table.wire.types()[-1] == "control.turn.resume"
    await table.report_state(session_id, "running", "paused")
    await uses(table, session_id, tokens=2_249)  # 1250 were used at the yes, and it gave 1000 more.
    assert await table.state(command.id) == "running"
    await uses(table, session_id, tokens=2_250)
    assert (await question(table)).budget.limit == "2250"
    raised = [msgspec.json.decode(one.body) for one in await table.ledger.audit("default", 0, 100)]
    (record,) = [one for one in raised if one["action"] == "policy_change"]
    assert (record["meta"]["from"], record["meta"]["to"], record["who"]["id"]) == (1_000, 2_250, "user:owner")


@pytest.mark.req("P-7", "W-2")
@pytest.mark.parametrize("how", ["denied", "expired"])
async def test_without_a_grant_the_command_is_canceled_and_the_runner_gets_the_code(how: str) -> None:
    table = table_with(TOKENS, approval_ttl_ms=3_600_000)
    command = await running(table)
    session_id = command.target.session_id
    await uses(table, session_id, tokens=1_000)
    await table.report_state(session_id, "paused")
    if how == "denied":
        await table.vote((await question(table)).id, "deny")
    else:
        await time_passes(table, session_id, 3_600_000)
    assert table.wire.last("session.error").payload.error_code == "BUDGET_EXCEEDED"
    assert table.wire.last("session.error").payload.fatal is False
    assert (table.wire.types()[-1], await table.state(command.id)) == ("control.turn.cancel", "canceling")
    await table.ended(session_id, "cancelled")
    record = await table.ledger.command(command.id, "default")
    assert record is not None
    assert record.command.error is not None
    assert (record.command.state, record.command.error.code) == ("canceled", "QuotaExceeded")
    assert await pending(table) == 0
    again = await table.execute(target=Target(session_id=session_id))
    assert await table.state(again.id) == "dispatched"  # The next turn has its own tokens.


@pytest.mark.req("P-7")
async def test_a_budget_pause_cannot_be_resumed_and_has_no_pause_timeout() -> None:
    table = table_with(TOKENS, pause_ttl_ms=1_000)
    command = await running(table)
    session_id = command.target.session_id
    await uses(table, session_id, tokens=1_000)
    await table.report_state(session_id, "paused")
    with pytest.raises(Problem) as refused:
        await table.order("resume", command.id)
    assert (refused.value.code, "budget turn" in str(refused.value)) == ("ApprovalRequired", True)
    await time_passes(table, session_id, 10_000)
    assert await table.state(command.id) == "paused"
    with pytest.raises(Problem, match="remember"):
        await table.engine.vote(OWNER, (await question(table)).id, GrantBody(
            decision="grant", remember=Remembering(scope="rule")), remember)


@pytest.mark.req("P-7", "C-6")
async def test_the_next_grant_is_held_if_the_agent_cannot_pause() -> None:
    table = table_with(TOKENS)
    command = await running(table, pause="none")
    session_id = command.target.session_id
    await uses(table, session_id, tokens=1_000)
    assert await table.state(command.id) == "running"
    assert "control.turn.pause" not in table.wire.types()
    budget = await question(table)
    await table.asked(session_id)
    tool = next(one.approval for one in await table.ledger.approvals("default", "pending", None, 10)
                if one.approval.door == "tool")
    await table.vote(tool.id, "grant")
    assert "control.interaction.response" not in table.wire.types()
    assert table.wire.last("x-interlock.interaction.held").payload.approval_id == budget.id
    await time_passes(table, session_id, 120_000)  # Its timeout of a minute is paused while it waits for a person.
    assert await table.state(command.id) == "running"
    table.begin()  # A gateway that starts again holds it still.
    await table.reattach(session_id, 100)
    assert "control.interaction.response" not in table.wire.types()
    await table.vote(budget.id, "grant")
    assert table.wire.last("control.interaction.response").payload.decision == "allow"
    await table.resolved(session_id, "allowed")
    await table.result(session_id)
    await table.ended(session_id)
    assert await table.state(command.id) == "succeeded"


@pytest.mark.req("P-7")
async def test_the_cost_of_a_summary_between_turns_counts_for_the_day() -> None:
    table = table_with(DAILY)
    command = await running(table)
    session_id = command.target.session_id
    await table.send(session_id, "session.turn.end", p.TurnEnd(turn_id="t1", stop_reason="end_turn"))
    await uses(table, session_id, usd=0.5)
    await uses(table, session_id, tokens=70, usd=1.25, turn_id=None)
    assert table.wire.last("session.usage").payload.cost_usage.used == 1.25
    following = await table.execute(target=Target(session_id=session_id))
    assert (await question(table)).budget.used == "1.25"
    assert await table.state(following.id) == "queued"


@pytest.mark.req("P-7")
async def test_a_spent_daily_budget_holds_the_next_prompt_across_a_restart() -> None:
    table = table_with(DAILY)
    command = await running(table)
    session_id = command.target.session_id
    await table.send(session_id, "session.turn.end", p.TurnEnd(turn_id="t1", stop_reason="end_turn"))
    await uses(table, session_id, usd=1.25)
    assert await table.state(command.id) == "succeeded"
    usage = table.wire.last("session.usage").payload
    assert (usage.cost_usage.limit, usage.cost_usage.used, usage.cost_usage.unit) == (1.0, 1.25, "USD")
    assert usage.time_to_reset == "2027-01-16T00:00:00.000Z"
    table.begin()
    await table.engine.start()
    await table.reattach(session_id, 100)
    waiting = await table.execute(target=Target(session_id=session_id))
    assert (await table.state(waiting.id), (await question(table)).command_id) == ("queued", waiting.id)
    (budget,) = table.engine.budgets("default")
    assert (budget.pots[0].used_usd, budget.pots[0].limit_usd) == ("1.25", "1.00")
    await table.vote((await question(table)).id, "grant")
    assert await table.state(waiting.id) == "dispatched"
    (budget,) = table.engine.budgets("default")
    assert (budget.pots[0].limit_usd, budget.pots[0].raised_usd) == ("2.25", "1.25")
    table.begin()
    await table.engine.start()
    assert table.engine.budgets("default") == [budget]
    assert table.engine.budgets("other")[0].pots[0].used_usd == "0.00"


@pytest.mark.req("P-7")
async def test_a_queued_prompt_ends_as_quota_exceeded_after_a_denial() -> None:
    table = table_with(DAILY)
    command = await running(table)
    session_id = command.target.session_id
    await uses(table, session_id, usd=2.0)
    waiting = await table.execute(target=Target(agent_id="shell"))
    first, second = sorted([one.approval for one in await table.ledger.approvals("default", "pending", None, 10)],
                           key=lambda one: str(one.command_id))
    assert (first.command_id, second.command_id) == (command.id, waiting.id)
    await table.vote(second.id, "deny")
    record = await table.ledger.command(waiting.id, "default")
    assert (record.command.state, record.command.error.code) == ("canceled", "QuotaExceeded")  # type: ignore[union-attr]
    assert await table.state(command.id) == "pausing"  # Another session's no is not this one's.


@pytest.mark.req("P-7")
async def test_sessions_that_share_a_pot_stop_and_continue_together() -> None:
    table = table_with(DAILY)
    one, two = await running(table), await running(table)
    await uses(table, one.target.session_id, usd=0.6)
    await uses(table, two.target.session_id, usd=0.6)
    await settle(table, one.target.session_id)
    assert [await table.state(command.id) for command in (one, two)] == ["pausing", "pausing"]
    asked = {record.approval.command_id: record.approval
             for record in await table.ledger.approvals("default", "pending", None, 10)}
    await table.vote(asked[one.id].id, "grant")
    await settle(table, two.target.session_id)
    assert [await table.state(command.id) for command in (one, two)] == ["running", "running"]
    assert await pending(table) == 0
    record = await table.ledger.approval(asked[two.id].id, "default")
    assert record is not None
    assert record.approval.state == "void"


@pytest.mark.req("P-7")
async def test_a_daily_budget_starts_again_at_midnight_utc() -> None:
    table = table_with(DAILY)
    table.clock.at_ms = 20_000 * DAY_MS - 1  # The last millisecond of a day.
    command = await running(table)
    session_id = command.target.session_id
    await uses(table, session_id, usd=1.0)
    await table.report_state(session_id, "paused")
    shell = await table.lane(session_id)
    assert shell.lane.deadline_ms() == 20_000 * DAY_MS
    await time_passes(table, session_id, 0)
    assert (await table.state(command.id), await pending(table)) == ("paused", 1)
    await time_passes(table, session_id, 1)
    assert (await table.state(command.id), await pending(table)) == ("resuming", 0)
    await table.report_state(session_id, "running", "paused")
    await uses(table, session_id, usd=1.9)  # 0.9 of it is the new day's.
    assert await table.state(command.id) == "running"
    (budget,) = table.engine.budgets("default")
    assert [pot.used_usd for pot in budget.pots] == ["0.90"]
    assert [record.spent_micros for record in await table.ledger.spending(19_999)] == [1_000_000]


@pytest.mark.req("P-7")
async def test_a_restarted_running_total_is_counted_whole_and_an_unknown_one_ignored() -> None:
    table = table_with(BudgetRule(name="each", usd_per_day="10", each="session"))
    command = await running(table)
    session_id = command.target.session_id
    for usd in (0.5, 0.5, 0.7, 0.2):  # The runner lost its outbox after 0.7.
        await uses(table, session_id, usd=usd)
    await uses(table, session_id, usd=0.0, estimated=True)
    (budget,) = table.engine.budgets("default")
    assert [(pot.scope, pot.used_usd) for pot in budget.pots] == [(session_id, "0.90")]


@pytest.mark.req("P-7")
async def test_a_budget_covers_its_principals_and_a_changed_config_applies_immediately() -> None:
    elsewhere = BudgetRule(name="other", agent="claude*", session="agent:claude:*", tokens_per_turn=1)
    table = table_with(elsewhere, TOKENS)
    command = await running(table)
    session_id = command.target.session_id
    await uses(table, session_id, tokens=1_000)
    await table.report_state(session_id, "paused")
    table.engine.configure(table.policy, Limits(budgets=(elsewhere, BudgetRule(name="turn", tokens_per_turn=5_000))))
    await settle(table, session_id)
    assert (await table.state(command.id), await pending(table)) == ("resuming", 0)


@pytest.mark.req("P-7")
async def test_a_turn_that_ends_by_itself_leaves_no_open_question() -> None:
    table = table_with(TOKENS)
    command = await running(table, pause="none")
    session_id = command.target.session_id
    await uses(table, session_id, tokens=1_000)
    assert await pending(table) == 1
    await table.ended(session_id)
    assert (await table.state(command.id), await pending(table)) == ("succeeded", 0)


@pytest.mark.req("P-7")
async def test_a_refused_pause_holds_the_next_grant_instead() -> None:
    table = table_with(TOKENS)
    command = await running(table)
    session_id = command.target.session_id
    await uses(table, session_id, tokens=1_000)
    await table.send(session_id, "session.error", p.SessionError(
        error_code="UNSUPPORTED_CAPABILITY", message="no", fatal=False),
        in_reply_to=table.wire.last("control.turn.pause").message_id)
    assert await table.state(command.id) == "running"
    await table.asked(session_id)
    tool = next(one.approval for one in await table.ledger.approvals("default", "pending", None, 10)
                if one.approval.door == "tool")
    await table.vote(tool.id, "grant")
    assert "control.interaction.response" not in table.wire.types()


@pytest.mark.req("P-7", "P-3")
async def test_a_budget_is_raised_by_its_quorum_of_its_groups() -> None:
    table = table_with(BudgetRule(name="turn", tokens_per_turn=1_000, required=2, groups=[QuorumGroup(role="admin")],
                                  ttl="15m"))
    command = await running(table)
    session_id = command.target.session_id
    await uses(table, session_id, tokens=1_000)
    asked = await question(table)
    assert (asked.required, [(group.role, group.min) for group in asked.groups]) == (2, [("admin", 1)])
    await table.vote(asked.id, "grant")
    kim, ada = (msgspec.structs.replace(OWNER, actor=Actor(type="user", id=name), role=role)
                for name, role in (("kim", "approver"), ("ada", "admin")))
    await table.vote(asked.id, "grant", kim)
    assert (await table.state(command.id), await pending(table)) == ("pausing", 1)
    await table.vote(asked.id, "grant", ada)
    assert (await table.state(command.id), await pending(table)) == ("running", 0)


@pytest.mark.req("P-7", "P-6")
async def test_a_budgets_question_has_the_timeout_of_its_budget() -> None:
    table = table_with(BudgetRule(name="turn", tokens_per_turn=1_000, ttl="15m"))
    command = await running(table)
    await uses(table, command.target.session_id, tokens=1_000)
    await time_passes(table, command.target.session_id, 15 * 60_000 - 1)
    assert await pending(table) == 1
    await time_passes(table, command.target.session_id, 1)
    assert (await pending(table), await table.state(command.id)) == (0, "canceling")


@pytest.mark.req("P-7", "C-6")
async def test_a_raised_budget_does_not_end_a_persons_pause() -> None:
    table = table_with(TOKENS)
    command = await running(table)
    session_id = command.target.session_id
    await uses(table, session_id, tokens=1_000)
    budget = await question(table)
    pause = table.wire.last("control.turn.pause")
    await table.send(session_id, "session.error", p.SessionError(
        error_code="UNSUPPORTED_CAPABILITY", message="not now", fatal=False), in_reply_to=pause.message_id)
    assert await table.state(command.id) == "running"
    await table.asked(session_id)
    tool = next(record.approval for record in await table.ledger.approvals("default", "pending", None, 10)
                if record.approval.door == "tool")
    await table.vote(tool.id, "grant")  # It is held: the budget's question takes precedence.
    await table.order("pause", command.id)
    await table.report_state(session_id, "paused")
    await table.vote(budget.id, "grant")
    assert await table.state(command.id) == "paused"
    assert "control.turn.resume" not in table.wire.types()
    await table.order("resume", command.id)
    await table.report_state(session_id, "running", "paused")
    assert await table.state(command.id) == "running"


@pytest.mark.req("P-7")
@pytest.mark.parametrize(("tokens", "noticed"), [(1_000, []), (1_001, ["BudgetOverrun"])])
async def test_a_turn_whose_tokens_are_reported_at_its_end_has_a_notice(tokens: int, noticed: list[str]) -> None:
    table = table_with(TOKENS)
    command = await running(table)
    session_id = command.target.session_id
    await table.send(session_id, "session.turn.end", p.TurnEnd(
        turn_id="t1", stop_reason="end_turn", tool_invocation_count=0))
    await uses(table, session_id, tokens=tokens)
    assert (await table.state(command.id), await pending(table)) == ("succeeded", 0)
    ended = (await table.ledger.command(command.id, "default")).command
    assert [notice.code for notice in ended.notices] == noticed
