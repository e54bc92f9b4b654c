"""One suite over the adapters: with each agent the turn ends, its text is complete, and no process is left."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from agents.builtin_stage import builtin
from agents.misbehaving import flood_chunk
from installed import needs
from interlock.backends.memory.outbox import MemoryOutbox
from interlock.model_stand_in import ModelServer
from interlock.ports.agent import AgentSpec
from interlock.protocol import payloads as p
from interlock.protocol.frames import encode
from interlock.protocol.limits import KIB, MAX_BLOCK_BYTES, MAX_FRAME_BYTES, MAX_TOOL_OUTPUT_BYTES, MIB
from interlock.protocol.sizes import json_size
from interlock.runner.turn.turn import SessionTimeouts
from runner.stage import PATIENCE_S, misbehaving, program, stage

pytestmark = pytest.mark.anyio
QUICK = SessionTimeouts(cancel_s=0.2, end_s=0.2, drain_s=5)
EXEC = """
import os, signal, sys, time
word = sys.argv[-1].split()
for name in word:
    verb, _, rest = name.partition(":")
    if verb == "text": sys.stdout.write(rest); sys.stdout.flush()
    if verb == "flood":
        for i in range(int(rest) // 8192): sys.stdout.write(f"{i:010d}" + "x" * 8181 + "\\n")
    if verb == "exit": sys.stderr.write("last words\\n"); sys.exit(int(rest))
    if verb == "kill": os.kill(os.getpid(), int(rest))
    if verb == "ignore-term": signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if verb == "quit": signal.signal(signal.SIGTERM, lambda *_, code=int(rest): os._exit(code))
    if verb == "hang": time.sleep(600)
"""
DPS = Path(__file__).parent / "dps_words.py"
PROCESSES: dict[str, AgentSpec] = {
    "acp": misbehaving(), "exec": program(EXEC),
    "claude": AgentSpec(adapter="claude", command=str(Path(__file__).with_name("odd_claude.py"))),
    "dps": AgentSpec(adapter="dps", command=sys.executable, args=["-I", "-S", str(DPS)]),
}


@pytest.fixture(params=["acp", "builtin", needs("claude-sdk", "claude"), "dps", "exec"])
def adapter(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=["acp", needs("claude-sdk", "claude"), "dps", "exec"])
def process(request: pytest.FixtureRequest) -> str:
    """An adapter whose agent is a process that can fail."""
    return request.param


@pytest.fixture
def agents(request: pytest.FixtureRequest, adapter: str) -> dict[str, AgentSpec]:
    """All adapters; the model server runs only for the builtin one."""
    if adapter != "builtin":
        return PROCESSES
    server: ModelServer = request.getfixturevalue("model_server")
    return {**PROCESSES, "builtin": builtin(server)}


def words(adapter: str, script: str) -> str:
    """What the agents of this suite understand, in the words that the model server does."""
    if adapter != "builtin":
        return script
    return " ".join(f"[[{word.replace('text:', 'say:')}]]" for word in script.split())


@pytest.mark.req("T-3", "A-7")
async def test_turns_follow_each_other(adapter: str, agents: dict[str, AgentSpec], tmp_path: Path) -> None:
    async with stage(tmp_path, agents) as scene:
        await scene.open(adapter)
        for word in ("one", "two", "three"):
            assert (await scene.turn(words(adapter, f"text:{word}"))).payload.stop_reason == "end_turn"
        assert scene.text() == "onetwothree"
        assert scene.machine.phase == "idle"


@pytest.mark.req("E-5", "D-3")
async def test_a_flood_arrives_complete_in_bounded_frames(
    adapter: str, agents: dict[str, AgentSpec], tmp_path: Path
) -> None:
    async with stage(tmp_path, agents) as scene:
        await scene.open(adapter)
        await scene.turn(words(adapter, f"flood:{4 * MIB}"))
        assert scene.text() == "".join(flood_chunk(i) for i in range(4 * MIB // 8192))
        done = scene.all("agent.text.done")
        assert len(done) > 16
        assert all(json_size(f.payload.text) <= MAX_BLOCK_BYTES for f in done)
        assert all(len(encode(f)) <= MAX_FRAME_BYTES for f in scene.received)


HOLDING = """
import sys
for i in range(256): sys.stdout.write(f"{i:010d}" + "x" * 8181 + "\\n")
"""


@pytest.mark.req("D-3")
@pytest.mark.parametrize("limit_kib", [64, 100, 256, 512, 1024])
async def test_a_small_buffer_slows_the_agent_and_loses_no_text(limit_kib: int, tmp_path: Path) -> None:
    outbox = MemoryOutbox(limit_bytes=limit_kib * KIB)
    agents = {"exec": program(HOLDING)}
    async with stage(tmp_path, agents, outbox=outbox, outbox_bytes=limit_kib * KIB) as scene:
        await scene.open("exec")
        await scene.prompt("go")
        peak = 0
        while not scene.all("session.usage"):  # The gateway has been away, and comes back for a moment.
            await scene.held()
            (row,) = await outbox.sessions()
            assert (row.lost_frames, row.lost_ranges) == (0, [])
            peak = max(peak, row.bytes_peak)
            await outbox.ack(scene.session_id, row.last_seq, "", 1)
            scene.outflow.acked(scene.session_id)
            async with asyncio.timeout(PATIENCE_S):
                while scene.outflow.holding(scene.session_id):
                    await asyncio.sleep(0)
        assert scene.text() == "".join(f"{i:010d}" + "x" * 8181 + "\n" for i in range(256))
        assert peak <= limit_kib * KIB


@pytest.mark.req("A-2", "A-4")
@pytest.mark.parametrize(("script", "code"), [
    ("text:so hang", "SIGNAL_EXIT"), ("quit:3 text:so hang", "PROCESS_EXIT"), ("quit:0 text:so hang", None)])
@pytest.mark.parametrize("end", ["cancel", "close"])
async def test_the_exit_of_a_program_that_was_ended_is_reported(
    script: str, code: str | None, end: str, tmp_path: Path
) -> None:
    async with stage(tmp_path, PROCESSES) as scene:
        await scene.open("exec")
        await scene.prompt(script)
        await scene.next("agent.text.delta")
        if end == "cancel":
            await scene.cancel()
        else:
            await scene.send("control.session.close", p.SessionClose(reason="a person asked"))
        assert (await scene.next("session.turn.end")).payload.stop_reason == "cancelled"
        await scene.next("session.usage")
        if code is not None:
            error = await scene.next("agent.error")
            assert (error.payload.severity, error.payload.error_code) == ("fatal", code)
            assert error.metadata == {"expected": True}
        if end == "cancel":  # A program's end is not its session's.
            assert (await scene.turn("text:again")).payload.stop_reason == "end_turn"
        assert len(scene.all("agent.error")) == (code is not None)


@pytest.mark.req("A-2", "A-8")
@pytest.mark.parametrize(("script", "code"), [("text:so exit:3", "PROCESS_EXIT"), ("text:so kill:9", "SIGNAL_EXIT")])
async def test_a_process_that_fails_is_reported(process: str, script: str, code: str, tmp_path: Path) -> None:
    async with stage(tmp_path, PROCESSES) as scene:
        await scene.open(process)
        assert (await scene.turn(script)).payload.stop_reason == "error"
        error = scene.all("agent.error")[0].payload
        assert (error.error_code, error.severity) == (code, "fatal")
        assert scene.text() == "so"
        await scene.next("session.closed")
        assert scene.sessions.live_agents() == []


@pytest.mark.req("A-4", "T-3")
async def test_a_cancel_ends_a_process_that_ignores_it(
    adapter: str, agents: dict[str, AgentSpec], tmp_path: Path
) -> None:
    async with stage(tmp_path, agents, timeouts=QUICK) as scene:
        await scene.open(adapter)
        await scene.prompt(words(adapter, "text:so hang"))
        await scene.next("agent.text.delta")
        await scene.cancel()
        assert (await scene.next("session.turn.end")).payload.stop_reason == "cancelled"
        await scene.next("session.usage")
        assert scene.text() == "so"


@pytest.mark.req("A-4", "T-5")
async def test_a_close_in_mid_turn_cancels_first(adapter: str, agents: dict[str, AgentSpec], tmp_path: Path) -> None:
    async with stage(tmp_path, agents, timeouts=QUICK) as scene:
        await scene.open(adapter)
        await scene.prompt(words(adapter, "text:so hang"))
        await scene.next("agent.text.delta")
        await scene.send("control.session.close", p.SessionClose(reason="enough"))
        assert (await scene.next("session.closed")).payload.reason == "enough"
        kinds = scene.durable()
        assert kinds[-1] == "session.closed"
        assert kinds.index("session.turn.end") + 1 == kinds.index("session.usage")
        assert scene.all("session.turn.end")[0].payload.stop_reason == "cancelled"


@pytest.mark.req("T-3")
async def test_a_prompt_that_outlives_its_timeout_is_cancelled(
    adapter: str, agents: dict[str, AgentSpec], tmp_path: Path
) -> None:
    async with stage(tmp_path, agents, timeouts=QUICK._replace(backstop_s=0)) as scene:
        await scene.open(adapter)
        await scene.prompt(words(adapter, "hang"), timeout_ms=50)
        assert (await scene.next("session.turn.end")).payload.stop_reason == "cancelled"


@pytest.mark.req("E-5", "A-8")
async def test_only_acp_agents_have_these_features(tmp_path: Path) -> None:
    async with stage(tmp_path, PROCESSES) as scene:
        await scene.open("acp")
        await scene.turn(f"tool-output:{MIB}")
        result = scene.all("tool.invoke.result")[0].payload
        assert result.truncated.bytes_total == MIB
        assert json_size(result.output) <= MAX_TOOL_OUTPUT_BYTES
        await scene.turn("garbage text:fine garbage-json")
        assert scene.all("agent.error")[-1].payload.error_code == "INVALID_FRAME"
        await scene.turn("late-update unknown wrong-session two-results echo plan text:own usage")
        assert scene.text() == "fineown"
        usage = scene.all("session.usage")[-1].payload
        assert usage.token_usage.input_tokens > 0
        assert usage.message_usage.used == 3
        await scene.turn("diff:notes.txt")
        assert scene.all("tool.invoke.result")[-1].payload.output_type == "diff"
        await scene.turn("open-tool")
        assert scene.all("tool.invoke.result")[-1].payload.status == "cancelled"
        assert (await scene.turn("stop:max_turn_requests")).payload.stop_reason == "max_tokens"
        assert (await scene.turn("error")).payload.stop_reason == "error"
        assert (await scene.turn("text:still")).payload.stop_reason == "end_turn"
