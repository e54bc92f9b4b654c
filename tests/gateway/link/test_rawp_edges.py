"""A lane that breaks under a link, and links that overlap: no frame is lost, doubled, or fatal for ever (D-1, E-1)."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from gateway.raw_runner import Server, warning
from interlock.command.policy.policy import PolicySubject, PolicyVerdict, RuleSet
from interlock.ports.ledger import LedgerError
from interlock.protocol import payloads as p

TURN = "7d444840-9dc0-41d5-bff0-12c3f7b6a5e1"
pytestmark = pytest.mark.anyio


class Faulty(RuleSet):
    """A rule with a mistake in it."""

    def decide(self, subject: PolicySubject) -> PolicyVerdict:
        if subject.door == "tool":
            raise ZeroDivisionError
        return super().decide(subject)


@pytest.mark.req("E-1", "D-1")
async def test_a_frame_that_breaks_its_lane_is_refused_when_sent_again() -> None:
    server = Server(policy=Faulty())
    await server.pair()
    asked = p.InteractionRequest(interaction_id="x", interaction_type="PERMISSION", title="ls",
                                 context=p.InteractionContext(tool_name="shell"))

    async with server.session() as (runner, session_id, command_id):
        record = await server.ledger.command(command_id, "default")
        runner.send("session.turn.start", p.TurnStart(turn_id=TURN, turn_index=0), session_id=session_id, seq=2,
                    metadata={"prompt_id": record.prompt_id})  # type: ignore[union-attr]
        await runner.acked(2)
        runner.send("agent.interaction.request", asked, session_id=session_id, seq=3)
        assert (await runner.closed())[0] == 1011
    known = p.HelloSession(session_id=session_id, last_seq_sent=4, control_seq=3, state="running")
    async with server.attached(known) as runner:
        runner.send("agent.interaction.request", asked, session_id=session_id, seq=3)
        runner.send("agent.error", warning(), session_id=session_id, seq=4)
        error = await runner.frame("session.error")
        assert error.payload.error_code == "INTERNAL"
        await runner.acked(4)
    assert await server.kinds(session_id) == ["session.capabilities", "session.turn.start", "refused", "agent.error"]
    await server.engine.stop()


@pytest.mark.req("D-1", "D-6", "E-3")
async def test_a_frame_does_not_overtake_one_that_is_not_durable(server: Server) -> None:
    real = server.ledger.commit
    full = asyncio.Event()

    async def commit(batch: Any) -> Any:
        if full.is_set():
            full.clear()
            raise LedgerError("disk full")
        return await real(batch)

    server.ledger.commit = commit  # type: ignore[method-assign]
    async with server.session() as (runner, session_id, _):
        full.set()
        runner.send("agent.error", warning("first"), session_id=session_id, seq=2)
        while full.is_set():
            await asyncio.sleep(0)
        runner.send("agent.error", warning("second"), session_id=session_id, seq=3)
        assert (await runner.closed())[0] == 1011
    known = p.HelloSession(session_id=session_id, last_seq_sent=3, control_seq=3, state="idle")
    async with server.attached(known) as runner:
        runner.send("agent.error", warning("first"), session_id=session_id, seq=2)
        runner.send("agent.error", warning("second"), session_id=session_id, seq=3)
        await runner.acked(3)
    events = await server.ledger.events("default", f"s/{session_id}", 0, 100)
    messages = [msgspec.json.decode(event.body)["payload"].get("message") for event in events if event.kind == "C"]
    assert messages == [None, "first", "second"]


@pytest.mark.req("D-1", "E-3")
async def test_frames_sent_on_two_links_of_a_runner_are_applied_once(server: Server) -> None:
    async with server.session() as (old, session_id, _):
        old.send("agent.error", warning("a"), session_id=session_id, seq=2)
        old.send("agent.error", warning("b"), session_id=session_id, seq=3)
        shell = await server.lane(session_id)
        while shell.lane.state.last_seq < 3:
            await asyncio.sleep(0)
        known = p.HelloSession(session_id=session_id, last_seq_sent=3, control_seq=3, state="idle")
        async with server.attached(known) as new:
            for seq, text in ((2, "a"), (3, "b"), (4, "c")):
                new.send("agent.error", warning(text), session_id=session_id, seq=seq)
            await new.acked(4)
    assert await server.kinds(session_id) == ["session.capabilities", *["agent.error"] * 3]


@pytest.mark.req("D-1")
async def test_a_number_used_up_by_a_repetition_is_durable_before_it_is_acknowledged(server: Server) -> None:
    async with server.session() as (runner, session_id, _):
        frame = {"session_id": session_id, "message_id": "same"}
        runner.send("agent.error", warning(), seq=2, **frame)
        runner.send("agent.error", warning(), seq=3, **frame)
        await runner.acked(3)
        row = await server.ledger.session(session_id)
        assert msgspec.json.decode(row.machine)["last_seq"] == 3  # type: ignore[union-attr]
    assert (await server.kinds(session_id)).count("agent.error") == 1
