"""From the queue to the runner: the order of commands, and a prompt that is refused or overtaken (C-3, C-8, D-7)."""

from __future__ import annotations

import pytest

from engine.bridge.steps import command_running, ended, refused_prompt, running, shown
from engine.conversation import USAGE, Table
from interlock.engine.bridge.inputs.runner import RunnerDetached
from interlock.protocol import payloads as p
from interlock.protocol.limits import MAX_DISPATCH_ATTEMPTS
from interlock.protocol.resources import Target

pytestmark = pytest.mark.anyio


@pytest.mark.req("C-8", "T-1")
@pytest.mark.parametrize(("code", "state", "sent"), [("RUNNER_RESTARTED", "dispatched", 2), ("INTERNAL", "failed", 1)])
async def test_a_refusal_before_the_start_is_sent_again_or_fails(code: str, state: str, sent: int) -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    prompt = table.wire.last("control.prompt.request")
    await table.send(session_id, "session.error", p.SessionError(error_code=code, message="no", fatal=False),
                     in_reply_to=prompt.message_id)
    assert await table.state(command.id) == state
    assert table.wire.types().count("control.prompt.request") == sent


@pytest.mark.req("C-8", "A-4")
@pytest.mark.parametrize("code", ["PROMPT_IN_PROGRESS", "SESSION_NOT_FOUND"])
async def test_a_prompt_that_crosses_an_idle_close_opens_the_agent_again(code: str) -> None:
    table = Table()
    first = await table.execute("one")
    session_id = first.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    await table.ended(session_id)
    second = await table.execute("two", target=Target(session_id=session_id))
    prompt = table.wire.last("control.prompt.request")
    await table.send(session_id, "agent.error", p.AgentError(
        severity="fatal", error_code="SIGNAL_EXIT", message="ended by SIGTERM"), expected=True)
    await table.send(session_id, "session.closed", p.SessionClosed(reason="idle"))
    assert await table.state(second.id) == "dispatched"
    await table.send(session_id, "session.error", p.SessionError(error_code=code, message="crossed", fatal=False),
                     in_reply_to=prompt.message_id)
    assert table.wire.types()[-2:] == ["control.session.open", "control.prompt.request"]
    assert await table.state(second.id) == "dispatched"


@pytest.mark.req("C-8", "A-2")
async def test_an_agent_that_cannot_start_fails_its_command_with_its_message() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await table.send(session_id, "session.error", p.SessionError(
        error_code="AGENT_START_FAILED", message="goose: not found", fatal=True))
    await table.send(session_id, "session.closed", p.SessionClosed(reason="start failed"))
    record = await table.ledger.command(command.id, "default")
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


@pytest.mark.req("D-7", "C-8")
@pytest.mark.parametrize(("runner_has", "ends"), [(1, "canceled"), (2, "canceling")])
async def test_a_cancel_replaces_a_prompt_that_the_runner_does_not_have(runner_has: int, ends: str) -> None:
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


@pytest.mark.req("C-8", "D-6")
async def test_a_prompt_refused_by_a_closed_session_is_sent_again_after_an_open() -> None:
    table = Table()
    _, session_id = await running(table)
    await table.ended(session_id)
    second = await table.execute("two", target=Target(session_id=session_id))
    assert table.wire.types()[-1] == "control.prompt.request"
    # The agent was idle for too long and had already been closed when the prompt arrived.
    await table.send(session_id, "agent.error", p.AgentError(severity="fatal", error_code="SIGNAL_EXIT", message="15"),
                     expected=True)
    await table.send(session_id, "session.closed", p.SessionClosed(reason="idle"))
    assert await table.state(second.id) == "dispatched"
    await refused_prompt(table, session_id, "SESSION_NOT_FOUND")
    assert await table.state(second.id) == "dispatched"
    assert table.wire.types()[-2:] == ["control.session.open", "control.prompt.request"]


@pytest.mark.req("D-6")
async def test_an_open_has_the_last_number_so_that_a_lost_outbox_continues_it() -> None:
    table = Table()
    _, session_id = await running(table)
    await table.ended(session_id)
    await table.send(session_id, "session.closed", p.SessionClosed(reason="idle"))
    await table.execute("again", target=Target(session_id=session_id))
    assert table.wire.last("control.session.open").metadata == {"last_durable_seq": 5, "next_turn_index": 1}


@pytest.mark.req("C-8")
async def test_a_prompt_refused_during_another_turn_is_sent_again_at_its_end() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    prompt = table.wire.last("control.prompt.request")
    await table.send(session_id, "session.turn.start", p.TurnStart(turn_id="other", turn_index=0), prompt_id="another")
    await table.send(session_id, "session.error", p.SessionError(
        error_code="PROMPT_IN_PROGRESS", message="The session already works.", fatal=False),
        in_reply_to=prompt.message_id)
    assert await ended(table, command) == ("queued", None)
    await table.send(session_id, "session.turn.end", p.TurnEnd(turn_id="other", stop_reason="cancelled"))
    assert table.wire.types().count("control.prompt.request") == 1
    await table.send(session_id, "session.usage", USAGE)
    assert await ended(table, command) == ("dispatched", None)
    assert table.wire.types().count("control.prompt.request") == 2
    await table.started(session_id, "mine")
    assert await ended(table, command) == ("running", None)


@pytest.mark.req("C-8")
async def test_the_next_execute_answers_an_agent_that_awaits_input() -> None:
    table = Table()
    first, session_id = await command_running(table)
    await table.ended(session_id, "awaiting_input")
    second = await table.execute("blue", target=Target(session_id=session_id))
    assert table.wire.types().count("control.session.open") == 1
    assert table.wire.last("control.prompt.request").payload.text == "blue"
    await table.started(session_id, "t2")
    await table.ended(session_id, "end_turn", "t2")
    assert [await ended(table, command) for command in (first, second)] == [("succeeded", None)] * 2


@pytest.mark.req("C-8")
async def test_a_repeatedly_refused_prompt_fails() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    for attempt in range(1, MAX_DISPATCH_ATTEMPTS + 1):
        now = await shown(table, command.id)
        assert (now.state, now.attempt) == ("dispatched", attempt)
        prompt = table.wire.last("control.prompt.request")
        await table.send(session_id, "session.error", p.SessionError(
            error_code="RUNNER_RESTARTED", message="again", fatal=False), in_reply_to=prompt.message_id)
    last = await shown(table, command.id)
    assert (last.state, last.error.code) == ("failed", "AgentLost")
    assert table.wire.types().count("control.prompt.request") == MAX_DISPATCH_ATTEMPTS
