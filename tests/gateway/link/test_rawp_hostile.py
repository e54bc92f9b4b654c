"""A runner that is broken or in hostile hands: what it causes is bounded, and concerns its own sessions alone (L-3)."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway.raw_runner import Server, warning
from interlock.engine.setbacks import SESSIONS_LISTED
from interlock.gateway.link import intake
from interlock.ports.ledger import WriteBatch
from interlock.protocol import payloads as p
from interlock.protocol.codes import CloseCode
from interlock.protocol.frames import Direction, decode
from interlock.protocol.resources import Target

pytestmark = pytest.mark.anyio
INVALID = {"turn_id": 7}
TURN = "7d444840-9dc0-41d5-bff0-12c3f7b6a5e1"


@pytest.mark.req("D-7", "L-2")
@pytest.mark.parametrize("is_invalid", [True, False], ids=["invalid", "misplaced"])
async def test_a_runner_that_confirms_nothing_loses_its_link_before_its_session_fills_memory(
    server: Server, monkeypatch: pytest.MonkeyPatch, is_invalid: bool
) -> None:
    monkeypatch.setattr(intake, "UNCONFIRMED_MAX", 20)
    payload = INVALID if is_invalid else p.TextDone(turn_id="none", block_id="b", text="")
    async with server.session() as (runner, session_id, _):
        for seq in range(2, 20):  # The open, the prompt and the capabilities are not confirmed either.
            runner.send("agent.text.done", payload, session_id=session_id, seq=seq)
        await runner.acked(19)
        runner.send("agent.text.done", payload, session_id=session_id, seq=20)
        code, reason = await runner.closed()
    assert (code, reason) == (CloseCode.LEDGER,
                              f"the runner does not confirm the control frames of session {session_id}")
    lane = (await server.lane(session_id)).lane
    assert (lane.state.last_seq, len(lane.unconfirmed)) == (19, 21)

    known = p.HelloSession(session_id=session_id, last_seq_sent=20, state="idle", acked_seq=19,
                           control_seq=lane.state.control_seq)
    async with server.attached(known) as runner:
        runner.send("agent.error", warning(), session_id=session_id, seq=20)
        await runner.acked(20)
    assert (await server.lane(session_id)).lane.unconfirmed == {}


async def prompt_of(server: Server, session_id: str) -> str:
    """The message id of the session's last prompt."""
    found = (await server.lane(session_id)).lane.state.prompt_message_id
    assert found is not None
    return found


def claimed(session_id: str, **fields: Any) -> p.HelloSession:
    """A session of which the runner claims to have more than the ledger."""
    return p.HelloSession(**{"session_id": session_id, "last_seq_sent": 9, "acked_seq": 9, "control_seq": 2**53,
                             "state": "idle", "controller": "g1", **fields})


@pytest.mark.req("D-5", "L-3", "C-7")
async def test_a_false_claim_that_the_ledger_lost_commits_concerns_the_runners_own_sessions(server: Server) -> None:
    async with server.session() as (_, own, _):
        kept = await server.execute("of another runner")
    other = kept.target.session_id
    shell = await server.lane(other)
    shell.lane.state.runner_id = "other"
    await server.ledger.commit(WriteBatch([shell.lane.snapshot()]))
    async with server.attached(claimed(own), claimed(other), claimed("unknown")):
        pass
    found = server.engine.setbacks.of("default")
    assert found is not None
    assert sorted((one.session_id, one.known) for one in found.sessions) == [(own, True), ("unknown", False)]
    assert await server.state(kept.id) not in ("canceled", "failed")
    assert server.engine.setbacks.of("another tenant") is None
    assert not server.engine.setbacks.held


@pytest.mark.req("D-5", "L-3")
async def test_any_number_of_claimed_sessions_is_counted_and_not_a_flood_of_log_lines(server: Server) -> None:
    with capture_logs() as logged:
        for part in range(2):
            async with server.attached(*(claimed(f"s{part}-{number}") for number in range(600))):
                pass
    counts = [line["count"] for line in logged if line["event"] == "ledger_restored"]
    assert counts == [*range(1, SESSIONS_LISTED + 1), 1_000]
    found = server.engine.setbacks.of("default")
    assert found is not None
    assert (found.session_count, len(found.sessions)) == (1_200, SESSIONS_LISTED)


@pytest.mark.req("C-8", "T-4", "P-1")
@pytest.mark.parametrize("refusal", ["NOT_ASKING", "PROMPT_IN_PROGRESS", None])
async def test_a_result_of_a_command_that_waits_is_not_its_result(server: Server, refusal: str | None) -> None:
    async with server.session() as (runner, session_id, first):
        record = await server.ledger.command(first, "default")
        assert record is not None
        if refusal is not None:  # The runner refuses the prompt, so that it waits again, and reports a turn of it.
            runner.send("session.error", p.SessionError(error_code=refusal, message="no", fatal=False),
                        session_id=session_id, seq=2, metadata={"in_reply_to": await prompt_of(server, session_id)})
            waiting = record
        else:  # The second command has not been sent to it.
            second = await server.execute("two", target=Target(session_id=session_id))
            waiting = await server.ledger.command(second.id, "default")
            runner.send("agent.error", warning(), session_id=session_id, seq=2)
        assert waiting is not None
        await runner.acked(2)
        state = await server.state(waiting.command.id)
        named = {"prompt_id": waiting.prompt_id or "prompt"}
        runner.send("session.turn.start", p.TurnStart(turn_id=TURN, turn_index=0), session_id=session_id, seq=3,
                    metadata=named)
        runner.send("agent.text.done", p.TextDone(turn_id=TURN, block_id="b", text="done"), session_id=session_id,
                    seq=4)
        runner.send("session.turn.end", p.TurnEnd(turn_id=TURN, stop_reason="end_turn"),
                    session_id=session_id, seq=5)
        await runner.acked(5)
        assert await server.state(waiting.command.id) == state
        assert state in ("queued", "pending_approval")
        assert (await server.actions())[-1] == "late_event"
        sent = [decode(raw, Direction.M).payload for raw in (await server.lane(session_id)).lane.unconfirmed.values()]
        assert p.TurnCancel(reason="its command has ended", turn_id=TURN) in sent
