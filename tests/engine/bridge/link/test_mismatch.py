"""Rows that SQL changed between the question and the yes: none of them runs, and each is reported and audited (H-5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from engine.conversation import OWNER, Table
from engine.within import Within
from interlock.command.policy.policy import RuleSet
from interlock.command.policy.rule import Rule
from interlock.engine.bridge import archive
from interlock.engine.bridge.inputs.gateway import StartLooked
from interlock.ports.ledger import PutApproval, PutCommand, WriteBatch
from interlock.protocol.problems import Problem
from interlock.protocol.records import ApprovalRecord, CommandRecord, Principal
from interlock.protocol.resources import Actor, Quorum, Vote

pytestmark = pytest.mark.anyio

ANN = Principal(tenant_id="default", actor=Actor(type="user", id="ann"), role="admin", key_id="key_a")
HELD = RuleSet((Rule(name="r", door="command", effect="ask", required=2),))
TOOLS = RuleSet((Rule(name="r", door="tool", effect="ask", required=2),))
OTHER = msgspec.Raw(b'{"messages":[{"role":"user","content":[{"contentType":"text","value":"rm -rf"}]}]}')


def approval(**changes: Any) -> Callable[[ApprovalRecord], ApprovalRecord]:
    return lambda one: msgspec.structs.replace(one, approval=msgspec.structs.replace(one.approval, **changes))


def command(**changes: Any) -> Callable[[CommandRecord], CommandRecord]:
    return lambda one: msgspec.structs.replace(one, command=msgspec.structs.replace(one.command, **changes))


async def change_approval(table: Table, approval_id: str, change: Callable[[ApprovalRecord], ApprovalRecord]) -> None:
    record = await table.ledger.approval(approval_id, "default")
    assert record is not None
    await table.ledger.commit(WriteBatch([PutApproval(change(record))]))


async def change_command(table: Table, command_id: str, change: Callable[[CommandRecord], CommandRecord]) -> None:
    record = await table.ledger.command(command_id, "default")
    assert record is not None
    await table.ledger.commit(WriteBatch([PutCommand(change(record))]))


async def restarted(table: Table, session_id: str) -> None:
    await table.restart()
    await (await table.lane(session_id)).call(StartLooked())


FORGED = Vote(by="user:eve", at="", decision="grant", method="acl", role="admin")
APPROVALS = {
    "required": approval(required=1),
    "groups": approval(groups=[Quorum(role="admin", min=0)]),
    "self_approval": approval(self_approval=False),
    "signed": approval(signed=True),
    "deny_threshold": approval(deny_threshold=9),
    "state": approval(state="granted"),
    "votes": approval(votes=[FORGED]),
    "votes and state": approval(votes=[FORGED, FORGED], state="granted"),
    "input": approval(input=OTHER),
    "digest": approval(digest="0" * 64),
    "title": approval(title="harmless"),
    "requested_by": approval(requested_by=Actor(type="user", id="eve")),
    "expires": lambda one: msgspec.structs.replace(one, expires_ms=one.expires_ms + 1),
}
COMMANDS = {
    "payload": command(payload=OTHER),
    "payload and its digest": command(payload=OTHER, payload_sha256="1" * 64),
    "state": command(state="queued"),
    "actor": command(actor=Actor(type="user", id="eve")),
    "origin": lambda one: msgspec.structs.replace(one, origin="flush"),
    "timeout": command(timeout_ms=10**12),
    "priority": command(priority=9),
    "on_busy": command(on_busy="interrupt"),
    "queue deadline": lambda one: msgspec.structs.replace(one, queue_deadline_ms=1),
    "approval deadline": lambda one: msgspec.structs.replace(one, approval_deadline_ms=10**15),
}
STARTED: dict[str, Callable[[CommandRecord], CommandRecord]] = {
    "detach deadline": lambda one: msgspec.structs.replace(one, detach_deadline_ms=1),
    "cancel deadline": lambda one: msgspec.structs.replace(one, cancel_deadline_ms=1),
    "time that is left": lambda one: msgspec.structs.replace(one, remaining_ms=10**12),
    "prompt": lambda one: msgspec.structs.replace(one, prompt_seq=9),
    "turn": command(turn_id="another"),
}


@pytest.mark.req("P-2", "U-2")
@pytest.mark.parametrize("what", APPROVALS)
async def test_a_held_command_whose_approvals_row_was_changed_does_not_run(what: str) -> None:
    table = Table(HELD)
    held = await table.execute()
    await change_approval(table, held.approval_id, APPROVALS[what])
    await restarted(table, held.target.session_id)
    assert await table.state(held.id) == "canceled"
    record = await table.ledger.approval(held.approval_id, "default")
    assert record is not None
    assert record.approval.state == "void"
    assert "tampered" in await table.actions()
    assert "control.prompt.request" not in table.wire.types()
    assert await table.has_notice(held.target.session_id, "Tampered", held.approval_id)
    with pytest.raises(Problem):
        await table.vote(held.approval_id, "grant", ANN)
    await table.engine.stop()


@pytest.mark.req("P-2", "U-2")
@pytest.mark.parametrize("what", COMMANDS)
async def test_a_held_command_whose_own_row_was_changed_does_not_run(what: str) -> None:
    table = Table(HELD)
    held = await table.execute()
    await change_command(table, held.id, COMMANDS[what])
    await restarted(table, held.target.session_id)
    assert await table.state(held.id) == "canceled"
    assert "tampered" in await table.actions()
    assert "control.prompt.request" not in table.wire.types()
    await table.engine.stop()


@pytest.mark.req("P-2", "U-2")
@pytest.mark.parametrize("what", STARTED)
async def test_a_command_whose_row_was_changed_while_it_ran_is_canceled(what: str) -> None:
    table = Table(RuleSet((Rule(name="r", door="command", effect="allow"),)))
    running = await table.execute()
    await table.opened(running.target.session_id)
    await table.started(running.target.session_id)
    await change_command(table, running.id, STARTED[what])
    await restarted(table, running.target.session_id)
    assert "tampered" in await table.actions()
    assert await table.has_notice(running.target.session_id, "Tampered", "its deadlines, prompt, turn, cancel")
    await table.engine.stop()


@pytest.mark.req("P-2", "U-2")
async def test_a_command_whose_runner_reconnected_matches_its_record() -> None:
    table = Table(RuleSet((Rule(name="r", door="command", effect="allow"),)))
    running = await table.execute()
    session_id = running.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    for _ in range(2):
        await restarted(table, session_id)
        await table.reattach(session_id, 9)
    assert "tampered" not in await table.actions()
    assert await table.state(running.id) == "running"
    await table.engine.stop()


@pytest.mark.req("P-2", "U-2")
async def test_a_command_that_waits_behind_another_is_compared_with_its_record() -> None:
    table = Table(RuleSet((Rule(name="r", door="command", effect="allow"),)))
    first = await table.execute("first")
    session_id = first.target.session_id
    second = await table.execute("second", target=msgspec.structs.replace(first.target, workspace=None))
    await table.opened(session_id)
    await change_command(table, second.id, command(payload=OTHER))
    await restarted(table, session_id)
    assert (await table.state(first.id), await table.state(second.id)) == ("dispatched", "canceled")
    await table.engine.stop()


@pytest.mark.req("P-2", "U-2")
@pytest.mark.parametrize("what", APPROVALS)
async def test_a_held_tool_call_whose_row_was_changed_is_denied(what: str) -> None:
    table = Table(TOOLS)
    running = await table.execute()
    session_id = running.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    await table.asked(session_id)
    [held] = await table.ledger.live_approvals(session_id, "default")
    await table.vote(held.approval.id, "grant", ANN)
    await change_approval(table, held.approval.id, APPROVALS[what])
    await restarted(table, session_id)
    answer = table.wire.last("control.interaction.response").payload
    assert answer.decision == "deny"
    assert "differs from the audit record" in answer.message
    assert "tampered" in await table.actions()
    await table.engine.stop()


@pytest.mark.req("P-2", "U-2")
async def test_unchanged_rows_continue_after_a_restart() -> None:
    table = Table(HELD)
    held = await table.execute()
    await table.vote(held.approval_id, "grant", ANN)
    await restarted(table, held.target.session_id)
    await table.vote(held.approval_id, "grant", OWNER)
    assert await table.state(held.id) == "dispatched"
    assert "tampered" not in await table.actions()
    await table.engine.stop()


@pytest.mark.req("P-2", "U-2")
@pytest.mark.parametrize("what", sorted(set(APPROVALS) - {"state", "votes", "votes and state"}))
async def test_a_row_that_is_changed_while_the_gateway_runs_is_refused_at_the_vote(what: str) -> None:
    table = Table(HELD)
    held = await table.execute()
    await change_approval(table, held.approval_id, APPROVALS[what])
    with pytest.raises(Problem, match="differs from the audit record"):
        await table.vote(held.approval_id, "grant", ANN)
    assert await table.state(held.id) == "canceled"
    assert "tampered" in await table.actions()
    assert "control.prompt.request" not in table.wire.types()
    await table.engine.stop()


@pytest.mark.req("P-2", "U-2")
async def test_a_payload_that_is_changed_while_the_gateway_runs_is_refused_at_the_vote() -> None:
    table = Table(HELD)
    held = await table.execute()
    await change_command(table, held.id, command(payload=OTHER))
    with pytest.raises(Problem, match="differs from the audit record"):
        await table.vote(held.approval_id, "grant", ANN)
    assert await table.state(held.id) == "canceled"
    await table.engine.stop()


@pytest.mark.req("U-1", "I-1")
@pytest.mark.parametrize("edited", [False, True])
async def test_a_command_that_closes_its_agent_survives_a_restart(edited: bool) -> None:
    table = Table(RuleSet((Rule(name="r", door="command", effect="allow"),)))
    running = await table.execute()
    session_id = running.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    shell = await table.lane(session_id)
    await shell.call(Within(lambda lane: archive.retire(lane, {"id": "gateway", "role": "system"}, asked=False)))
    if edited:
        await change_command(table, running.id, lambda one: msgspec.structs.replace(one, close_after=False))
    await table.restart()
    await table.reattach(session_id, 9)
    assert await table.state(running.id) == ("canceling" if edited else "running")
    assert ("tampered" in await table.actions()) == edited
    await table.engine.stop()
