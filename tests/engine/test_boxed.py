"""An agent in a box works without questions if a rule allows it, by its runner's report for this opening (H-18)."""

from __future__ import annotations

import msgspec
import pytest

from engine.conversation import OWNER, Table
from interlock.backends.memory.ledger import MemoryLedger
from interlock.command.card.asked_by import names
from interlock.command.policy.policy import RuleSet
from interlock.command.policy.presets import rules_of
from interlock.protocol import payloads as p
from interlock.protocol.box import Box
from interlock.protocol.codes import Code
from interlock.protocol.resources import Approval, Command, Target

pytestmark = [pytest.mark.anyio, pytest.mark.req("H-18")]
CLOSED = Box(walls="namespace", limited=True, network="model")
WALLS = Box(walls="namespace")
BOXED = RuleSet(rules_of(["boxed"]))


async def pending(table: Table) -> list[Approval]:
    shells = [await table.lane(session) for session in table.seqs]
    return [one.approval for shell in shells for one in shell.lane.approvals.values()
            if one.approval.state == "pending"]


async def now(table: Table, command: Command) -> Command:
    found = await table.ledger.command(command.id, "default")
    assert found is not None
    return found.command


async def calling(table: Table) -> str:
    """A session whose agent asks whether it may run a command."""
    session_id = (await table.execute()).target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    await table.asked(session_id)
    return session_id


async def test_only_a_tool_in_a_closed_box_runs_without_a_request() -> None:
    boxed = Table(BOXED, box=CLOSED)
    await calling(boxed)
    assert boxed.wire.last("control.interaction.response").payload.decision == "allow"
    for box in (WALLS, Box(walls="none", limited=True, network="none"), None):
        table = Table(BOXED, box=box)
        await calling(table)
        assert [one.rule for one in await pending(table)] == ["ask before a tool"]


async def test_only_a_statement_of_this_opening_counts() -> None:
    table = Table(BOXED, box=CLOSED)
    session_id = (await table.execute()).target.session_id
    await table.boxed(session_id, CLOSED, in_reply_to="of-another-open")
    await table.started(session_id)
    await table.asked(session_id)
    asked = await pending(table)
    assert [(one.rule, one.box) for one in asked] == [("ask before a tool", None)]


async def test_the_card_shows_the_box_and_the_row_cannot_be_given_another_one() -> None:
    table = Table(box=WALLS)
    session_id = await calling(table)
    asked = (await pending(table))[0]
    assert "behind walls (namespace): open network; writes are not held" in names(asked)
    record = await table.ledger.approval(asked.id, "default")
    assert record is not None
    assert isinstance(table.ledger, MemoryLedger)
    table.ledger._approvals[asked.id] = msgspec.structs.replace(
        record, approval=msgspec.structs.replace(asked, box=CLOSED))
    table.begin()
    await table.reattach(session_id, 9)
    stored = await table.ledger.approval(asked.id, "default")
    assert stored is not None
    assert stored.approval.state == "void", "the audit record of its opening names another box"


async def test_an_agent_without_requests_starts_without_approval_in_its_box() -> None:
    table = Table(BOXED, permission="never", box=CLOSED)
    command = await table.execute()
    await table.opened(command.target.session_id)
    await table.started(command.target.session_id)
    await table.ended(command.target.session_id)
    assert (await now(table, command)).state == "succeeded"
    record = await table.ledger.session(command.target.session_id, OWNER.tenant_id)
    assert record is not None
    holding = table.engine.sessions.shown(record).holding
    assert holding is not None
    assert (holding.held, holding.why) == ("box", "rule boxed: start in a box, for an agent that never asks")


async def refused(table: Table, command: Command, opened_in: Box | None) -> Command:
    """The agent opens in another box, and its runner refuses the prompt before a turn starts."""
    session_id = command.target.session_id
    await table.boxed(session_id, opened_in)
    prompt = table.wire.last("control.prompt.request")
    assert prompt.payload.only_in_box == CLOSED
    await table.send(session_id, "session.error", p.SessionError(
        error_code=Code.NOT_BOXED.value, message="It is in less of a box.", fatal=False),
        in_reply_to=prompt.message_id)
    return await now(table, command)


@pytest.mark.parametrize("opened_in", [WALLS, None])
async def test_an_agent_in_a_weaker_box_than_offered_waits_for_approval(opened_in: Box | None) -> None:
    table = Table(BOXED, permission="never", box=CLOSED)
    command = await table.execute()
    held = await refused(table, command, opened_in)
    assert (held.state, held.started_at) == ("pending_approval", None)
    assert "It is in less of a box." in held.notices[-1].message
    assert [one.box for one in await pending(table)] == [opened_in]
    table.begin()
    await table.reattach(command.target.session_id, 9)
    await table.vote(held.approval_id or "", "grant")
    assert table.wire.last("control.prompt.request").payload.only_in_box == opened_in


async def test_another_closed_box_is_decided_again_and_continues() -> None:
    table = Table(BOXED, permission="never", box=CLOSED)
    command = await table.execute()
    other = Box(walls="namespace", limited=True, network=["443"])
    assert (await refused(table, command, other)).state == "dispatched"
    assert table.wire.last("control.prompt.request").payload.only_in_box == other
    table.begin()
    await table.reattach(command.target.session_id, 9)
    assert (await now(table, command)).state == "dispatched", "the log names the box that it needs now"


async def test_a_grant_for_a_box_does_not_cover_a_weaker_one() -> None:
    table = Table(permission="never", box=CLOSED)
    command = await table.execute()
    await table.vote((await now(table, command)).approval_id or "", "grant")
    held = await refused(table, command, WALLS)
    assert held.state == "pending_approval"
    assert [one.box for one in await pending(table)] == [WALLS]


async def test_a_runner_that_does_not_know_the_condition_has_its_turn_cancelled() -> None:
    table = Table(BOXED, permission="never", box=CLOSED)
    command = await table.execute()
    session_id = command.target.session_id
    await table.boxed(session_id, WALLS)
    await table.started(session_id)
    assert table.wire.last("control.turn.cancel").payload.reason == "NOT_BOXED"
    await table.ended(session_id, "cancelled")
    ended = await now(table, command)
    assert (ended.state, ended.error.code if ended.error else "") == ("failed", "NOT_BOXED")


async def test_an_edited_row_does_not_start_without_its_box() -> None:
    table = Table(BOXED, permission="never", box=CLOSED)
    first = await table.execute()
    session_id = first.target.session_id
    await table.opened(session_id)
    second = await table.execute("more", target=Target(session_id=session_id))
    record = await table.ledger.command(second.id, "default")
    assert record is not None
    assert record.needs_box == CLOSED
    table.begin()
    assert isinstance(table.ledger, MemoryLedger)
    table.ledger._commands[second.id] = msgspec.structs.replace(record, needs_box=None)
    await table.reattach(session_id, 9)
    ended = await now(table, second)
    assert (ended.state, "the box that it needs" in (ended.error.message if ended.error else "")) == ("canceled", True)
