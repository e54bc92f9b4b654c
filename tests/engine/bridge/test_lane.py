"""A lane from a command to its result, as a conversation with the runner, and its state after a restart (C-8)."""

from __future__ import annotations

import pytest

from engine.bridge.steps import command_running
from engine.conversation import Table
from interlock.protocol import payloads as p
from interlock.protocol.resources import Target

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
    await table.send(session_id, "agent.text.done", p.TextDone(turn_id="t1", block_id="b1", text="hi"))
    await table.ended(session_id, exit_code=0)
    record = await table.ledger.command(command.id, "default")
    assert record is not None
    assert record.command.state == "succeeded"
    assert record.command.result is not None
    assert record.command.result.output.output == [
        {"role": "assistant", "content": [{"contentType": "text", "value": "hi"}]}
    ]
    assert record.command.result.output.exit_code == 0
    assert table.wire.acks[session_id] == 5
    assert await table.actions() == ["enqueue", "dispatch", "start", "complete"]


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


@pytest.mark.req("C-8")
@pytest.mark.req("C-4")
@pytest.mark.parametrize("moment", ["pending_approval", "queued", "dispatched", "running", "pausing", "paused",
                                    "resuming", "canceling"])
async def test_after_kill_9_every_state_is_the_one_last_acknowledged(moment: str) -> None:
    table = Table(permission="never" if moment == "pending_approval" else "asks", timeout_ms=10_000)
    if moment == "queued":
        _, session_id = await command_running(table)
        command = await table.execute(target=Target(session_id=session_id))
    elif moment in ("pending_approval", "dispatched"):
        command = await table.execute()
        session_id = command.target.session_id
    else:
        command, session_id = await command_running(table)
    if moment in ("pausing", "paused", "resuming"):
        await table.order("pause", command.id)
    if moment in ("paused", "resuming"):
        await table.report_state(session_id, "paused")
    if moment == "resuming":
        await table.order("resume", command.id)
    if moment == "canceling":
        await table.cancel(command.id)
    before = await table.ledger.command(command.id, "default")
    table.begin()
    await table.engine.start()
    await table.reattach(session_id, 100)
    after = await table.ledger.command(command.id, "default")
    assert after == before
    assert after is not None
    assert after.command.state == moment
