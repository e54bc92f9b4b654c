"""How a command and its session's turns meet (C-8), read as the conversation with the runner."""

from __future__ import annotations

import msgspec
import pytest

from engine.conversation import OWNER, USAGE, Table, turn_uuid
from interlock.command.policy import Rule, RuleSet
from interlock.engine.bridge.inputs.gateway import ClockTicked
from interlock.engine.bridge.inputs.runner import AgentVouched, RunnerDetached
from interlock.protocol import payloads as p
from interlock.protocol.problems import Problem
from interlock.protocol.resources import Actor, Target

pytestmark = pytest.mark.anyio


@pytest.mark.req("C-0", "C-8", "X-5", "U-1")
async def test_a_command_becomes_a_prompt_and_the_turns_end_its_result() -> None:
    table = Table()
    command = await table.execute("say hi")
    assert command.state == "queued"
    session_id = command.target.session_id
    assert table.wire.types() == ["control.session.open", "control.prompt.request"]
    assert await table.state(command.id) == "dispatched"
    await table.opened(session_id)
    await table.started(session_id)
    assert await table.state(command.id) == "running"
    await table.say(session_id, "agent.text.done", p.TextDone(turn_id="t1", block_id="b1", text="hi"))
    await table.ended(session_id, exit_code=0)
    record = await table.ledger.command(command.id)
    assert record is not None
    assert record.command.state == "succeeded"
    assert record.command.result is not None
    assert record.command.result.output.output == [
        {"role": "assistant", "content": [{"contentType": "text", "value": "hi"}]}
    ]
    assert record.command.result.output.exit_code == 0
    assert table.wire.acks[session_id] == 5
    assert await table.actions() == ["enqueue", "dispatch", "start", "complete"]


@pytest.mark.req("P-5", "A-5", "P-2", "C-1")
async def test_a_tool_call_is_held_until_a_person_says_yes() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    await table.asked(session_id, "rm -r build")
    held = table.wire.last("x-interlock.interaction.held").payload
    assert "control.interaction.response" not in table.wire.types()
    approval = (await table.ledger.approval(held.approval_id)).approval  # type: ignore[union-attr]
    assert (approval.door, approval.state, approval.tool_name) == ("tool", "pending", "shell")
    assert bytes(approval.input) == b'{"command":"rm -r build"}'
    table.clock.advance(10 * 60_000)  # the timeout of one minute stands while a person is asked
    await table.vote(approval.id, "grant")
    answer = table.wire.last("control.interaction.response").payload
    assert (answer.decision, answer.by) == ("allow", "user:owner")
    await table.resolved(session_id, "allowed")
    assert (await table.ledger.approval(approval.id)).approval.state == "consumed"  # type: ignore[union-attr]
    await table.result(session_id)
    await table.ended(session_id)
    assert await table.state(command.id) == "succeeded"
    assert await table.actions() == ["enqueue", "dispatch", "start", "tool_call", "vote", "approve", "tool_call",
                                     "complete"]


@pytest.mark.req("P-3", "P-5")
async def test_a_no_is_a_no_and_a_second_vote_is_refused_with_who_decided() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    await table.asked(session_id)
    approval_id = table.wire.last("x-interlock.interaction.held").payload.approval_id
    await table.vote(approval_id, "deny")
    assert table.wire.last("control.interaction.response").payload.decision == "deny"
    again = await table.vote(approval_id, "deny")
    assert again.state == "denied"
    other = msgspec.structs.replace(OWNER, actor=Actor(type="user", id="second"))
    with pytest.raises(Problem, match="already denied by user:owner"):
        await table.vote(approval_id, "grant", other)


@pytest.mark.req("P-1", "A-10", "C-0")
async def test_a_command_for_an_agent_that_never_asks_waits_for_its_own_yes() -> None:
    table = Table(permission="never")
    command = await table.execute()
    assert command.state == "pending_approval"
    assert table.wire.types() == []
    await table.vote(command.approval_id, "grant")
    assert await table.state(command.id) == "dispatched"
    await table.opened(command.target.session_id)
    await table.started(command.target.session_id)
    record = await table.ledger.command(command.id)
    assert [notice.code for notice in record.command.notices] == ["ToolsNotGated"]  # type: ignore[union-attr]


@pytest.mark.req("P-1", "G-1")
async def test_a_policy_that_is_taken_anew_decides_the_next_command() -> None:
    table = Table()
    await table.execute()
    table.engine.configure(RuleSet([Rule(name="stop", door="command", effect="deny", reason="not today")]),
                           table.limits)
    with pytest.raises(Problem, match="policy rule stop denies it: not today"):
        await table.execute()
    assert (await table.actions())[-1] == "reject"


@pytest.mark.req("P-1")
async def test_a_rule_on_cost_matches_once_the_session_has_cost_more() -> None:
    table = Table(RuleSet([Rule(name="dear", door="tool", cost_over=0.5, effect="deny", reason="too dear")]))
    session_id = ""
    answers: list[str] = []
    for number in range(2):
        target = Target(session_id=session_id) if session_id else Target(agent_id="shell")
        command = await table.execute(target=target)
        session_id = command.target.session_id
        if not number:
            await table.opened(session_id)
        turn_id = f"t{number}"
        await table.started(session_id, turn_id)
        await table.asked(session_id, turn_id=turn_id, invocation=f"i{number}")
        answers.append(table.wire.types()[-1])
        await table.resolved(session_id, "denied", f"i{number}")
        await table.result(session_id, status="denied", invocation=f"i{number}")
        await table.say(session_id, "session.turn.end", p.TurnEnd(turn_id=turn_id, stop_reason="end_turn"))
        await table.say(session_id, "session.usage",
                        msgspec.structs.replace(USAGE, cost_usage=p.Quota(limit=-1, used=0.75, unit="USD")))
    assert answers == ["x-interlock.interaction.held", "control.interaction.response"]


@pytest.mark.req("C-0", "P-1")
async def test_a_denied_command_is_rejected_and_never_sent() -> None:
    table = Table(permission="never")
    command = await table.execute()
    await table.vote(command.approval_id, "deny")
    assert await table.state(command.id) == "rejected"
    assert table.wire.types() == []


@pytest.mark.req("C-1", "C-8")
async def test_a_timeout_cancels_the_turn_and_ends_as_timed_out() -> None:
    table = Table(timeout_ms=1_000)
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    shell = await table.lane(session_id)
    table.clock.advance(1_001)

    await shell.call(ClockTicked())
    assert await table.state(command.id) == "canceling"
    assert table.wire.last("control.turn.cancel").payload.turn_id == turn_uuid("t1")
    await table.ended(session_id, "cancelled")
    assert await table.state(command.id) == "timed_out"


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
async def test_a_turn_that_is_cancelled_without_being_asked_to_cancels_its_command() -> None:
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


@pytest.mark.req("C-8", "T-1")
@pytest.mark.parametrize(("code", "state", "sent"), [("RUNNER_RESTARTED", "dispatched", 2), ("INTERNAL", "failed", 1)])
async def test_a_refusal_before_the_start_is_sent_again_or_fails(code: str, state: str, sent: int) -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    prompt = table.wire.last("control.prompt.request")
    await table.say(session_id, "session.error", p.SessionError(error_code=code, message="no", fatal=False),
                    in_reply_to=prompt.message_id)
    assert await table.state(command.id) == state
    assert table.wire.types().count("control.prompt.request") == sent


@pytest.mark.req("C-8", "A-4")
@pytest.mark.parametrize("code", ["PROMPT_IN_PROGRESS", "SESSION_NOT_FOUND"])
async def test_a_prompt_that_crosses_an_agents_close_for_idleness_opens_it_again(code: str) -> None:
    table = Table()
    first = await table.execute("one")
    session_id = first.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    await table.ended(session_id)
    second = await table.execute("two", target=Target(session_id=session_id))
    prompt = table.wire.last("control.prompt.request")
    await table.say(session_id, "agent.error", p.AgentError(
        severity="fatal", error_code="SIGNAL_EXIT", message="ended by SIGTERM"), expected=True)
    await table.say(session_id, "session.closed", p.SessionClosed(reason="idle"))
    assert await table.state(second.id) == "dispatched"
    await table.say(session_id, "session.error", p.SessionError(error_code=code, message="crossed", fatal=False),
                    in_reply_to=prompt.message_id)
    assert table.wire.types()[-2:] == ["control.session.open", "control.prompt.request"]
    assert await table.state(second.id) == "dispatched"


@pytest.mark.req("C-8", "A-2")
async def test_an_agent_that_cannot_start_fails_its_command_with_its_own_words() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await table.say(session_id, "session.error", p.SessionError(
        error_code="AGENT_START_FAILED", message="goose: not found", fatal=True))
    await table.say(session_id, "session.closed", p.SessionClosed(reason="start failed"))
    record = await table.ledger.command(command.id)
    assert record.command.state == "failed"  # type: ignore[union-attr]
    assert record.command.error.message == "goose: not found"  # type: ignore[union-attr]


@pytest.mark.req("T-1", "C-3")
async def test_executes_of_one_session_wait_for_each_other_by_priority_then_age() -> None:
    table = Table()
    first = await table.execute("one")
    session_id = first.target.session_id
    await table.opened(session_id)
    target = Target(session_id=session_id)
    second = await table.execute("two", target=target)
    third = await table.execute("three", target=target, priority=5)
    await table.started(session_id)
    await table.ended(session_id)
    assert [await table.state(c.id) for c in (first, second, third)] == ["succeeded", "queued", "dispatched"]


@pytest.mark.req("T-4", "E-1")
async def test_a_frame_of_no_open_turn_is_refused_recorded_and_changes_nothing() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.say(session_id, "agent.text.done", p.TextDone(turn_id="old", block_id="b", text="late"))
    error = table.wire.last("session.error").payload
    assert error.error_code == "UNKNOWN_TURN"
    events = await table.ledger.events(f"s/{session_id}", 0, 100)
    assert [event.kind for event in events].count("refused") == 1
    assert await table.state(command.id) == "dispatched"


@pytest.mark.req("C-4", "D-7", "P-6")
async def test_after_kill_9_of_the_gateway_the_same_approval_is_still_answerable() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    await table.asked(session_id)
    approval_id = table.wire.last("x-interlock.interaction.held").payload.approval_id
    table.begin()  # nothing of the old process survives but the ledger
    await table.vote(approval_id, "grant")
    await table.reattach(session_id, control_seq=4)
    assert table.wire.types()[-1] == "control.interaction.response"
    await table.resolved(session_id, "allowed")
    await table.result(session_id)
    await table.ended(session_id)
    assert await table.state(command.id) == "succeeded"


@pytest.mark.req("C-7", "D-7")
async def test_control_frames_that_the_runner_does_not_have_are_sent_again_in_order() -> None:
    table = Table()
    command = await table.execute()
    table.begin()
    await table.reattach(command.target.session_id, control_seq=0)
    assert [(f.type, f.seq) for f in table.wire.sent] == [("control.session.open", 1), ("control.prompt.request", 2)]


@pytest.mark.req("D-7", "C-8")
@pytest.mark.parametrize(("runner_has", "ends"), [(1, "canceled"), (2, "canceling")])
async def test_a_cancel_takes_the_place_of_a_prompt_that_the_runner_does_not_have(runner_has: int, ends: str) -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id

    shell = await table.lane(session_id)
    await shell.call(RunnerDetached())
    await table.cancel(command.id)
    table.wire.sent.clear()
    await table.reattach(session_id, control_seq=runner_has)
    prompts = [frame for frame in table.wire.sent if frame.type == "control.prompt.request"]
    assert prompts == []
    await table.confirm(session_id, 3)
    assert await table.state(command.id) == ends


@pytest.mark.req("C-7")
async def test_losing_the_link_is_told_and_is_not_losing_the_agent() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)

    shell = await table.lane(session_id)
    await shell.call(RunnerDetached())
    assert await table.state(command.id) == "running"
    await table.reattach(session_id, control_seq=3)
    record = await table.ledger.command(command.id)
    assert [n.code for n in record.command.notices] == ["Detached", "Reattached"]  # type: ignore[union-attr]
    await shell.call(AgentVouched(False))
    assert await table.state(command.id) == "running"
    await shell.call(AgentVouched(False))
    assert await table.state(command.id) == "failed"
    assert (await table.ledger.command(command.id)).command.error.code == "AgentLost"  # type: ignore[union-attr]


@pytest.mark.req("P-6", "C-1")
async def test_an_approval_that_nobody_answers_expires_and_that_means_no() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    await table.asked(session_id)

    table.clock.advance(24 * 3_600_000 + 1)
    await (await table.lane(session_id)).call(ClockTicked())
    assert table.wire.types()[-1] == "control.interaction.timeout"


@pytest.mark.req("P-6", "T-3")
async def test_an_approval_whose_turn_is_over_becomes_void_and_a_late_vote_is_told_so() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    await table.asked(session_id)
    approval_id = table.wire.last("x-interlock.interaction.held").payload.approval_id
    await table.resolved(session_id, "void")
    await table.result(session_id, status="cancelled")
    await table.ended(session_id, "error")
    with pytest.raises(Problem, match="already void"):
        await table.vote(approval_id, "grant")
