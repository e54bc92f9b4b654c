"""Effects of a tool that ran without a grant on its command and its session (H-3, H-12)."""

from __future__ import annotations

import msgspec
import pytest

from engine.conversation import Table
from interlock.command.policy.policy import Rule, RuleSet
from interlock.engine.bridge.lane_state import Limits
from interlock.protocol import payloads as p
from interlock.protocol.resources import Command, Target

pytestmark = [pytest.mark.anyio, pytest.mark.req("A-10", "P-1", "H-3", "H-12")]
SENTENCE = "The agent ran a tool without asking: $ rm -rf build"


async def ran(table: Table, code: str = "RAN_UNASKED") -> Command:
    """A command in whose turn a tool runs without a grant."""
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    await table.send(session_id, "agent.error", p.AgentError(severity="error", error_code=code, message=SENTENCE))
    return command


async def now(table: Table, command: Command) -> Command:
    found = await table.ledger.command(command.id, "default")
    assert found is not None
    return found.command


@pytest.mark.parametrize(("code", "notice"), [
    ("RAN_UNASKED", "RanUnasked"), ("RAN_OTHER_THAN_ALLOWED", "RanOtherThanAllowed")])
@pytest.mark.parametrize("stop", ["cancelled", "end_turn"])
async def test_the_turn_is_cancelled_and_its_command_fails_with_the_reason(code: str, notice: str, stop: str) -> None:
    table = Table()
    command = await ran(table, code)
    assert table.wire.last("control.turn.cancel").payload.reason == code
    await table.ended(command.target.session_id, stop)
    ended = await now(table, command)
    assert (ended.state, ended.error.code, ended.error.message) == ("failed", code, SENTENCE)
    assert notice in [one.code for one in ended.notices]
    assert "ran_unasked" in await table.actions()


async def test_a_person_may_still_cancel_the_turn() -> None:
    table = Table()
    command = await ran(table)
    await table.cancel(command.id)
    await table.ended(command.target.session_id, "cancelled")
    assert (await now(table, command)).state == "canceled"


async def test_the_config_can_restrict_it_to_a_report() -> None:
    table = Table()
    table.engine.configure(table.policy, Limits(on_unasked="tell"))
    command = await ran(table)
    assert "control.turn.cancel" not in table.wire.types()
    await table.ended(command.target.session_id)
    ended = await now(table, command)
    assert (ended.state, [one.code for one in ended.notices]) == ("succeeded", ["RanUnasked"])


async def test_the_sessions_next_command_waits_for_a_person_despite_rules() -> None:
    table = Table(RuleSet([Rule(name="make", effect="allow", door="tool", words="make")]))
    command = await ran(table)
    session_id = command.target.session_id
    await table.ended(session_id, "cancelled")
    held = await table.execute("more", target=Target(session_id=session_id))
    assert held.state == "pending_approval"
    await table.vote(held.approval_id, "grant")
    await table.started(session_id, "t2")
    await table.asked(session_id, "make", "t2", "i2")
    assert table.wire.types()[-1] == "x-interlock.interaction.held"


async def test_a_new_opening_that_declares_requests_does_not_undo_it() -> None:
    table = Table()
    command = await ran(table)
    session_id = command.target.session_id
    await table.ended(session_id, "cancelled")
    await table.send(session_id, "session.closed", p.SessionClosed(reason="idle"))
    await table.send(session_id, "session.capabilities", p.Capabilities(
        dps_version="rawp-dps-1.0", features={"permission": "asks"}))
    state = (await table.lane(session_id)).lane.state
    assert (state.fell, state.permission) == (True, "never")
    assert msgspec.json.decode(msgspec.json.encode(state), type=type(state)).fell
