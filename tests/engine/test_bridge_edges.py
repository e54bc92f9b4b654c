"""Odd moments between a command and its runner: nothing is stuck, doubled, lost, or run without its yes."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest

from engine.conversation import OWNER, Table, remember
from engine.within import Within
from interlock.command.policy import QuorumGroup, Rule, RuleSet
from interlock.engine import due_sessions
from interlock.engine.bridge.inputs.gateway import ClockTicked
from interlock.engine.bridge.inputs.runner import AgentVouched, RunnerAttached, RunnerDetached
from interlock.engine.bridge.lane_state import LaneState
from interlock.engine.bridge.losses import reach, report_truncation
from interlock.protocol import payloads as p
from interlock.protocol.limits import CANCEL_FORCE_MS
from interlock.protocol.problems import Problem
from interlock.protocol.records import Principal
from interlock.protocol.resources import Actor, GrantBody, Target

pytestmark = pytest.mark.anyio


async def running(table: Table) -> tuple[str, str]:
    """A command whose turn has started: its id and its session's."""
    command = await table.execute()
    await table.opened(command.target.session_id)
    await table.started(command.target.session_id)
    return command.id, command.target.session_id


def held(table: Table) -> str:
    return table.wire.last("x-interlock.interaction.held").payload.approval_id


def person(name: str, role: Any = "approver") -> Principal:
    return msgspec.structs.replace(OWNER, actor=Actor(type="user", id=name), role=role)


async def refused_prompt(table: Table, session_id: str, code: str) -> None:
    prompt = table.wire.last("control.prompt.request")
    await table.say(session_id, "session.error", p.SessionError(error_code=code, message="no", fatal=False),
                    in_reply_to=prompt.message_id)


# --- what a runner refuses before a start ---
@pytest.mark.req("C-8", "D-6")
async def test_a_prompt_that_met_a_session_its_runner_had_closed_is_sent_again_behind_an_open() -> None:
    table = Table()
    _, session_id = await running(table)
    await table.ended(session_id)
    second = await table.execute("two", target=Target(session_id=session_id))
    assert table.wire.types()[-1] == "control.prompt.request"
    # The agent was idle for too long and had already been closed when the prompt arrived.
    await table.say(session_id, "agent.error", p.AgentError(severity="fatal", error_code="SIGNAL_EXIT", message="15"),
                    expected=True)
    await table.say(session_id, "session.closed", p.SessionClosed(reason="idle"))
    assert await table.state(second.id) == "dispatched"
    await refused_prompt(table, session_id, "SESSION_NOT_FOUND")
    assert await table.state(second.id) == "dispatched"
    assert table.wire.types()[-2:] == ["control.session.open", "control.prompt.request"]


@pytest.mark.req("C-8", "D-6", "D-7")
async def test_a_runner_that_restarted_before_it_opened_gets_open_and_prompt_again() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    opened = table.wire.last("control.session.open")
    await table.say(session_id, "session.error", p.SessionError(
        error_code="RUNNER_RESTARTED", message="restarted", fatal=True), in_reply_to=opened.message_id)
    await table.say(session_id, "session.closed", p.SessionClosed(reason="restarted"))
    await refused_prompt(table, session_id, "SESSION_NOT_FOUND")
    assert await table.state(command.id) == "dispatched"
    assert table.wire.types()[-2:] == ["control.session.open", "control.prompt.request"]


@pytest.mark.req("C-8")
async def test_a_cancel_of_a_prompt_that_is_then_refused_ends_as_canceled() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.cancel(command.id)
    await table.say(session_id, "session.closed", p.SessionClosed(reason="idle"))
    await refused_prompt(table, session_id, "SESSION_NOT_FOUND")
    assert await table.state(command.id) == "canceled"


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
    await table.say(session_id, "session.closed", p.SessionClosed(reason="the cancel was not obeyed"))
    assert table.wire.types()[-2:] == ["control.session.open", "control.prompt.request"]


# --- runners that lost their memory, or never come back ---
@pytest.mark.req("C-7", "C-8")
async def test_a_runner_that_comes_back_without_the_session_has_lost_its_agent() -> None:
    table = Table()
    command_id, session_id = await running(table)
    await table.asked(session_id)
    approval_id = held(table)
    shell = await table.lane(session_id)
    await shell.call(RunnerDetached())
    await shell.attach(table.wire, RunnerAttached(0, None))
    assert await table.state(command_id) == "failed"
    assert (await table.ledger.approval(approval_id)).approval.state == "void"  # type: ignore[union-attr]
    again = await table.execute("again", target=Target(session_id=session_id))
    assert await table.state(again.id) == "dispatched"


@pytest.mark.req("C-4", "C-7")
async def test_a_command_whose_runner_never_comes_back_after_a_restart_of_the_gateway_ends() -> None:
    table = Table()
    command = await table.execute()
    table.begin()
    table.engine.presence.get("local").link = None  # type: ignore[union-attr]
    await table.engine.start()
    shell = await table.lane(command.target.session_id)
    await shell.call(ClockTicked())
    table.clock.advance(table.limits.detach_ttl_ms + 1)
    await shell.call(ClockTicked())
    assert await table.state(command.id) == "failed"


@pytest.mark.req("C-4")
async def test_the_row_of_a_session_with_a_live_command_says_that_it_must_be_read_at_the_next_start() -> None:
    table = Table()
    command = await table.execute()
    assert [(due.session_id, due.state) for due in await table.ledger.due_sessions()] == [
        (command.target.session_id, "running")]


@pytest.mark.req("C-4", "C-1")
async def test_a_gateway_that_starts_reads_the_session_first_whose_time_is_up_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = Table()
    by_time = {}
    for timeout_ms in (30_000, 10_000, 20_000):
        command = await table.execute(timeout_ms=timeout_ms)
        by_time[timeout_ms] = command.target.session_id
        await table.opened(command.target.session_id)
        await table.started(command.target.session_id)
    await table.engine.stop()
    table.begin()
    table.clock.advance(10_001)
    monkeypatch.setattr(due_sessions, "READ_AT_ONCE", 1)
    await table.engine.start()
    with anyio.fail_after(5):
        while len(table.engine.lanes.live()) < len(by_time) or "control.turn.cancel" not in table.wire.types():
            await anyio.lowlevel.checkpoint()
    read = [shell.lane.state.session_id for shell in table.engine.lanes.live()]
    assert read == [by_time[10_000], by_time[20_000], by_time[30_000]]
    canceled = [frame.session_id for frame in table.wire.sent if frame.type == "control.turn.cancel"]
    assert canceled == [by_time[10_000]]


@pytest.mark.req("C-7", "D-7")
async def test_a_prompt_that_was_given_up_is_not_run_when_its_runner_comes_back() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    shell = await table.lane(session_id)
    await shell.call(RunnerDetached())
    table.clock.advance(table.limits.detach_ttl_ms + 1)
    await shell.call(ClockTicked())
    assert await table.state(command.id) == "failed"
    table.wire.sent.clear()
    await table.reattach(session_id, control_seq=1)
    assert "control.prompt.request" not in table.wire.types()
    assert "control.turn.cancel" in table.wire.types()


@pytest.mark.req("C-7", "P-6")
async def test_an_agent_that_is_no_longer_vouched_for_takes_its_questions_with_it() -> None:
    table = Table()
    command_id, session_id = await running(table)
    await table.asked(session_id)
    shell = await table.lane(session_id)
    for _ in range(2):
        await shell.call(AgentVouched(False))
    assert await table.state(command_id) == "failed"
    assert (await table.ledger.approval(held(table))).approval.state == "void"  # type: ignore[union-attr]


@pytest.mark.req("C-7")
async def test_a_runner_that_was_away_while_nothing_ran_is_no_news() -> None:
    table = Table()
    _, session_id = await running(table)
    await table.ended(session_id)
    shell = await table.lane(session_id)
    await shell.call(RunnerDetached())
    await table.reattach(session_id, control_seq=3)
    events = await table.ledger.events(f"s/{session_id}", 0, 100)
    assert [event.kind for event in events].count("notice") == 0


@pytest.mark.req("D-6")
async def test_an_open_tells_how_far_the_gateway_is_so_that_a_lost_outbox_numbers_on() -> None:
    table = Table()
    _, session_id = await running(table)
    await table.ended(session_id)
    await table.say(session_id, "session.closed", p.SessionClosed(reason="idle"))
    await table.execute("again", target=Target(session_id=session_id))
    assert table.wire.last("control.session.open").metadata == {"last_durable_seq": 5, "next_turn_index": 1}


@pytest.mark.req("C-0")
async def test_commands_that_begin_a_session_under_one_key_at_once_share_it() -> None:
    table = Table()
    target = Target(agent_id="shell", session_key="agent:shell:main")
    first, second = await asyncio.gather(table.execute("one", target=target), table.execute("two", target=target))
    assert first.target.session_id == second.target.session_id


# --- clocks ---
@pytest.mark.req("C-1", "A-5")
async def test_the_timeout_runs_on_when_the_runner_itself_ends_a_question() -> None:
    table = Table(timeout_ms=1_000)
    command_id, session_id = await running(table)
    await table.asked(session_id)
    await table.resolved(session_id, "denied")
    await table.result(session_id, status="denied")
    table.clock.advance(1_001)
    await (await table.lane(session_id)).call(ClockTicked())
    assert await table.state(command_id) == "canceling"


# --- votes ---
@pytest.mark.req("P-3", "P-1")
async def test_a_quorum_needs_every_group_and_a_denial_counts_at_its_threshold() -> None:
    rule = Rule(name="two of us", effect="ask", door="tool", required=2, deny_threshold=2,
                groups=[QuorumGroup(role="admin", min=1), QuorumGroup(role="approver", min=1)])
    table = Table(policy=RuleSet([rule]))
    _, session_id = await running(table)
    await table.asked(session_id)
    await table.vote(held(table), "grant", person("one"))
    approval = await table.vote(held(table), "grant", person("two"))
    assert approval.state == "pending"  # two yeses, but no admin's
    assert (await table.vote(held(table), "deny", person("three"))).state == "pending"
    assert (await table.vote(held(table), "grant", person("four", "admin"))).state == "granted"
    await table.resolved(session_id, "allowed")
    await table.asked(session_id, invocation="i2")
    await table.vote(held(table), "deny", person("one"))
    assert (await table.vote(held(table), "deny", person("two"))).state == "denied"


@pytest.mark.req("P-3", "P-5")
async def test_a_vote_that_was_overtaken_is_told_so_and_not_that_it_decided() -> None:
    table = Table()
    _, session_id = await running(table)
    await table.asked(session_id)
    approval_id = held(table)
    stale = await table.ledger.approval(approval_id)
    real = table.ledger.approval
    reads = 0

    async def overtaken(wanted: str, tenant_id: str | None = None) -> Any:
        nonlocal reads
        reads += 1
        return stale if reads == 1 else await real(wanted, tenant_id)

    await table.vote(approval_id, "deny")
    table.ledger.approval = overtaken  # type: ignore[method-assign]
    with pytest.raises(Problem, match="already denied"):
        await table.vote(approval_id, "grant", person("two"))


@pytest.mark.req("P-2", "A-5")
async def test_an_interaction_id_that_is_open_cannot_be_asked_again_about_something_else() -> None:
    table = Table()
    _, session_id = await running(table)
    await table.asked(session_id, "ls")
    await table.say(session_id, "tool.invoke.request", p.ToolRequest(
        invocation_id="i2", turn_id="t1", tool_name="shell", input=msgspec.Raw(b'{"command":"rm -rf /"}')))
    await table.say(session_id, "agent.interaction.request", p.InteractionRequest(
        interaction_id="x-i1", interaction_type="PERMISSION", title="ls",
        context=p.InteractionContext(tool_name="shell", invocation_id="i2")))
    assert table.wire.types()[-2:] == ["session.error", "control.interaction.response"]
    assert table.wire.types().count("x-interlock.interaction.held") == 1
    # A yes to the first could be read as the answer to the second: the first is denied, and can be granted no more.
    assert table.wire.last("control.interaction.response").payload.decision == "deny"
    with pytest.raises(Problem, match="void"):
        await table.vote(held(table), "grant", person("two"))


# --- what policy sees ---
@pytest.mark.req("P-1")
@pytest.mark.parametrize(("tool_input", "allowed"), [
    ({"path": "/w/docs/a.md"}, True),
    ({"path": "docs/a.md"}, True),
    ({"path": "/w/docs/../src/a.md"}, False),
    ({"path": "../docs/a.md"}, False),
    ({"path": "docs/a.md", "destination": "/etc/passwd"}, False),
    ({"file_path": "docs/a.md", "paths": ["src/b.md"]}, False),
    ({"path": "/workspace/docs/a.md"}, False),
])
async def test_paths_are_judged_below_the_workspace(tool_input: dict[str, Any], allowed: bool) -> None:
    table = Table(policy=RuleSet([Rule(name="docs", effect="allow", door="tool", path="docs/*.md")]))
    _, session_id = await running(table)
    await table.say(session_id, "tool.invoke.request", p.ToolRequest(
        invocation_id="i1", turn_id="t1", tool_name="edit", input=msgspec.Raw(msgspec.json.encode(tool_input))))
    await table.say(session_id, "agent.interaction.request", p.InteractionRequest(
        interaction_id="x", interaction_type="PERMISSION", title="edit",
        context=p.InteractionContext(tool_name="edit", invocation_id="i1")))
    assert ("control.interaction.response" in table.wire.types()) is allowed


@pytest.mark.req("P-1")
async def test_a_command_given_as_a_list_meets_the_rules_for_command_lines() -> None:
    rules = [Rule(name="no rm", effect="deny", door="tool", command="rm .*"),
             Rule(name="shell", effect="allow", door="tool", tool="shell")]
    table = Table(policy=RuleSet(rules))
    _, session_id = await running(table)
    await table.say(session_id, "tool.invoke.request", p.ToolRequest(
        invocation_id="i1", turn_id="t1", tool_name="shell", input=msgspec.Raw(b'{"command":["rm","-rf","/"]}')))
    await table.say(session_id, "agent.interaction.request", p.InteractionRequest(
        interaction_id="x", interaction_type="PERMISSION", title="rm",
        context=p.InteractionContext(tool_name="shell", invocation_id="i1")))
    assert table.wire.last("control.interaction.response").payload.decision == "deny"


# --- loss and odd frames ---
@pytest.mark.req("D-4", "D-3")
async def test_loss_is_told_once_for_each_frame_however_often_a_history_tells_it() -> None:
    table = Table()
    _, session_id = await running(table)
    shell = await table.lane(session_id)

    async def history(count: int, *ranges: tuple[int, int], profile: bool = True) -> None:
        status = p.BufferStatus(policy_applied="RING", truncated=count > 0, lost_frame_count=count)
        await shell.call(Within(lambda lane: report_truncation(lane, status, list(ranges), "m", profile=profile)))

    async def arrive(*seqs: int) -> None:
        for seq in seqs:
            await shell.call(Within(lambda lane, seq=seq: reach(lane, seq)))

    first = shell.lane.state.last_seq + 1
    await history(4, (first, first + 2), (first + 4, first + 4))
    await history(6, (first, first + 2), (first + 4, first + 6))
    await arrive(first + 3)  # The three that were lost before it are behind the session now.
    await history(3, (first + 4, first + 6))
    await history(0)
    await arrive(first + 7, first + 8)
    await history(1, (first + 9, first + 9))
    notices = [msgspec.json.decode(event.body) for event in await table.ledger.events(f"s/{session_id}", 0, 100)
               if event.kind == "notice"]
    assert [notice["lost_frame_count"] for notice in notices] == [4, 2, 1]
    assert shell.lane.state.lost_frames == 7


@pytest.mark.req("E-1", "T-3")
@pytest.mark.parametrize("exit_code", [True, 10**40, -(10**20), "1", [], 1.5])
async def test_an_exit_code_of_the_wrong_kind_is_left_out(exit_code: Any) -> None:
    table = Table()
    command_id, session_id = await running(table)
    await table.ended(session_id, exit_code=exit_code)
    record = await table.ledger.command(command_id)
    assert record.command.result.output.exit_code is None  # type: ignore[union-attr]
    row = await table.ledger.session(session_id)
    assert msgspec.json.decode(row.machine, type=LaneState).session_id == session_id  # type: ignore[union-attr]


@pytest.mark.req("E-1", "T-4")
async def test_a_refusal_of_a_frame_with_endless_names_fits_a_frame() -> None:
    table = Table()
    _, session_id = await running(table)
    await table.say(session_id, "tool.invoke.result", p.ToolResult(
        invocation_id="i" * 500_000, status="ok", output_type="text", output="", duration_ms=1))
    error = table.wire.last("session.error").payload
    assert error.error_code == "UNKNOWN_TURN"
    assert len(error.message) < 2_000


@pytest.mark.req("P-5", "L-2")
async def test_a_comment_too_long_for_a_frame_does_not_hold_up_the_answer() -> None:
    table = Table()
    _, session_id = await running(table)
    await table.asked(session_id)
    body = GrantBody(decision="deny", comment="no " * 400_000)
    with pytest.raises(Problem, match="comment"):
        await table.engine.vote(OWNER, held(table), body, remember)
    assert (await table.vote(held(table), "deny")).state == "denied"
