"""The sessions of a runner: what is over is forgotten, and only agents that live are vouched for (C-7)."""

from __future__ import annotations

import asyncio
import gc
import weakref
from pathlib import Path

import pytest

from interlock.protocol import payloads as p
from runner.stage import NOW_MS, Stage, stage

pytestmark = pytest.mark.anyio


async def ended(scene: Stage) -> p.SessionClosed:
    return (await scene.next("session.closed")).payload


@pytest.mark.req("L-4", "D-5")
async def test_hello_forgets_sessions_that_are_closed_and_reported(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.open("bad")
        await scene.send("control.session.close", p.SessionClose(reason="done"))
        closed = await scene.next("session.closed")
        assert [(s.session_id, s.state) for s in await scene.sessions.hello_sessions()] == [
            (scene.session_id, "terminated")]
        await scene.outflow.flushed()
        await scene.outbox.ack(scene.session_id, closed.seq or 0, closed.message_id, NOW_MS)
        assert await scene.sessions.hello_sessions() == []
        (forgotten,) = await scene.sessions.hello_forgotten()
        assert (forgotten.session_id, forgotten.acked_seq) == (scene.session_id, closed.seq)
        assert forgotten.control_seq > 0
        await scene.open("bad")
        assert await scene.sessions.hello_forgotten() == []
        reopened = await scene.next("session.capabilities")
        assert reopened.seq == (closed.seq or 0) + 1


@pytest.mark.req("L-4")
async def test_ended_sessions_use_no_memory_while_the_link_lasts(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.open("bad")
        await scene.prompt("text:x")
        await scene.next("session.turn.end")
        await scene.sessions.forget_over()
        assert list(scene.sessions.all) == [scene.session_id]  # It is open.
        await scene.send("control.session.close", p.SessionClose(reason="done"))
        closed = await scene.next("session.closed")
        await scene.sessions.forget_over()
        assert list(scene.sessions.all) == [scene.session_id]  # It is not completely reported.
        await scene.outbox.ack(scene.session_id, closed.seq or 0, closed.message_id, 0)
        kept = weakref.ref(scene.sessions.all[scene.session_id])
        await scene.sessions.forget_over()
        assert scene.sessions.all == {}
        for _ in range(3):  # Tasks that ended let go of their frames at the loop's next turns.
            await asyncio.sleep(0)
        gc.collect()
        assert kept() is None, gc.get_referrers(kept())
        await scene.open("bad")
        reopened = await scene.next("session.capabilities")
        assert reopened.seq == (closed.seq or 0) + 1


@pytest.mark.req("L-4", "D-7")
async def test_a_frame_that_waits_while_its_session_is_forgotten_is_handled(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.open("bad")
        await scene.send("control.session.close", p.SessionClose(reason="done"))
        closed = await scene.next("session.closed")
        await scene.outflow.flushed()
        await scene.outbox.ack(scene.session_id, closed.seq or 0, closed.message_id, 0)
        await asyncio.gather(scene.sessions.forget_over(), scene.open("bad"))
        await scene.next("session.capabilities")
        assert [one.agent_id for one in scene.sessions.live_agents()] == ["bad"]


@pytest.mark.req("L-5")
async def test_the_runner_names_living_agents_only(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        assert scene.sessions.live_agents() == []
        await scene.open("bad")
        await scene.prompt("wait")
        start = await scene.next("session.turn.start")
        (reported,) = scene.sessions.live_agents()
        assert (reported.agent_id, reported.state, reported.turn_id) == ("bad", "running", start.payload.turn_id)
        (report,) = await scene.sessions.hello_sessions()
        assert (report.turn_id, report.prompt_id) == (start.payload.turn_id, start.metadata["prompt_id"])
