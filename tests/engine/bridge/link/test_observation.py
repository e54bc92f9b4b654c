"""A session that another gateway controls: it is followed, accepts no commands, and control changes (D-5, W-2)."""

from __future__ import annotations

import pytest

from engine.conversation import OWNER, Table, remember
from engine.within import Within
from interlock.engine.bridge.inputs.runner import ControlsRefused
from interlock.engine.bridge.link.links import attach
from interlock.engine.bridge.link.observation import joined
from interlock.protocol import payloads as p
from interlock.protocol.problems import Problem
from interlock.protocol.resources import Target

pytestmark = pytest.mark.anyio
OWN, OTHER = "gw_own", "gw_other"


class OwnTable(Table):
    gateway_id = OWN


@pytest.fixture
def table() -> Table:
    return OwnTable()


async def running(table: Table) -> tuple[str, str]:
    command = await table.execute()
    await table.opened(command.target.session_id)
    await table.started(command.target.session_id)
    return command.id, command.target.session_id


async def changed(table: Table, session_id: str, gateway_id: str) -> None:
    await table.send(session_id, "x-interlock.control.changed", p.ControlChanged(gateway_id=gateway_id))


async def refused(table: Table, session_id: str, controller: str = OTHER) -> None:
    refusal = p.RefusedControl(message_id="m", error_code="NOT_CONTROLLER", message="not yours", controller=controller)
    await (await table.lane(session_id)).call(ControlsRefused([refusal]))


@pytest.mark.req("D-5")
async def test_a_turn_without_control_is_followed_to_its_end_and_the_queue_ends(table: Table) -> None:
    command_id, session_id = await running(table)
    second = await table.execute("later", target=Target(session_id=session_id))
    await table.asked(session_id)
    sent = len(table.wire.sent)
    await changed(table, session_id, OTHER)
    assert await table.state(second.id) == "canceled"
    record = await table.ledger.command(second.id, "default")
    assert record is not None
    assert record.command.error is not None
    assert (record.command.error.code, OTHER in record.command.error.message) == ("NOT_CONTROLLER", True)
    await table.resolved(session_id, "void")
    await table.asked(session_id, invocation="i2")
    assert (await table.lane(session_id)).lane.approvals == {}, "another gateway is asked"
    await table.resolved(session_id, "allowed", "i2")
    await table.result(session_id, invocation="i2")
    await table.result(session_id)
    await table.ended(session_id)
    assert await table.state(command_id) == "succeeded"
    assert len(table.wire.sent) == sent, "an observer sends nothing"
    assert "lease_lost" in await table.actions()


@pytest.mark.req("D-5")
async def test_every_request_to_an_observed_session_is_refused_naming_its_controller(table: Table) -> None:
    command_id, session_id = await running(table)
    await table.asked(session_id)
    approval_id = table.wire.last("x-interlock.interaction.held").payload.approval_id
    await changed(table, session_id, OTHER)
    asks = [
        lambda: table.execute("more", target=Target(session_id=session_id)),
        lambda: table.cancel(command_id),
        lambda: table.vote(approval_id, "allow"),
        lambda: table.engine.sessions.close(OWNER, session_id, "over", remember),
        lambda: table.engine.sessions.release(OWNER, session_id, OWN, remember),
    ]
    for ask in asks:
        with pytest.raises(Problem) as problem:
            await ask()
        assert problem.value.code == "Conflict"
        assert f"Gateway {OTHER} controls session {session_id}" in str(problem.value)


@pytest.mark.req("D-5")
async def test_the_gateway_that_takes_over_gets_requests_and_commands(table: Table) -> None:
    _, session_id = await running(table)
    await changed(table, session_id, OTHER)
    await table.ended(session_id)
    await table.send(session_id, "session.turn.start", p.TurnStart(turn_id="t2", turn_index=1), prompt_id="theirs")
    assert "late_event" not in await table.actions(), "another gateway's turn is not a stray one"
    await changed(table, session_id, OWN)
    await table.asked(session_id, turn_id="t2", invocation="i5")
    held = table.wire.last("x-interlock.interaction.held")
    await table.vote(held.payload.approval_id, "grant")
    assert table.wire.last("control.interaction.response").payload.interaction_id == "x-i5"
    command = await table.execute("mine", target=Target(session_id=session_id))
    assert await table.state(command.id) == "queued", "the turn that runs comes first"
    await table.resolved(session_id, "allowed", "i5")
    await table.result(session_id, invocation="i5")
    await table.ended(session_id, turn_id="t2")
    assert await table.state(command.id) == "dispatched"


@pytest.mark.req("D-5", "D-7", "W-2")
async def test_a_refusal_corrects_a_gateway_that_assumed_control(table: Table) -> None:
    command = await table.execute()
    session_id = command.target.session_id
    await refused(table, session_id)
    assert await table.state(command.id) == "failed"
    lane = (await table.lane(session_id)).lane
    assert lane.state.controller == OTHER
    await refused(table, session_id)
    assert lane.state.controller == OTHER


@pytest.mark.req("D-5", "L-4")
async def test_the_hello_names_the_controller_if_no_frame_will_follow(table: Table) -> None:
    _, session_id = await running(table)
    shell = await table.lane(session_id)

    async def hello(last_seq_sent: int) -> str:
        refusal = p.HelloSession(session_id=session_id, last_seq_sent=last_seq_sent, control_seq=9, state="running",
                                 controller=OTHER)
        await shell.call(Within(lambda lane: (attach(lane, 9, None, known=True), joined(lane, refusal))))
        return shell.lane.state.controller

    assert await hello(shell.lane.state.last_seq + 1) == "", "the frames that come will say it"
    assert await hello(shell.lane.state.last_seq) == OTHER


@pytest.mark.req("D-5", "T-4")
async def test_an_observer_that_joins_in_mid_turn_follows_and_refuses_nothing(table: Table) -> None:
    _, session_id = await running(table)
    await changed(table, session_id, OTHER)
    await table.ended(session_id)
    # It lost the frames between: the next one it receives is in the middle of a turn.
    await table.send(session_id, "agent.text.done", p.TextDone(turn_id="t9", block_id="b", text="so"))
    await table.result(session_id, invocation="never-seen")
    await table.ended(session_id, turn_id="t9")
    kinds = [event.kind for event in await table.ledger.events("default", f"s/{session_id}", 0, 100)]
    assert "refused" not in kinds
    assert (await table.lane(session_id)).lane.state.machine.phase == "idle"


@pytest.mark.req("D-5")
async def test_the_controller_asks_its_runner_to_hand_over(table: Table) -> None:
    _, session_id = await running(table)
    with pytest.raises(Problem, match="is this one"):
        await table.engine.sessions.release(OWNER, session_id, OWN, remember)
    await table.engine.sessions.release(OWNER, session_id, OTHER, remember)
    assert table.wire.last("control.session.release").payload.to == OTHER
    assert (await table.lane(session_id)).lane.state.controller == "", "it passes when the runner says so"


@pytest.mark.req("D-7")
async def test_a_refusal_repeated_by_the_hello_is_reported_once(table: Table) -> None:
    """Any other refusal has a `session.error` of its own: the history has it, with the outcome."""
    _, session_id = await running(table)
    refusal = p.RefusedControl(message_id="m", error_code="PROMPT_IN_PROGRESS", message="The session already works.")
    shell = await table.lane(session_id)
    before = shell.lane.state.n
    await shell.call(ControlsRefused([refusal]))
    assert shell.lane.state.n == before
    await refused(table, session_id)
    assert shell.lane.state.n > before
