"""The pipe of an agent that uses the protocol: what is not a frame is counted, and the session stays usable (A-8)."""

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


@pytest.mark.req("E-1", "T-4", "L-2")
async def test_a_line_that_is_not_a_frame_is_reported_with_its_path_and_counted(tmp_path: Path) -> None:
    async with stage(tmp_path, words()) as scene:
        await scene.open("dps")
        await scene.turn("garbage")
        assert scene.text() == "INVALID_FRAME $|INVALID_FRAME $|INVALID_FRAME $"
        await scene.turn("bad-frames")
        lines = scene.all("agent.text.done")[-1].payload.text.split("|")
        assert lines[0] == "INVALID_FRAME $.payload.offset"
        assert lines[1].startswith("UNKNOWN_TURN")
        assert lines[2:] == [
            "INVALID_FRAME $.payload.stop_reason", "INVALID_FRAME $.type", "INVALID_FRAME $.type",
            "INVALID_FRAME $.seq", "INVALID_FRAME $.session_id", "FRAME_TOO_LARGE $",
        ]
        counted = [frame.payload.message for frame in scene.all("agent.error")]
        assert [message.split()[3] for message in counted] == ["3", "8"]
        assert (await scene.turn("text:still")).payload.stop_reason == "end_turn"


@pytest.mark.req("E-1", "T-4")
@pytest.mark.parametrize("seed", range(3))
async def test_frames_with_a_wrong_byte_leave_the_session_usable(seed: int, tmp_path: Path) -> None:
    async with stage(tmp_path, words()) as scene:
        await scene.open("dps")
        assert (await scene.turn(f"noise:{seed}:1000")).payload.stop_reason == "end_turn"
        assert (await scene.turn("text:still-here")).payload.stop_reason == "end_turn"
        assert scene.text().endswith("still-here")
        counted = scene.all("agent.error")[-1].payload
        assert counted.error_code == "INVALID_FRAME"


@pytest.mark.req("A-8", "W-2")
async def test_a_line_above_the_cap_fails_the_turn(tmp_path: Path) -> None:
    async with stage(tmp_path, words()) as scene:
        await scene.open("dps")
        assert (await scene.turn("line wait")).payload.stop_reason == "error"
        assert "FRAME_TOO_LARGE" in codes(scene)
        assert (await scene.turn("text:still")).payload.stop_reason == "end_turn"
