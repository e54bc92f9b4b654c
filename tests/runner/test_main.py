"""A whole runner as a process of its own: a turn over the link, SIGTERM, and a kill that the next start makes good."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from interlock.protocol import payloads as p
from interlock.protocol.envelope import Frame
from ports.outbox_words import SESSION
from runner.conftest import Gone
from runner.scripted_gateway import Gateway, Peer, inner
from runner.stage import MISBEHAVING

pytestmark = pytest.mark.anyio
PATIENCE_S = 20.0
PROGRAM = """
import asyncio, sys
from pathlib import Path
from interlock.backends.objects.directory import DirectoryObjects
from interlock.backends.outbox.sqlite import SqliteOutbox
from interlock.ports.agent import AgentSpec
from interlock.runner.link.gateways import PairedGateway
from interlock.runner.main import RunnerConfig, run_runner
url, state, root, bad = sys.argv[1:]
spec = AgentSpec(adapter="acp", command=sys.executable, args=["-I", "-S", bad])
async def main():
    Path(state).mkdir(exist_ok=True)
    outbox = SqliteOutbox(Path(state) / "outbox.db")
    try:
        await run_runner(RunnerConfig(gateways=[PairedGateway(url=u, token="t", runner_id=f"main-{state}-{n}")
                                                for n, u in enumerate(url.split(","))],
                                      runner_id="main-" + state, state_dir=Path(state),
                                      roots=[root], agents={"bad": spec}, device_name="here"), outbox,
                         DirectoryObjects(Path(state) / "objects"))
    finally:
        await outbox.close()
asyncio.run(main())
"""


@contextlib.asynccontextmanager
async def running(gateway: Gateway, tmp_path: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    root = tmp_path / "root"
    root.mkdir(exist_ok=True)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, gateway.url, str(tmp_path / "state"), str(root), str(MISBEHAVING))
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


async def until(peer: Peer, kind: str) -> list[Frame]:
    """Frames up to the first of this type; the frames of a history count separately."""
    frames: list[Frame] = []
    while not frames or frames[-1].type != kind:
        frames.append(await peer.receive())
    return frames


async def start_turn(peer: Peer, words: str) -> Frame:
    await peer.send("control.session.open", p.SessionOpen(
        session_id=SESSION, agent_id="bad", workspace="", workspace_access="rw"), seq=1)
    await until(peer, "session.capabilities")
    await peer.send("control.prompt.request", p.PromptRequest(
        prompt_id="p1", input_type="text", origin="user", text=words), seq=2)
    return (await until(peer, "session.turn.start"))[-1]


@pytest.mark.req("A-4", "T-3", "L-4")
async def test_sigterm_ends_agents_and_is_reported_at_the_next_start(
    gateway: Gateway, tmp_path: Path, gone: Gone
) -> None:
    async with running(gateway, tmp_path) as process:
        peer = await gateway.peer()
        hello = await peer.welcome()
        assert {a.agent_id for a in hello.payload.agents} == {"shell", "builtin", "bad"}
        start = await start_turn(peer, "fork-twice text:so wait")
        assert start.metadata["prompt_id"] == "p1"
        await until(peer, "agent.text.delta")
        pid = int((tmp_path / "root" / "grandchild.pid").read_text())
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), PATIENCE_S) == 0
        await gone([pid])
    async with running(gateway, tmp_path):
        peer = await gateway.peer()
        hello = await peer.welcome()
        assert hello.payload.sessions[0].state == "terminated"
        assert hello.payload.sessions[0].control_seq == 2
        frames = inner((await until(peer, "session.history"))[-1])
        kinds = [f["type"] for f in frames]
        assert kinds[-1] == "session.closed"
        ends = [f for f in frames if f["type"] == "session.turn.end"]
        assert [(end["payload"]["stop_reason"], end["metadata"]["reason"]) for end in ends] == [
            ("cancelled", "the runner is stopping")]
        assert [f["seq"] for f in frames] == list(range(1, len(frames) + 1))


@pytest.mark.req("D-6", "D-7", "A-4")
async def test_a_killed_runner_reports_its_open_turns(gateway: Gateway, tmp_path: Path, gone: Gone) -> None:
    async with running(gateway, tmp_path) as process:
        peer = await gateway.peer()
        await peer.welcome()
        await start_turn(peer, "fork-twice text:seen open-tool wait")
        await until(peer, "tool.invoke.request")
        pid = int((tmp_path / "root" / "grandchild.pid").read_text())
        process.kill()
        await process.wait()
        await gone([pid])
    async with running(gateway, tmp_path):
        peer = await gateway.peer()
        await peer.welcome()
        frames = inner((await until(peer, "session.history"))[-1])
        assert [f["payload"]["text"] for f in frames if f["type"] == "agent.text.done"] == ["seen"]
        tail = [f["type"] for f in frames if f["type"] != "agent.state.changed"][-5:]
        assert tail == ["tool.invoke.result", "agent.error", "session.turn.end", "session.usage", "session.closed"]
        await peer.send("control.prompt.request", p.PromptRequest(
            prompt_id="p2", input_type="text", origin="user", text="x"), seq=3)
        error = (await until(peer, "session.error"))[-1]
        assert (error.payload.error_code, error.payload.fatal) == ("SESSION_NOT_FOUND", False)
