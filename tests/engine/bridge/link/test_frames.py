"""Effects of a runner's frames on a session's command and its turns, row by row (C-8)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engine.bridge.steps import command_running, ended, restarted, running, shown
from engine.conversation import OWNER, Table, remember, turn_uuid
from engine.within import Within
from interlock.command.policy.budget import BudgetRule
from interlock.command.policy.policy import Rule, RuleSet
from interlock.engine.bridge.inputs.gateway import ClockTicked
from interlock.engine.bridge.inputs.runner import InvalidFrameReceived
from interlock.engine.bridge.lane_state import LaneState, Limits
from interlock.engine.bridge.link.ledger_restore import reconcile
from interlock.protocol import payloads as p
from interlock.protocol.codes import Code
from interlock.protocol.envelope import Wire
from interlock.protocol.limits import CANCEL_FORCE_MS
from interlock.protocol.resources import Target

pytestmark = pytest.mark.anyio
BUSY = p.SessionError(error_code="PROMPT_IN_PROGRESS", message="The session already works.", fatal=False)
TURN = "11111111-1111-4111-8111-111111111111"


@pytest.mark.req("T-4", "E-1")
async def test_a_frame_of_no_open_turn_is_refused_recorded_and_changes_nothing() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.send(session_id, "agent.text.done", p.TextDone(turn_id="old", block_id="b", text="late"))
    error = table.wire.last("session.error").payload
    assert error.error_code == "UNKNOWN_TURN"
    events = await table.ledger.events("default", f"s/{session_id}", 0, 100)
    assert [event.kind for event in events].count("refused") == 1
    assert await table.state(command.id) == "dispatched"


@pytest.mark.req("A-4", "C-8")
async def test_capabilities_that_cross_a_close_do_not_open_the_session_again() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await table.execute("two", target=Target(session_id=session_id))
    await table.cancel(command.id)
    table.clock.advance(CANCEL_FORCE_MS)
    await (await table.lane(session_id)).call(ClockTicked())
    assert await table.state(command.id) == "canceled"
    await table.opened(session_id)  # the agent was slow to start
    assert table.wire.types().count("control.prompt.request") == 1
    await table.send(session_id, "session.closed", p.SessionClosed(reason="the cancel was not obeyed"))
    assert table.wire.types()[-2:] == ["control.session.open", "control.prompt.request"]


@pytest.mark.req("E-1", "T-3")
@pytest.mark.parametrize("exit_code", [True, 10**40, -(10**20), "1", [], 1.5])
async def test_an_exit_code_of_the_wrong_type_is_omitted(exit_code: Any) -> None:
    table = Table()
    command_id, session_id = await running(table)
    await table.ended(session_id, exit_code=exit_code)
    record = await table.ledger.command(command_id, "default")
    assert record.command.result.output.exit_code is None  # type: ignore[union-attr]
    row = await table.ledger.session(session_id)
    assert msgspec.json.decode(row.machine, type=LaneState).session_id == session_id  # type: ignore[union-attr]


@pytest.mark.req("E-1", "T-4")
async def test_a_refusal_of_a_frame_with_very_long_names_fits_a_frame() -> None:
    table = Table()
    _, session_id = await running(table)
    shell = await table.lane(session_id)
    wire = Wire("x" * 500_000, msgspec.Raw(b"null"), "m", session_id, shell.lane.state.last_seq + 1)
    await shell.call(InvalidFrameReceived(shell.lane.state.last_seq, wire, b"{}", Code.INVALID_FRAME,
                                          f"{wire.type}: $.payload: is missing"))
    error = table.wire.last("session.error").payload
    assert error.error_code == "INVALID_FRAME"
    assert len(error.message) < 2_000


@pytest.mark.req("C-8")
@pytest.mark.req("T-1")
async def test_a_turn_without_a_prompt_id_belongs_to_the_sent_prompt() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.send(session_id, "session.turn.start", p.TurnStart(turn_id=TURN, turn_index=0))
    assert await ended(table, command) == ("running", None)
    await table.asked(session_id, turn_id=TURN)
    asked = await table.ledger.approvals("default", "pending", None, 10)
    assert [record.approval.command_id for record in asked] == [command.id]
    await table.ended(session_id, turn_id=TURN)
    assert await ended(table, command) == ("succeeded", None)


@pytest.mark.req("C-8")
@pytest.mark.req("T-1")
async def test_a_refusal_of_the_only_prompt_needs_no_in_reply_to() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.send(session_id, "session.turn.start", p.TurnStart(turn_id=TURN, turn_index=0), prompt_id="")
    await table.send(session_id, "session.error", BUSY)
    assert await ended(table, command) == ("queued", None)
    await table.ended(session_id, "cancelled", turn_id=TURN)
    assert await ended(table, command) == ("dispatched", None)


@pytest.mark.req("C-8")
@pytest.mark.req("T-1")
@pytest.mark.parametrize("named", [True, False])
async def test_a_command_fails_if_the_turn_without_a_prompt_id_was_the_agents_own(named: bool) -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    reply = {"in_reply_to": table.wire.last("control.prompt.request").message_id} if named else {}
    await table.send(session_id, "session.turn.start", p.TurnStart(turn_id=TURN, turn_index=0))
    await table.send(session_id, "session.error", BUSY, **reply)
    assert await ended(table, command) == ("failed", "PROMPT_IN_PROGRESS")
    assert table.wire.types()[-1] == "control.turn.cancel"
    await table.ended(session_id, "cancelled", turn_id=TURN)
    assert await ended(table, command) == ("failed", "PROMPT_IN_PROGRESS")


@pytest.mark.req("C-8")
@pytest.mark.parametrize(("stop_reason", "meta", "state", "code", "notices"), [
    ("end_turn", {}, "succeeded", None, []),
    ("end_turn", {"unanswered": True}, "failed", "AgentExited", []),
    ("max_tokens", {}, "succeeded", None, ["Truncated"]),
    ("awaiting_input", {}, "succeeded", None, []),
    ("cancelled", {}, "canceled", "Canceled", []),
    ("cancelled", {"timed_out": True}, "timed_out", "Timeout", []),
    ("error", {}, "failed", "MODEL_OVERLOADED", []),
])
async def test_the_end_of_a_turn_ends_its_command(
    stop_reason: str, meta: dict[str, Any], state: str, code: str | None, notices: list[str]
) -> None:
    table = Table()
    command, session_id = await command_running(table)
    await table.send(session_id, "agent.text.done", p.TextDone(turn_id="t1", block_id="b1", text="so far"))
    if stop_reason == "error":
        await table.send(session_id, "agent.error", p.AgentError(
            severity="error", error_code="MODEL_OVERLOADED", message="try later", turn_id="t1"))
    await table.ended(session_id, stop_reason, **meta)
    assert await ended(table, command) == (state, code)
    record = await table.ledger.command(command.id, "default")
    assert record is not None
    assert record.command.result is not None
    output = record.command.result.output
    assert (record.command.result.ok, output.session_id) == (state == "succeeded", session_id)
    assert output.output[0]["content"][0]["value"] == "so far"
    assert [notice.code for notice in output.notices] == notices
    assert output.awaiting_input is (stop_reason == "awaiting_input")


@pytest.mark.req("C-8")
async def test_a_query_runs_until_its_last_turn_with_one_timeout() -> None:
    table = Table(timeout_ms=10_000)
    command, session_id = await command_running(table)
    prompt_id = table.wire.last("control.prompt.request").payload.prompt_id
    for number in (1, 2):
        table.clock.advance(4_000)
        await table.ended(session_id, "tool_use", f"t{number}")
        assert await ended(table, command) == ("running", None)
        await table.send(session_id, "session.turn.start", p.TurnStart(turn_id=f"t{number + 1}", turn_index=number),
                         prompt_id=prompt_id)
    record = await table.ledger.command(command.id, "default")
    assert record is not None
    assert record.command.turn_id == turn_uuid("t3")
    table.clock.advance(2_000)
    await (await table.lane(session_id)).call(ClockTicked())
    assert table.wire.last("control.turn.cancel").payload.turn_id == turn_uuid("t3")
    await table.ended(session_id, "cancelled", "t3")
    assert await ended(table, command) == ("timed_out", "Timeout")
    record = await table.ledger.command(command.id, "default")
    assert record is not None
    assert record.command.error is not None
    assert record.command.error.message == "it did not end within 10 s"


@pytest.mark.req("C-8")
@pytest.mark.parametrize("code", ["PROCESS_EXIT", None])
async def test_a_session_closed_in_mid_turn_fails_its_command_with_the_agents_code(code: str | None) -> None:
    table = Table()
    command, session_id = await command_running(table)
    if code is not None:
        await table.send(session_id, "agent.error", p.AgentError(
            severity="fatal", error_code=code, message="exit code 3", turn_id="t1"))
    await table.ended(session_id, "error")
    await table.send(session_id, "session.closed", p.SessionClosed(reason="its agent is gone"))
    assert await ended(table, command) == ("failed", code or "INTERNAL")


@pytest.mark.req("C-8")
@pytest.mark.req("D-6", "C-7", "C-6")
@pytest.mark.parametrize("moment", ["running", "pausing", "paused", "resuming"])
async def test_a_runners_own_restart_fails_running_and_paused_turns(moment: str) -> None:
    table = Table()
    command, session_id = await command_running(table)
    orders = []
    if moment != "running":
        orders.append(await table.order("pause", command.id))
    if moment in ("paused", "resuming"):
        await table.report_state(session_id, "paused")
    if moment == "resuming":
        orders.append(await table.order("resume", command.id))
    assert await ended(table, command) == (moment, None)
    await restarted(table, session_id)
    assert await ended(table, command) == ("failed", "RUNNER_RESTARTED")
    open_orders = {"pausing": 1, "resuming": 1}.get(moment, 0)
    states = [await table.state(order.id) for order in orders]
    assert states == ["succeeded"] * (len(orders) - open_orders) + ["failed"] * open_orders
    # Nothing of it is left: no timer fires, and the session accepts the next command.
    table.clock.advance(table.limits.pause_ttl_ms + table.limits.timeout_ms)
    await (await table.lane(session_id)).call(ClockTicked())
    following = await table.execute("again", target=Target(session_id=session_id))
    assert table.wire.types()[-2:] == ["control.session.open", "control.prompt.request"]
    assert await ended(table, following) == ("dispatched", None)


@pytest.mark.req("C-8")
async def test_max_tokens_is_a_success_marked_as_truncated() -> None:
    table = Table()
    command_id, session_id = await running(table)
    await table.ended(session_id, "max_tokens")
    command = await shown(table, command_id)
    assert (command.state, [notice.code for notice in command.result.output.notices]) == ("succeeded", ["Truncated"])


@pytest.mark.req("C-8")
async def test_awaiting_input_is_a_marked_success_and_the_next_execute_answers_it() -> None:
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
async def test_an_agent_that_exits_without_an_answer_fails_despite_a_normal_turn_end() -> None:
    table = Table()
    command_id, session_id = await running(table)
    await table.ended(session_id, "end_turn", unanswered=True)
    command = await shown(table, command_id)
    assert (command.state, command.error.code, command.result.ok) == ("failed", "AgentExited", False)


async def asks(table: Table, session_id: str, kind: Any = "PERMISSION") -> str:
    """The agent asks; the approval's id."""
    await table.send(session_id, "agent.interaction.request", p.InteractionRequest(
        interaction_id="x-i1", interaction_type=kind, title="rm", context=p.InteractionContext(tool_name="shell")))
    return next(one.approval.id for one in await table.ledger.approvals("default", "pending", None, 10)
                if one.approval.door == "tool")


async def breaches(table: Table) -> list[dict[str, Any]]:
    """The audit records of tools that ran without a yes."""
    records = [msgspec.json.decode(record.body) for record in await table.ledger.audit("default", 0, 1_000)]
    return [record for record in records if record["action"] == "ran_unasked"]


async def expired(table: Table, session_id: str) -> None:
    table.clock.advance(24 * 3_600_000 + 1)
    await (await table.lane(session_id)).call(ClockTicked())


@pytest.mark.req("P-2", "P-5", "H-12")
@pytest.mark.parametrize(("kind", "state"), [
    ("PERMISSION", "pending"), ("PERMISSION", "denied"), ("PERMISSION", "expired"), ("PERMISSION", "restarted"),
    ("QUESTION", "pending"), ("QUESTION", "denied")])
async def test_a_runner_that_reports_a_yes_it_was_not_sent_fails_the_command(kind: Any, state: str) -> None:
    table = Table()
    command, session_id = await command_running(table)
    approval_id = await asks(table, session_id, kind)
    if state == "denied" and kind == "QUESTION":
        await table.engine.answer(OWNER, approval_id, None, remember)
    elif state == "denied":
        await table.vote(approval_id, "deny")
    elif state == "expired":
        await expired(table, session_id)
    elif state == "restarted":
        await table.restart()
        await table.reattach(session_id, 100)
    await table.resolved(session_id, "allowed")

    (breach,) = await breaches(table)
    assert (breach["approval_id"], breach["command_id"], breach["who"]["role"]) == (approval_id, command.id, "runner")
    assert (breach["meta"]["code"], breach["meta"]["interaction"]) == ("RAN_UNASKED", "x-i1")
    assert await table.has_notice(session_id, "RanUnasked", approval_id)
    assert table.wire.last("control.turn.cancel").payload.reason == "RAN_UNASKED"
    record = await table.ledger.approval(approval_id, "default")
    assert record is not None
    assert record.approval.state == (state if state in ("denied", "expired") else "void")
    await table.ended(session_id, "cancelled")
    assert await ended(table, command) == ("failed", "RAN_UNASKED")
    assert (await table.execute("more", target=Target(session_id=session_id))).state == "pending_approval"


@pytest.mark.req("P-1", "P-2", "H-12")
@pytest.mark.parametrize(("effect", "found"), [("allow", []), ("deny", [None])])
async def test_a_yes_to_what_policy_decides_is_a_breach_only_after_a_denial(effect: Any, found: list[None]) -> None:
    table = Table(RuleSet([Rule(name="tools", door="tool", effect=effect)]))
    _, session_id = await running(table)
    await table.asked(session_id)
    await table.resolved(session_id, "allowed")
    assert [record.get("approval_id") for record in await breaches(table)] == found


@pytest.mark.req("P-7", "P-2")
async def test_a_yes_that_a_budget_still_holds_was_not_sent() -> None:
    table = Table()
    table.limits = Limits(timeout_ms=60_000, budgets=(BudgetRule(name="turn", tokens_per_turn=1_000),))
    table.begin()
    _, session_id = await running(table)
    await table.send(session_id, "session.usage", p.Usage(
        turn_id="t1", token_usage=p.TokenUsage(input_tokens=1_000, output_tokens=0),
        cost_usage=p.Quota(limit=-1, used=0, unit="USD"), message_usage=p.MessageQuota(limit=-1, used=1, unit="COUNT"),
        context_window=p.ContextWindow(), time_to_reset="2026-12-01T00:00:00.000Z"))
    approval_id = await asks(table, session_id)
    await table.vote(approval_id, "grant")
    assert "control.interaction.response" not in table.wire.types()
    await table.resolved(session_id, "allowed")
    assert [record["approval_id"] for record in await breaches(table)] == [approval_id]


@pytest.mark.req("P-2", "P-6", "D-5", "H-12")
@pytest.mark.parametrize("race", [
    "granted", "granted, then canceled", "granted, then restarted", "answered in words", "canceled", "expired",
    "denied by the runner", "repeated", "another gateway", "lost commits"])
async def test_a_report_that_crosses_a_decision_is_no_breach(race: str) -> None:
    table = Table()
    command, session_id = await command_running(table)
    approval_id = await asks(table, session_id, "QUESTION" if race == "answered in words" else "PERMISSION")
    outcome: Any = "allowed"
    if race.startswith("granted") or race == "repeated":
        await table.vote(approval_id, "grant")
    if race == "answered in words":
        await table.engine.answer(OWNER, approval_id, "main", remember)
    elif race == "granted, then restarted":
        await table.restart()
        await table.reattach(session_id, 100)
    elif race in ("granted, then canceled", "canceled"):
        await table.cancel(command.id)
        outcome = "void" if race == "canceled" else "allowed"
    elif race == "expired":
        await expired(table, session_id)
        outcome = "expired"
    elif race == "denied by the runner":  # Before the gateway's `held` arrived.
        outcome = "denied"
    elif race == "repeated":
        await table.resolved(session_id, "allowed")
    elif race == "another gateway":
        await table.send(session_id, "x-interlock.control.changed", p.ControlChanged(gateway_id="g2"))
    elif race == "lost commits":  # The yes was sent, and the restored ledger does not have it (D-5).
        shell = await table.lane(session_id)
        seen = p.HelloSession(session_id=session_id, state="waiting_approval", turn_id=turn_uuid("t1"),
                              last_seq_sent=shell.lane.state.last_seq, acked_seq=shell.lane.state.last_seq,
                              control_seq=shell.lane.state.control_seq + 1)
        await shell.call(Within(lambda lane: reconcile(lane, seen)))
    await table.resolved(session_id, outcome)
    assert await breaches(table) == []
    assert not await table.has_notice(session_id, "RanUnasked")
    assert "RAN_UNASKED" not in [sent.payload.reason for sent in table.wire.sent
                                 if isinstance(sent.payload, p.TurnCancel)]
