"""Control frames and session state that SQL changed while they waited: none is sent or used (H-5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from engine.conversation import Table
from interlock.command.policy.policy import RuleSet
from interlock.command.policy.rule import Rule
from interlock.engine.bridge import seals
from interlock.engine.bridge.lane_state import LaneState
from interlock.ports.ledger import DropControls, Put, PutControl, PutSession, WriteBatch
from interlock.protocol.box import Box
from interlock.protocol.hold import Holding
from interlock.protocol.records import ControlRecord, TenantRecord

pytestmark = [pytest.mark.anyio, pytest.mark.req("H-5", "D-7")]
ALLOW = RuleSet((Rule(name="r", door="command", effect="allow"),))


async def begun(policy: RuleSet = ALLOW) -> tuple[Table, str, str]:
    """A gateway that binds rows, and a command whose prompt is on its way to the runner."""
    table = Table(policy)
    assert await table.engine.adopt()
    command = await table.execute("ls")
    return table, command.id, command.target.session_id


async def restarted(table: Table, session_id: str) -> None:
    """Kill the gateway, start it again, and have the runner report that it has nothing yet."""
    await table.restart()
    await table.reattach(session_id, 0)


async def put(table: Table, session_id: str, seq: int, change: dict[str, Any] | None) -> None:
    """Change, or with None remove, a stored control frame; one that is not there is inserted as a copy of the last."""
    controls = {one.seq: one for one in await table.ledger.controls(session_id, "default", 0)}
    await table.ledger.commit(WriteBatch([DropControls("default", session_id, max(controls))]))
    if change is None:
        del controls[seq]
    else:
        frame = msgspec.json.decode(controls.get(seq, controls[max(controls)]).body)
        frame["seq"] = seq
        frame["payload"].update(change)
        controls[seq] = ControlRecord(session_id=session_id, seq=seq, message_id=frame["message_id"],
                                      body=msgspec.json.encode(frame))
    await table.ledger.commit(WriteBatch([PutControl(one, "default") for one in controls.values()]))


async def edit_state(table: Table, session_id: str, change: dict[str, Any]) -> None:
    record = await table.ledger.session(session_id)
    assert record is not None
    machine = msgspec.json.encode({**msgspec.json.decode(record.machine), **change})
    await table.ledger.commit(WriteBatch([PutSession(msgspec.structs.replace(record, machine=machine))]))


def prompts(table: Table) -> list[str]:
    return [frame.payload.text for frame in table.wire.sent if frame.type == "control.prompt.request"]


async def test_unchanged_frames_are_sent_after_a_restart() -> None:
    table, command_id, session_id = await begun()
    await restarted(table, session_id)
    assert prompts(table) == ["ls"]
    assert await table.state(command_id) == "dispatched"
    assert "tampered" not in await table.actions()
    await table.engine.stop()


@pytest.mark.parametrize(("seq", "change"), [
    (1, {"workspace": "/etc"}), (2, {"text": "rm -rf"}), (1, None), (2, None),
])
async def test_a_changed_or_removed_frame_is_not_sent(seq: int, change: Any) -> None:
    table, command_id, session_id = await begun()
    await put(table, session_id, seq, change)
    await restarted(table, session_id)
    sent = msgspec.json.encode(table.wire.sent)
    assert b"rm -rf" not in sent
    assert b"/etc" not in sent
    assert [frame.seq for frame in table.wire.sent][:2] == [1, 2]
    assert table.wire.sent[seq - 1].metadata.keys() >= {"replaces"}
    assert await table.state(command_id) == "canceling"
    assert "tampered" in await table.actions()
    assert await table.has_notice(session_id, "Tampered")
    await table.engine.stop()


async def test_an_inserted_frame_is_not_sent_and_running_work_continues() -> None:
    table, command_id, session_id = await begun()
    await put(table, session_id, 9, {"text": "rm -rf"})
    await restarted(table, session_id)
    assert prompts(table) == ["ls"]
    assert await table.state(command_id) == "dispatched"
    assert "tampered" in await table.actions()
    await table.engine.stop()


async def test_an_answer_changed_into_a_grant_is_not_sent() -> None:
    table, command_id, session_id = await begun(RuleSet((
        Rule(name="c", door="command", effect="allow"), Rule(name="t", door="tool", effect="ask"))))
    await table.opened(session_id)
    await table.started(session_id)
    await table.confirm(session_id, 2)
    await table.asked(session_id)
    [held] = await table.ledger.live_approvals(session_id, "default")
    await table.vote(held.approval.id, "deny")
    answer = table.wire.last("control.interaction.response")
    assert answer.seq is not None
    await put(table, session_id, answer.seq, {"decision": "allow"})
    await restarted(table, session_id)
    decisions = [frame.payload.decision for frame in table.wire.sent if frame.type == "control.interaction.response"]
    assert "allow" not in decisions
    assert await table.state(command_id) == "canceling"
    await table.engine.stop()


@pytest.mark.parametrize("change", [
    {"permission": "asks", "trusted_kinds": True}, {"workspace": "/etc"}, {"agent_id": "other"},
    {"turn_raised": {"b": 10**9}},
    {"held_answers": [{"interaction_id": "x-i1", "decision": "allow", "by": "user:eve"}]},
    {"box": {"walls": "namespace"}}, {"offered_box": {"walls": "namespace"}}, {"holding": {"held": "asks"}},
    {"agent_session": "another conversation"}, {"unasked": ["RAN_UNASKED", "x"]}, {"turn_start_n": 0},
])
async def test_a_state_that_was_changed_is_not_used(change: dict[str, Any]) -> None:
    table, command_id, session_id = await begun()
    await table.opened(session_id)
    await table.started(session_id)
    await edit_state(table, session_id, change)
    await restarted(table, session_id)
    state = (await table.lane(session_id)).lane.state
    assert (state.permission, state.trusted_kinds, state.fell) == ("never", False, True)
    assert (state.held_answers, state.turn_raised) == ([], {})
    assert await table.state(command_id) == "canceling"
    assert "tampered" in await table.actions()
    await table.engine.stop()


async def test_frames_falsely_stored_as_confirmed_are_reported_once() -> None:
    table, _, session_id = await begun()
    await table.opened(session_id)
    await edit_state(table, session_id, {"control_acked": 2})
    await restarted(table, session_id)
    await restarted(table, session_id)
    assert (await table.actions()).count("tampered") == 1
    assert await table.has_notice(session_id, "Tampered", "stored as confirmed by the runner")
    await table.engine.stop()


@pytest.mark.parametrize("form", [seals._of_before, seals._with_box])
@pytest.mark.parametrize("change", [{}, {"workspace": "/etc"}])
async def test_a_state_sealed_by_an_earlier_version_is_compared_up_to_its_seal(
    change: dict[str, Any], form: Callable[[LaneState], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr("interlock.engine.bridge.seals.deciding", lambda state: seals._encode(form(state)))
        table, command_id, session_id = await begun()
        await table.opened(session_id)
        await table.engine.stop()
    await edit_state(table, session_id, change)
    table.begin()
    await table.reattach(session_id, 9)
    assert await table.state(command_id) == ("canceling" if change else "dispatched")
    await table.engine.stop()


async def test_a_session_in_a_box_continues_after_a_restart() -> None:
    box = Box(walls="namespace", limited=True, network="model", programs=True)
    table = Table(ALLOW, holding=Holding(held="asks", why="checked here"), box=box)
    await table.engine.adopt()
    command = await table.execute("ls")
    await table.opened(command.target.session_id)
    await restarted(table, command.target.session_id)
    assert (await table.lane(command.target.session_id)).lane.state.box == box
    assert "tampered" not in await table.actions()
    await table.engine.stop()


@pytest.mark.parametrize("tampered", [False, True])
async def test_frames_of_an_earlier_version_are_adopted_as_they_are(
    tampered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(ALLOW)
    await table.ledger.commit(WriteBatch([Put(TenantRecord(tenant_id="default", name="", created_ms=0)),
                                          Put(table.record)]))
    with monkeypatch.context() as earlier:
        earlier.setattr("interlock.engine.bridge.kernel.seal", lambda lane: None)
        command = await table.execute("ls")
        await table.engine.stop()
    session_id = command.target.session_id
    table.begin()
    assert await table.engine.adopt()
    if tampered:
        await put(table, session_id, 2, {"text": "rm -rf"})
    await restarted(table, session_id)
    assert prompts(table) == ([] if tampered else ["ls"])
    await table.engine.stop()
