"""A runner that is broken or in hostile hands: what it causes is bounded, and concerns its own sessions alone (L-3)."""

from __future__ import annotations

import pytest

from gateway.raw_runner import Server, warning
from interlock.gateway.link import intake
from interlock.protocol import payloads as p
from interlock.protocol.codes import CloseCode

pytestmark = pytest.mark.anyio
INVALID = {"turn_id": 7}


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
