"""Events of a turn by an agent that uses the protocol: its blocks, calls, errors and end are the turn's (A-2)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from interlock.ports.agent import AgentSpec
from runner.stage import Stage, stage

pytestmark = pytest.mark.anyio
DPS = Path(__file__).parent.parent / "dps_words.py"


def words(*start: str) -> dict[str, AgentSpec]:
    return {"dps": AgentSpec(adapter="dps", command=sys.executable, args=["-I", "-S", str(DPS), *start])}


def codes(scene: Stage) -> list[str]:
    return [frame.payload.error_code for frame in scene.all("agent.error", "session.error")]


@pytest.mark.req("E-4")
@pytest.mark.parametrize(("text", "blocks"), [
    ("text:A grow:B close text:C", ["AB", "C"]),
    ("done:A done:B", ["A", "B"]),
    ("text:A text:B grow:C", ["A", "BC"]),
    ("text:A think:why grow:B close text:C", ["A", "B", "C"]),
    ("text:A close close done:B text:C", ["A", "B", "C"]),
])
async def test_each_dps_block_becomes_a_block(text: str, blocks: list[str], tmp_path: Path) -> None:
    async with stage(tmp_path, words()) as scene:
        await scene.open("dps")
        await scene.turn(text)
        done = scene.all("agent.text.done")
        assert [frame.payload.text for frame in done] == blocks
        assert len({frame.payload.block_id for frame in done}) == len(blocks)
        starts = {f.payload.block_id for f in scene.all("agent.text.delta") if f.payload.offset == 0}
        assert starts == {frame.payload.block_id for frame in done}


@pytest.mark.req("E-4", "E-5", "T-2")
async def test_dps_ids_offsets_and_figures_are_mapped(tmp_path: Path) -> None:
    async with stage(tmp_path, words()) as scene:
        await scene.open("dps")
        end = await scene.turn("think:why text:he close done:llo overlap usage")
        assert end.payload.turn_id != "own-1"
        start = scene.all("session.turn.start")[0].payload
        assert (start.turn_id, start.turn_index) == (end.payload.turn_id, 0)
        assert scene.text() == "helloabcdéf"
        assert [f.payload.text for f in scene.all("agent.thinking.done")] == ["why"]
        usage = scene.all("session.usage")
        assert len(usage) == 1
        assert (usage[0].payload.token_usage.output_tokens, usage[0].payload.cost_usage.used) == (22, 0.25)
        assert usage[0].payload.context_window.utilization == 0.25
        await scene.turn("text:again")
        assert scene.all("session.usage")[-1].payload.cost_usage.used == 0.5
        await scene.turn("no-usage text:short")
        assert scene.all("session.usage")[-1].payload.token_usage.input_tokens == 0
        assert codes(scene) == []


@pytest.mark.req("E-4", "T-3")
async def test_tool_calls_are_streamed_nested_and_closed(tmp_path: Path) -> None:
    async with stage(tmp_path, words()) as scene:
        await scene.open("dps")
        await scene.turn("free-tool subagent open-tool")
        listed, below, above, left = [frame.payload for frame in scene.all("tool.invoke.result")]
        assert (listed.status, listed.output) == ("ok", "one\ntwo\noh\n")
        task, inner = [frame.payload for frame in scene.all("tool.invoke.request")][1:3]
        assert inner.parent_invocation_id == task.invocation_id == above.invocation_id
        assert (below.output, above.output_type, left.status) == ("found", "agent_result", "cancelled")
        assert scene.all("session.turn.end")[0].payload.tool_invocation_count == 4


@pytest.mark.req("T-1", "T-2", "T-3")
@pytest.mark.parametrize("reason", ["end_turn", "max_tokens", "cancelled", "error", "awaiting_input"])
async def test_the_stop_reason_is_that_of_the_turn(reason: str, tmp_path: Path) -> None:
    async with stage(tmp_path, words()) as scene:
        await scene.open("dps")
        assert (await scene.turn(f"text:so stop:{reason}")).payload.stop_reason == reason
        kinds = scene.durable()
        assert kinds.index("session.turn.end") + 1 == kinds.index("session.usage")
        assert codes(scene) == (["UPSTREAM_ERROR"] if reason == "error" else [])


@pytest.mark.req("W-2", "T-5")
async def test_errors_are_errors_of_the_turn(tmp_path: Path) -> None:
    async with stage(tmp_path, words()) as scene:
        await scene.open("dps")
        await scene.turn("error:warning:SLOW error:error:CONTEXT_OVERFLOW stop:error")
        assert codes(scene)[-1] == "CONTEXT_OVERFLOW"
        turn_id = scene.all("session.turn.end")[0].payload.turn_id
        assert {frame.payload.turn_id for frame in scene.all("agent.error")} == {turn_id}
        assert (await scene.turn("refuse:BUDGET_EXCEEDED")).payload.stop_reason == "error"
        assert codes(scene)[-1] == "BUDGET_EXCEEDED"
        assert (await scene.turn("fatal:UPSTREAM_ERROR")).payload.stop_reason == "error"
        await scene.next("session.closed")
        assert "UPSTREAM_ERROR" in codes(scene)
