"""A fatal error of the runner ends its session (T-5), and a turn that returns is canceled and awaited (C-7)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engine.conversation import USAGE, Table, turn_uuid
from engine.within import Within
from interlock.engine.bridge.inputs.gateway import ClockTicked
from interlock.engine.bridge.inputs.runner import AgentReported, RunnerDetached
from interlock.engine.bridge.link.frames import refuse_wire
from interlock.engine.bridge.link.links import SILENT_HEARTBEATS, attach, lose_agent
from interlock.engine.bridge.link.orphans import returned
from interlock.protocol import payloads as p
from interlock.protocol.frames import Direction, InvalidFrame, decode, decode_wire
from interlock.protocol.limits import CANCEL_FORCE_MS
from interlock.protocol.resources import Target

pytestmark = pytest.mark.anyio

TURN = turn_uuid("t1")


async def running(table: Table) -> tuple[str, str]:
    """A command whose turn is open: the ids of command and session."""
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    return command.id, session_id


async def fatal(table: Table, session_id: str, code: str = "UPSTREAM_ERROR") -> None:
    await table.send(session_id, "session.error", p.SessionError(error_code=code, message="it broke", fatal=True))


async def failure(table: Table, command_id: str) -> tuple[str, str, str]:
    record = await table.ledger.command(command_id, "default")
    assert record is not None
    assert record.command.error is not None
    return record.command.state, record.command.error.code, record.command.error.message


def count(table: Table, frame_type: str) -> int:
    return table.wire.types().count(frame_type)


async def due(table: Table, session_id: str) -> None:
    table.clock.advance(CANCEL_FORCE_MS)
    await (await table.lane(session_id)).call(ClockTicked())


# --- a fatal error (T-5) ---
@pytest.mark.req("T-5", "T-3")
@pytest.mark.parametrize("stop_reason", ["cancelled", "error", "end_turn", "tool_use"])
async def test_a_fatal_error_closes_the_session_and_fails_its_command_with_its_output(stop_reason: Any) -> None:
    table = Table()
    command_id, session_id = await running(table)
    await fatal(table, session_id)
    assert table.wire.types()[-1] == "control.session.close"
    await table.send(session_id, "agent.text.done", p.TextDone(turn_id=TURN, block_id="b", text="half"))
    await table.ended(session_id, stop_reason)
    assert await failure(table, command_id) == ("failed", "UPSTREAM_ERROR", "it broke")
    record = await table.ledger.command(command_id, "default")
    assert record.command.result.output.output[0]["content"][0]["value"] == "half"  # type: ignore[union-attr]
    await table.send(session_id, "session.closed", p.SessionClosed(reason="fatal"))
    assert (await table.lane(session_id)).lane.session_state() == "closed"
    assert count(table, "control.session.close") == 1


@pytest.mark.req("T-5")
async def test_a_fatal_error_ends_the_command_even_if_the_runner_does_nothing_more() -> None:
    table = Table()
    command_id, session_id = await running(table)
    await table.asked(session_id)
    approval_id = table.wire.last("x-interlock.interaction.held").payload.approval_id
    await fatal(table, session_id)
    await due(table, session_id)
    assert (await failure(table, command_id))[:2] == ("failed", "UPSTREAM_ERROR")
    approval = await table.ledger.approval(approval_id, "default")
    assert approval.approval.state == "void"  # type: ignore[union-attr]
    again = await table.execute("again", target=Target(session_id=session_id))
    assert table.wire.types()[-2:] == ["control.session.open", "control.prompt.request"]
    assert await table.state(again.id) == "dispatched"


@pytest.mark.req("T-5", "C-7")
async def test_the_time_to_close_does_not_run_while_the_link_is_down() -> None:
    table = Table()
    command_id, session_id = await running(table)
    await fatal(table, session_id)
    await (await table.lane(session_id)).call(RunnerDetached())
    await due(table, session_id)
    assert await table.state(command_id) == "running"
    await table.reattach(session_id, 0)
    await due(table, session_id)
    assert (await failure(table, command_id))[:2] == ("failed", "UPSTREAM_ERROR")


@pytest.mark.req("T-5")
@pytest.mark.parametrize("opened", [True, False])
async def test_a_fatal_error_before_the_turn_fails_the_command_immediately(opened: bool) -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    if opened:
        await table.opened(session_id)
    await fatal(table, session_id, "AGENT_START_FAILED")
    assert (await failure(table, command.id))[:2] == ("failed", "AGENT_START_FAILED")
    second = await table.execute("two", target=Target(session_id=session_id))
    assert await table.state(second.id) == "queued"
    await table.send(session_id, "session.closed", p.SessionClosed(reason="start failed"))
    assert await table.state(second.id) == "dispatched"
    await table.opened(session_id)
    await table.started(session_id)
    await table.ended(session_id)
    assert await table.state(second.id) == "succeeded"


@pytest.mark.req("T-5")
async def test_a_command_that_is_being_canceled_ends_canceled() -> None:
    table = Table()
    command_id, session_id = await running(table)
    await table.cancel(command_id)
    await fatal(table, session_id)
    await table.ended(session_id, "cancelled")
    assert await table.state(command_id) == "canceled"


@pytest.mark.req("T-5")
async def test_an_error_that_is_not_fatal_ends_nothing() -> None:
    table = Table()
    command_id, session_id = await running(table)
    await table.send(session_id, "session.error", p.SessionError(error_code="X", message="careful", fatal=False))
    await table.ended(session_id)
    assert await table.state(command_id) == "succeeded"
    assert count(table, "control.session.close") == 0


# --- a turn that returns (C-7) ---
async def lost(table: Table) -> tuple[str, str]:
    """A command whose agent was abandoned as lost in mid-turn."""
    command_id, session_id = await running(table)
    for _ in range(SILENT_HEARTBEATS):
        await (await table.lane(session_id)).call(AgentReported(False))
    assert (await failure(table, command_id))[:2] == ("failed", "AgentLost")
    return command_id, session_id


async def by_hello(table: Table, session_id: str) -> None:
    shell = await table.lane(session_id)
    await shell.call(RunnerDetached())
    await shell.attach(table.wire, Within(lambda lane: attach(lane, 0, table.hello.agents[0], known=True)))
    await shell.call(Within(lambda lane: returned(lane, TURN)))


async def by_heartbeat(table: Table, session_id: str) -> None:
    await (await table.lane(session_id)).call(AgentReported(True, TURN))


async def by_frame(table: Table, session_id: str) -> None:
    await table.send(session_id, "agent.text.done", p.TextDone(turn_id=TURN, block_id="b", text="still here"))


@pytest.mark.req("C-7", "T-1")
@pytest.mark.parametrize("return_by", [by_hello, by_heartbeat, by_frame])
async def test_a_lost_turn_that_returns_is_canceled_and_awaited(return_by: Any) -> None:
    table = Table()
    _, session_id = await lost(table)
    await return_by(table, session_id)
    assert table.wire.last("control.turn.cancel").payload.turn_id == TURN
    second = await table.execute("two", target=Target(session_id=session_id))
    assert await table.state(second.id) == "queued"
    await return_by(table, session_id)
    assert len({frame.message_id for frame in table.wire.sent if frame.type == "control.turn.cancel"}) == 1
    await table.ended(session_id, "cancelled")  # Refused, since the turn is over here; its end counts all the same.
    assert await table.state(second.id) == "dispatched"
    assert [kind for kind in table.wire.types() if kind.startswith("control.")][-2:] == [
        "control.session.open", "control.prompt.request"]
    record = await table.ledger.command(second.id, "default")
    assert record.command.attempt == 1  # type: ignore[union-attr]


@pytest.mark.req("C-7", "T-1", "C-8")
async def test_a_prompt_refused_by_a_lost_turn_is_sent_again_at_its_end() -> None:
    table = Table()
    _, session_id = await lost(table)
    second = await table.execute("two", target=Target(session_id=session_id))
    await table.opened(session_id)  # The agent is there after all, and at work.
    prompt = table.wire.last("control.prompt.request")
    await table.send(session_id, "session.error", p.SessionError(
        error_code="PROMPT_IN_PROGRESS", message="busy", fatal=False), in_reply_to=prompt.message_id)
    assert table.wire.types()[-1] == "control.turn.cancel"
    assert await table.state(second.id) == "queued"
    await table.ended(session_id, "cancelled")
    assert await table.state(second.id) == "dispatched"
    record = await table.ledger.command(second.id, "default")
    assert record.command.attempt == 2  # type: ignore[union-attr]
    assert count(table, "control.prompt.request") == 3


@pytest.mark.req("T-1", "A-4")
@pytest.mark.parametrize("closes", [True, False])
async def test_a_turn_that_ignores_its_cancel_ends_the_sessions_agent(closes: bool) -> None:
    table = Table()
    _, session_id = await lost(table)
    await by_heartbeat(table, session_id)
    second = await table.execute("two", target=Target(session_id=session_id))
    await due(table, session_id)
    assert table.wire.types()[-1] == "control.session.close"
    assert await table.state(second.id) == "queued"
    if closes:
        await table.send(session_id, "session.closed", p.SessionClosed(reason="asked"))
    else:
        await due(table, session_id)
    assert await table.state(second.id) == "dispatched"


@pytest.mark.req("C-7")
@pytest.mark.parametrize("sign", ["idle", "closed", "refused", "hello"])
async def test_any_sign_that_no_turn_runs_sends_the_next_command(sign: str) -> None:
    table = Table()
    _, session_id = await lost(table)
    await by_heartbeat(table, session_id)
    second = await table.execute("two", target=Target(session_id=session_id))
    if sign == "idle":
        await table.report_state(session_id, "idle")
    elif sign == "closed":
        await table.send(session_id, "session.closed", p.SessionClosed(reason="gone"))
    elif sign == "refused":
        cancel = table.wire.last("control.turn.cancel")
        await table.send(session_id, "session.error", p.SessionError(
            error_code="UNKNOWN_TURN", message="not open", fatal=False), in_reply_to=cancel.message_id)
    else:
        await (await table.lane(session_id)).call(Within(lambda lane: returned(lane, None)))
    assert await table.state(second.id) == "dispatched"


@pytest.mark.req("C-7")
async def test_a_session_lost_between_turns_has_no_turn_to_cancel() -> None:
    table = Table()
    _, session_id = await running(table)
    await table.ended(session_id)
    await (await table.lane(session_id)).call(Within(lambda lane: lose_agent(lane, "gone")))
    await (await table.lane(session_id)).call(Within(lambda lane: returned(lane, None)))
    await table.execute("two", target=Target(session_id=session_id))
    assert table.wire.types()[-2:] == ["control.session.open", "control.prompt.request"]
    assert count(table, "control.turn.cancel") == 0


# --- frames that are malformed (T-3, E-1) ---
async def send_raw(table: Table, session_id: str, frame_type: str, payload: dict[str, Any], **metadata: Any) -> None:
    """The runner sends a frame of any shape."""
    seq = table.seqs[session_id] = table.seqs[session_id] + 1
    raw = msgspec.json.encode({"type": frame_type, "payload": payload, "message_id": f"raw{seq}", "seq": seq,
                               "session_id": session_id, "timestamp": "", "metadata": metadata})
    with pytest.raises(InvalidFrame) as caught:
        decode(raw, Direction.C)
    wire, error = decode_wire(raw), caught.value
    await (await table.lane(session_id)).call(Within(lambda lane: refuse_wire(lane, wire, raw, error.code, str(error))))


@pytest.mark.req("T-3", "E-1", "T-1")
@pytest.mark.parametrize("broken", [{"turn_id": "t1", "turn_index": 0}, {"turn_id": TURN, "turn_index": -1},
                                    {"turn_id": TURN, "turn_index": 2**64 - 1}, {"turn_id": TURN}])
async def test_a_turn_with_a_malformed_start_is_canceled_and_its_command_fails(broken: dict[str, Any]) -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    prompt = table.wire.last("control.prompt.request").payload
    await send_raw(table, session_id, "session.turn.start", broken, prompt_id=prompt.prompt_id)
    assert (await failure(table, command.id))[:2] == ("failed", "INVALID_FRAME")
    assert count(table, "control.turn.cancel") == 1
    second = await table.execute("two", target=Target(session_id=session_id))
    assert await table.state(second.id) == "queued"
    await table.ended(session_id, "cancelled")
    assert await table.state(second.id) == "dispatched"


@pytest.mark.req("T-1", "T-3", "W-1")
async def test_a_turn_index_is_used_once() -> None:
    table = Table()
    _, session_id = await running(table)
    await table.ended(session_id)
    second = await table.execute("two", target=Target(session_id=session_id))
    prompt = table.wire.last("control.prompt.request").payload
    await table.send(session_id, "session.turn.start", p.TurnStart(turn_id="t2", turn_index=0),
                     prompt_id=prompt.prompt_id)
    state, code, message = await failure(table, second.id)
    assert (state, code) == ("failed", "INVALID_FRAME")
    assert "turn_index 0 was used before; the next one is 1" in message
    await table.ended(session_id, turn_id="t2")
    third = await table.execute("three", target=Target(session_id=session_id))
    await table.send(session_id, "session.turn.start", p.TurnStart(turn_id="t3", turn_index=7),
                     prompt_id=table.wire.last("control.prompt.request").payload.prompt_id)
    assert await table.state(third.id) == "running"  # An index may be left out; the runner may have lost that turn.


@pytest.mark.req("T-2", "T-3", "E-1")
async def test_a_malformed_usage_still_ends_its_turn() -> None:
    table = Table()
    command_id, session_id = await running(table)
    await table.send(session_id, "session.turn.end", p.TurnEnd(turn_id=TURN, stop_reason="end_turn"))
    usage = msgspec.to_builtins(USAGE)
    usage["token_usage"]["input_tokens"] = -5
    await send_raw(table, session_id, "session.usage", usage)
    assert await table.state(command_id) == "succeeded"
    second = await table.execute("two", target=Target(session_id=session_id))
    assert await table.state(second.id) == "dispatched"


@pytest.mark.req("T-3", "E-1")
async def test_a_malformed_end_changes_nothing_and_another_ends_the_turn() -> None:
    table = Table()
    command_id, session_id = await running(table)
    await send_raw(table, session_id, "session.turn.end", {"turn_id": TURN, "stop_reason": "tired"})
    assert await table.state(command_id) == "running"
    await table.ended(session_id)
    assert await table.state(command_id) == "succeeded"
