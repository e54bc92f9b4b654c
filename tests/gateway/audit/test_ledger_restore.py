"""An older copy of the ledger is restored: runners and checkpoints show it, and commands are closed (D-5, C-7)."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from engine.conversation import USAGE
from gateway.audit.test_checkpoints import signer
from gateway.raw_runner import CAPABILITIES, Server
from interlock.command.policy.policy import Rule, RuleSet
from interlock.engine.bridge.link.ledger_restore import CODE
from interlock.gateway.audit.ledger_restore import RestoredLogs
from interlock.protocol import payloads as p

pytestmark = pytest.mark.anyio

TURN = "0b0c8f6e-6c36-4a7c-9d4e-5a2f0f1d2c3b"
NEXT_TURN = "1b0c8f6e-6c36-4a7c-9d4e-5a2f0f1d2c3b"


@pytest.fixture
async def server() -> Any:
    server = Server(policy=RuleSet([Rule(name="ask", effect="ask")]))
    await server.pair()
    yield server
    await server.engine.stop()


async def put_back(server: Server, older: Any) -> None:
    """Stop the gateway and start one on an older copy of the ledger."""
    await server.engine.stop()
    server.ledger = older
    server.begin()


async def running(server: Server, runner: Any, session_id: str) -> None:
    """The runner starts the turn of the command, and its agent asks."""
    prompt = await runner.frame("control.prompt.request")
    runner.send("session.capabilities", p.Capabilities(dps_version="rawp-dps-1.0", features={"permission": "asks"}),
                session_id=session_id, seq=1)
    runner.send("session.turn.start", p.TurnStart(turn_id=TURN, turn_index=0), session_id=session_id, seq=2,
                metadata={"prompt_id": prompt.payload.prompt_id})
    runner.send("agent.interaction.request", p.InteractionRequest(
        interaction_id="x", interaction_type="PERMISSION", title="ls",
        context=p.InteractionContext(tool_name="shell")), session_id=session_id, seq=3)
    await runner.acked(3)


async def approved(server: Server) -> Any:
    """A command that was allowed to start."""
    command = await server.execute()
    if command.approval_id:
        await server.vote(command.approval_id, "grant")
    return command


def seen(session_id: str, **fields: Any) -> p.HelloSession:
    return p.HelloSession(**{"session_id": session_id, "last_seq_sent": 5, "acked_seq": 5, "control_seq": 3,
                             "state": "idle", "controller": "g1", **fields})


async def notices(server: Server, session_id: str) -> list[str]:
    events = await server.ledger.events("default", f"s/{session_id}", 0, 200)
    return [json.loads(event.body)["message"] for event in events if event.kind == "notice"]


@pytest.mark.req("C-7", "D-5", "U-1")
async def test_a_command_whose_turn_ended_after_the_backup_is_closed(server: Server) -> None:
    async with server.attached() as runner:
        command = await approved(server)
        session_id = command.target.session_id
        await running(server, runner, session_id)
        older = copy.deepcopy(server.ledger)
    await put_back(server, older)
    assert await server.state(command.id) == "running"

    async with server.attached(seen(session_id)) as runner:
        closing = await runner.frame("control.session.close")
        assert closing.seq is not None
        record = await server.ledger.command(command.id, "default")
        assert record is not None
        assert record.command.error is not None
        assert (record.command.state, record.command.error.code) == ("failed", CODE)
        assert not await server.ledger.approvals("default", "pending", None, 10)
        before = await notices(server, session_id)
        assert any("2 frames were lost" in one and "older copy" in one for one in before)
        assert not any("buffer was full" in one for one in before)
        assert (await server.actions()).count("ledger_restored") == 1
        found = server.engine.setbacks.of("default")
        assert found is not None
        assert [(one.session_id, one.frames, one.commands) for one in found.sessions] == [(session_id, 2, [command.id])]

        runner.send("session.closed", p.SessionClosed(reason="asked"), session_id=session_id, seq=6)
        await runner.acked(6)
        shell = await server.lane(session_id)
        assert shell.lane.state.opening == "closed"
        assert shell.lane.active is None


@pytest.mark.req("C-7", "D-5")
async def test_missing_data_is_reported_once_however_often_the_runner_reconnects(server: Server) -> None:
    async with server.attached() as runner:
        command = await approved(server)
        session_id = command.target.session_id
        await running(server, runner, session_id)
        older = copy.deepcopy(server.ledger)
    await put_back(server, older)
    for _ in range(3):
        async with server.attached(seen(session_id, control_seq=4)):
            pass
    assert (await server.actions()).count("ledger_restored") == 1
    assert sum("older copy" in one for one in await notices(server, session_id)) == 1


@pytest.mark.req("C-7", "D-5")
async def test_a_turn_that_still_runs_is_kept_and_its_answered_question_is_not_asked_again(server: Server) -> None:
    async with server.attached() as runner:
        command = await approved(server)
        session_id = command.target.session_id
        await running(server, runner, session_id)
        older = copy.deepcopy(server.ledger)
    await put_back(server, older)
    async with server.attached(seen(session_id, state="running", turn_id=TURN)) as runner:
        assert await server.state(command.id) == "running"
        assert not await server.ledger.approvals("default", "pending", None, 10)
        runner.send("session.turn.end", p.TurnEnd(turn_id=TURN, stop_reason="end_turn"), session_id=session_id, seq=6)
        runner.send("session.usage", USAGE, session_id=session_id, seq=7)
        await runner.acked(7)
        assert await server.state(command.id) == "succeeded"


@pytest.mark.req("C-5", "C-7", "D-5")
async def test_a_command_that_may_have_run_since_the_copy_is_not_run_again(server: Server) -> None:
    async with server.attached() as runner:
        first = await approved(server)
        session_id = first.target.session_id
        await running(server, runner, session_id)
        waiting = await server.execute("again", target=first.target)
        older = copy.deepcopy(server.ledger)
    await put_back(server, older)
    async with server.attached(seen(session_id, control_seq=9, state="running", turn_id=NEXT_TURN)) as runner:
        closing = await runner.frame("control.session.close")
        assert (closing.seq or 0) > 9  # A number that the runner has seen would be taken for an old frame.
        record = await server.ledger.command(waiting.id, "default")
        assert record is not None
        assert record.command.error is not None
        assert (record.command.state, record.command.error.code) == ("canceled", CODE)


@pytest.mark.req("C-5", "C-7", "D-5")
async def test_a_session_forgotten_by_its_runner_is_closed_and_does_not_run_again(server: Server) -> None:
    async with server.attached() as runner:
        first = await approved(server)
        session_id = first.target.session_id
        await running(server, runner, session_id)
        waiting = await server.execute("again", target=first.target)
        older = copy.deepcopy(server.ledger)
    await put_back(server, older)
    gone = p.ForgottenSession(session_id=session_id, acked_seq=9, control_seq=7)
    async with server.attached(forgotten=[gone]) as runner:
        states = {}
        for command in (first, waiting):
            record = await server.ledger.command(command.id, "default")
            assert record is not None
            assert record.command.error is not None
            states[command.id] = (record.command.state, record.command.error.code)
        assert states == {first.id: ("failed", CODE), waiting.id: ("canceled", CODE)}
        assert not await server.ledger.approvals("default", "pending", None, 10)
        found = server.engine.setbacks.of("default")
        assert found is not None
        assert [(one.session_id, one.frames) for one in found.sessions] == [(session_id, 6)]
        later = await server.execute("after it", target=first.target)
        await server.vote(later.approval_id or "", "grant")
        opening = await runner.frame("control.session.open")
        assert (opening.seq or 0) > 7  # A number that the runner has seen would be taken for an old frame.
        assert opening.metadata["last_durable_seq"] == 9
        runner.send("session.capabilities", CAPABILITIES, session_id=session_id, seq=10)
        await runner.acked(10)


@pytest.mark.req("C-7", "D-5")
async def test_a_closed_session_continues_numbering_after_its_runners_forgotten_frames(server: Server) -> None:
    async with server.attached() as runner:
        command = await approved(server)
        session_id = command.target.session_id
        await runner.frame("control.prompt.request")
        runner.send("session.error", p.SessionError(error_code="X", fatal=True, message="no"), session_id=session_id,
                    seq=1)
        runner.send("session.closed", p.SessionClosed(reason="failed"), session_id=session_id, seq=2)
        await runner.acked(2)
    await put_back(server, copy.deepcopy(server.ledger))
    assert not await server.ledger.runner_sessions("local", "default"), "closed, so the link does not read it"
    gone = p.ForgottenSession(session_id=session_id, acked_seq=30, control_seq=20)
    async with server.attached(forgotten=[gone]) as runner:
        later = await server.execute("after it", target=command.target)
        await server.vote(later.approval_id or "", "grant")
        opening = await runner.frame("control.session.open")
        assert (opening.seq or 0) > 20
        assert opening.metadata["last_durable_seq"] == 30
        runner.send("session.capabilities", CAPABILITIES, session_id=session_id, seq=31)
        await runner.acked(31)
        found = server.engine.setbacks.of("default")
        assert found is not None
        assert [(one.session_id, one.frames) for one in found.sessions] == [(session_id, 28)]


@pytest.mark.req("D-5")
async def test_a_forgotten_session_that_the_ledger_has_is_not_a_finding(server: Server) -> None:
    async with server.attached() as runner:
        command = await approved(server)
        session_id = command.target.session_id
        await running(server, runner, session_id)
    gone = p.ForgottenSession(session_id=session_id, acked_seq=3, control_seq=2)
    async with server.attached(forgotten=[gone, p.ForgottenSession(session_id="old", acked_seq=9, control_seq=9)]):
        record = await server.ledger.command(command.id, "default")
        assert record is not None
        assert record.command.error is not None
        assert record.command.error.code == "AgentLost", "the runner must list what runs"
    assert server.engine.setbacks.of("default") is None


@pytest.mark.req("D-5")
async def test_a_session_that_the_ledger_does_not_have_is_listed_once(server: Server) -> None:
    for _ in range(2):
        async with server.attached(seen("gone")):
            pass
    found = server.engine.setbacks.of("default")
    assert found is not None
    assert [(one.session_id, one.known) for one in found.sessions] == [("gone", False)]
    assert found.session_count == 1


@pytest.mark.req("D-5")
async def test_a_runner_that_matches_the_ledger_is_not_a_finding(server: Server) -> None:
    async with server.attached() as runner:
        command = await approved(server)
        session_id = command.target.session_id
        await running(server, runner, session_id)
    known = seen(session_id, last_seq_sent=3, acked_seq=3, control_seq=3, state="waiting_approval", turn_id=TURN)
    async with server.attached(known):
        assert await server.state(command.id) == "running"
        assert len(await server.ledger.approvals("default", "pending", None, 10)) == 1
    assert server.engine.setbacks.of("default") is None
    assert "ledger_restored" not in await server.actions()


@pytest.mark.req("C-5", "U-3")
async def test_a_log_shorter_than_its_signed_size_closes_commands_that_may_have_run(
    server: Server, tmp_path: Path
) -> None:
    async with server.attached():
        command = await server.execute()
        first = signer(server.ledger, tmp_path)
        await first.sign_tenant("default")
        older = copy.deepcopy(server.ledger)
        if command.approval_id:
            await server.vote(command.approval_id, "grant")
        await first.sign_tenant("default")
    await put_back(server, older)
    logs = RestoredLogs(server.engine, signer(server.ledger, tmp_path))
    await logs.look()
    found = server.engine.setbacks.of("default")
    assert found is not None
    assert (found.records_signed or 0) > (found.records_kept or 0) > 0
    assert "default" in server.engine.setbacks.held
    logs.close()
    await logs.settled()
    assert "default" not in server.engine.setbacks.held
    assert await server.state(command.id) == "canceled"
    assert (await server.actions()).count("ledger_restored") == 1
    await RestoredLogs(server.engine, signer(server.ledger, tmp_path)).look()
    assert "default" not in server.engine.setbacks.held  # Closed once for each copy.


@pytest.mark.req("C-5", "U-3")
async def test_a_log_as_long_as_its_signed_size_is_not_a_finding(server: Server, tmp_path: Path) -> None:
    async with server.attached():
        command = await server.execute()
        await signer(server.ledger, tmp_path).sign_tenant("default")
    await RestoredLogs(server.engine, signer(server.ledger, tmp_path)).look()
    assert server.engine.setbacks.of("default") is None
    assert await server.state(command.id) in ("queued", "pending_approval", "dispatched")
