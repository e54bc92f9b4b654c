"""SIGTERM with time to drain: a turn that runs ends by itself, no other begins, and a second signal ends the wait."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from interlock.protocol import payloads as p
from runner.scripted_gateway import Gateway
from runner.stage import MISBEHAVING
from runner.test_main import PATIENCE_S, PROGRAM, start_turn, until

pytestmark = [pytest.mark.anyio, pytest.mark.req("A-4", "D-7")]
OTHER = "22222222-2222-4222-8222-222222222222"


@contextlib.asynccontextmanager
async def running(gateway: Gateway, tmp_path: Path, drain_ms: int) -> AsyncIterator[asyncio.subprocess.Process]:
    root = tmp_path / "root"
    root.mkdir(parents=True, exist_ok=True)
    program = PROGRAM.replace('device_name="here"', f'device_name="here", drain_ms={drain_ms}')
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, gateway.url, str(tmp_path / "state"), str(root), str(MISBEHAVING),
        stdout=asyncio.subprocess.PIPE)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    made = Gateway()
    await made.start()
    yield made
    await made.stop()


async def until_logged(process: asyncio.subprocess.Process, word: str) -> None:
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE_S):
        while word not in (await process.stdout.readline()).decode():
            pass


async def test_the_running_turn_ends_by_itself_and_no_other_starts(gateway: Gateway, tmp_path: Path) -> None:
    async with running(gateway, tmp_path, 60_000) as process:
        peer = await gateway.peer()
        await peer.welcome()
        await start_turn(peer, "ask text:done")
        asked = (await until(peer, "agent.interaction.request"))[-1]
        process.send_signal(signal.SIGTERM)
        await until_logged(process, "draining")
        await peer.send("control.session.open", p.SessionOpen(
            session_id=OTHER, agent_id="bad", workspace="", workspace_access="rw"), seq=1, session_id=OTHER)
        await peer.send("control.interaction.response", p.InteractionResponse(
            interaction_id=asked.payload.interaction_id, decision="allow", by="u"), seq=3)
        frames = await until(peer, "session.closed")
        assert [f.payload.stop_reason for f in frames if f.type == "session.turn.end"] == ["end_turn"]
        assert {f.session_id for f in frames if f.session_id} == {asked.session_id}
        assert await asyncio.wait_for(process.wait(), PATIENCE_S) == 0


async def test_a_second_signal_or_the_time_limit_cancels_running_turns(gateway: Gateway, tmp_path: Path) -> None:
    for number, drain_ms in enumerate((60_000, 1)):
        async with running(gateway, tmp_path / str(number), drain_ms) as process:
            peer = await gateway.peer()
            await peer.welcome()
            await start_turn(peer, "text:on wait")
            process.send_signal(signal.SIGTERM)
            await until_logged(process, "draining")
            process.send_signal(signal.SIGTERM)
            frames = await until(peer, "session.turn.end")
            assert frames[-1].payload.stop_reason == "cancelled"
            assert await asyncio.wait_for(process.wait(), PATIENCE_S) == 0
