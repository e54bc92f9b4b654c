"""Drains, and an execute whose session is busy (C-3, C-5), as the runner sees them."""

from __future__ import annotations

from typing import Any

import pytest

from engine.conversation import OWNER, Table, remember
from interlock.engine.bridge.inputs.gateway import StartLooked
from interlock.ports.entities import DRAINS
from interlock.ports.ledger import Drop, Put, WriteBatch
from interlock.protocol.drains import DrainBody
from interlock.protocol.problems import Problem
from interlock.protocol.resources import Target

pytestmark = pytest.mark.anyio


def prompts(table: Table) -> list[str]:
    return [frame.payload.text for frame in table.wire.sent if frame.type == "control.prompt.request"]


@pytest.mark.req("C-5", "C-4")
@pytest.mark.parametrize(("scope", "name"), [("gateway", None), ("runner", "local"), ("agent", "shell"),
                                             ("session", "")])
async def test_a_drained_scope_finishes_running_work_and_starts_waiting_work_later(
    scope: Any, name: str | None
) -> None:
    table = Table()
    await table.ledger.commit(WriteBatch([Put(table.record)]))
    first = await table.execute("first")
    session_id = first.target.session_id
    body = DrainBody(scope=scope, id=session_id if name == "" else name, reason="update")
    await table.opened(session_id)
    await table.started(session_id)
    await table.engine.drains.drain(OWNER, body, remember)
    await table.engine.drains.drain(OWNER, body, remember)  # The same again changes nothing.
    second = await table.execute("second", target=Target(session_id=session_id))
    assert [notice.code for notice in second.notices] == ["Draining"]
    await table.ended(session_id)
    assert (await table.state(first.id), await table.state(second.id)) == ("succeeded", "queued")
    table.begin()  # A drain outlives the gateway.
    await table.engine.start()
    await table.reattach(session_id, 10)
    assert await table.state(second.id) == "queued"
    [drain] = table.engine.drains.of("default")
    assert (drain.scope, drain.by, drain.reason) == (scope, "user:owner", "update")
    await table.engine.drains.undrain(OWNER, body, remember)
    await (await table.lane(session_id)).call(StartLooked())
    assert await table.state(second.id) == "dispatched"
    actions = await table.actions()
    assert (actions.count("drain"), actions.count("undrain")) == (1, 1)
    await table.engine.stop()


@pytest.mark.req("C-5")
async def test_a_drain_applies_to_its_scope_and_is_refused_without_one() -> None:
    table = Table()
    drains = table.engine.drains
    await drains.drain(OWNER, DrainBody(scope="agent", id="other"), remember)
    command = await table.execute()
    assert await table.state(command.id) == "dispatched"
    for body, sentence in ((DrainBody(scope="agent"), "name the agent"), (DrainBody(scope="gateway", id="x"), "no id"),
                           (DrainBody(scope="runner", id="x"), "no runner x"), (DrainBody(scope="session", id="x"),
                                                                              "no session x")):
        with pytest.raises(Problem, match=sentence):
            await drains.drain(OWNER, body, remember)
    with pytest.raises(Problem, match="gateway is not drained"):
        await drains.undrain(OWNER, DrainBody(scope="gateway"), remember)


@pytest.mark.req("C-3")
async def test_an_execute_that_refuses_to_wait_names_the_obstacle() -> None:
    table = Table()
    first = await table.execute(on_busy="reject")  # Nothing is in its way.
    with pytest.raises(Problem, match=f"busy with {first.id}") as refused:
        await table.execute(on_busy="reject", target=Target(session_id=first.target.session_id))
    assert refused.value.code == "Conflict"
    await table.execute(target=Target(session_id=first.target.session_id))
    with pytest.raises(Problem) as crowded:
        await table.execute(on_busy="reject", target=Target(session_id=first.target.session_id))
    assert str(crowded.value.detail) == f"The session is busy with {first.id} and 1 more."


@pytest.mark.req("C-3")
async def test_an_interrupt_ends_running_work_and_precedes_waiting_work() -> None:
    table = Table()
    first = await table.execute("first")
    session_id = first.target.session_id
    here = Target(session_id=session_id)
    await table.opened(session_id)
    await table.started(session_id)
    waiting = await table.execute("waiting", target=here, priority=100)
    urgent = await table.execute("urgent", target=here, on_busy="interrupt")
    assert (await table.state(first.id), table.wire.types()[-1]) == ("canceling", "control.turn.cancel")
    await table.ended(session_id, "cancelled")
    assert [await table.state(one.id) for one in (first, waiting, urgent)] == ["canceled", "queued", "dispatched"]
    assert prompts(table) == ["first", "urgent"]


@pytest.mark.req("C-3", "P-1")
async def test_an_interrupt_that_waits_for_approval_ends_nothing_before_it() -> None:
    from interlock.protocol.resources import ApprovalRequirement

    table = Table()
    first = await table.execute("first")
    session_id = first.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    urgent = await table.execute("urgent", target=Target(session_id=session_id), on_busy="interrupt",
                                 approval=ApprovalRequirement(required=1))
    assert (await table.state(first.id), urgent.state) == ("running", "pending_approval")
    await table.vote(urgent.approval_id, "grant")
    assert await table.state(first.id) == "canceling"


@pytest.mark.req("C-3")
async def test_waiting_commands_run_by_priority_then_age() -> None:
    table = Table()
    first = await table.execute("first")
    session_id = first.target.session_id
    await table.opened(session_id)
    for name, priority in (("low", -5), ("old", 0), ("new", 0), ("high", 9)):
        table.clock.advance(1)
        await table.execute(name, target=Target(session_id=session_id), priority=priority)
    for turn in range(4):
        await table.started(session_id, f"t{turn}")
        await table.ended(session_id, turn_id=f"t{turn}")
    assert prompts(table) == ["first", "high", "old", "new", "low"]


@pytest.mark.req("C-2", "R-2")
async def test_a_closed_sessions_waiting_commands_do_not_open_its_agent_again() -> None:
    table = Table()
    first = await table.execute("first")
    session_id = first.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    waiting = await table.execute("waiting", target=Target(session_id=session_id))
    await table.engine.sessions.close(OWNER, session_id, "done", remember)
    assert (await table.state(first.id), await table.state(waiting.id)) == ("canceling", "canceled")
    assert table.wire.types()[-1] == "control.session.close"
    await table.ended(session_id, "cancelled")
    from interlock.protocol import payloads as p

    await table.send(session_id, "session.closed", p.SessionClosed(reason="done"))
    assert prompts(table) == ["first"]
    later = await table.execute("later", target=Target(session_id=session_id))  # The session itself can be used again.
    assert await table.state(later.id) == "dispatched"


@pytest.mark.req("C-0")
async def test_a_command_that_opened_its_session_closes_it_despite_followers() -> None:
    table = Table()
    first = await table.execute("first", close_session=True)
    session_id = first.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    await table.ended(session_id)
    assert table.wire.types()[-1] == "control.session.close"
    assert table.wire.sent[-1].payload.reason == "the command has ended"


@pytest.mark.req("C-0")
async def test_a_session_with_waiting_commands_is_not_closed_with_its_opening_command() -> None:
    table = Table()
    first = await table.execute("first", close_session=True)
    session_id = first.target.session_id
    second = await table.execute("second", target=Target(session_id=session_id))
    await table.opened(session_id)
    await table.started(session_id)
    await table.ended(session_id)
    assert "control.session.close" not in table.wire.types()
    assert await table.state(second.id) == "dispatched"


@pytest.mark.req("C-5", "H-5")
@pytest.mark.parametrize("adopted", [False, True])
async def test_a_drain_whose_row_was_removed_stays_in_force_and_is_reported(adopted: bool) -> None:
    table = Table()
    if not adopted:
        await table.engine.adopt()
    await table.engine.drains.drain(OWNER, DrainBody(scope="agent", id="shell"), remember)
    if adopted:
        await table.engine.adopt()
    await table.ledger.commit(WriteBatch([Drop(DRAINS, ("default", "agent", "shell"))]))
    assert "the stored row of the drain default/agent/shell was removed" in await table.engine.rows.check()
    await table.restart()
    await table.engine.start()
    [drain] = table.engine.drains.of("default")
    assert (drain.scope, drain.id, "removed from the database" in str(drain.reason)) == ("agent", "shell", True)
    waiting = await table.execute()
    assert await table.state(waiting.id) == "queued"
    assert "tampered" in await table.actions()
    await table.engine.drains.undrain(OWNER, DrainBody(scope="agent", id="shell"), remember)
    await table.restart()
    await table.engine.start()
    assert (table.engine.drains.of("default"), await table.engine.rows.check()) == ([], [])
    await table.engine.drains.drain(OWNER, DrainBody(scope="agent", id="shell"), remember)
    await table.restart()
    await table.engine.start()
    assert [one.by for one in table.engine.drains.of("default")] == ["user:owner"]
    await table.engine.stop()
