"""Frames of the gateway: an unknown one changes nothing, and a refused one is repeated until it is known (D-7)."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.protocol import payloads as p
from runner.stage import Stage, stage

pytestmark = pytest.mark.anyio


async def ended(scene: Stage) -> p.SessionClosed:
    return (await scene.next("session.closed")).payload


@pytest.mark.req("T-5", "A-4")
async def test_a_fatal_error_of_the_gateway_ends_the_agent(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.open("bad")
        await scene.prompt("wait")
        await scene.send("session.error", p.SessionError(error_code="INTERNAL", message="no more", fatal=True))
        assert (await scene.next("session.turn.end")).payload.stop_reason == "cancelled"
        assert (await ended(scene)).reason == "no more"


@pytest.mark.req("E-1")
async def test_a_control_frame_of_an_unknown_type_changes_nothing(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.open("bad")
        await scene.send("control.dance", p.TurnPause(reason="x"))
        assert "control.dance" in (await scene.next("session.error")).payload.message
        assert (await scene.turn("text:on")).payload.stop_reason == "end_turn"


@pytest.mark.req("D-7", "W-2")
async def test_a_refused_control_frame_is_repeated_in_hello_until_acknowledged(tmp_path: Path) -> None:
    async with stage(tmp_path) as played:
        prompt = await played.prompt("too early")
        answer = await played.next("session.error")
        (report,) = await played.sessions.hello_sessions("")
        (refusal,) = report.refused
        assert (refusal.message_id, refusal.error_code) == (prompt.message_id, "SESSION_NOT_FOUND")
        assert answer.metadata["in_reply_to"] == prompt.message_id
        assert report.control_seq == prompt.seq, "a refused one counts as stored"
        assert answer.seq is not None
        await played.outbox.ack(played.session_id, answer.seq, "", 0)
        assert not any(session.refused for session in await played.sessions.hello_sessions(""))
