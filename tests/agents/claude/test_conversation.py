"""The adapter `claude` against a program that breaks its own protocol: the turn ends, and the failure is reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.ports.agent import AgentSpec
from runner.stage import SessionTimeouts, Stage, stage

pytestmark = [pytest.mark.anyio, pytest.mark.needs("claude-sdk")]
PROGRAM = Path(__file__).parent.parent / "odd_claude.py"


@pytest.fixture
def odd(tmp_path: Path) -> AgentSpec:
    return AgentSpec(adapter="claude", command=str(PROGRAM), env={"HOME": str(tmp_path)})


def error_codes(scene: Stage) -> list[str]:
    return [frame.payload.error_code for frame in scene.all("agent.error")]


@pytest.mark.req("A-8", "T-3")
async def test_unreadable_lines_are_counted_and_skipped(odd: AgentSpec, tmp_path: Path) -> None:
    async with stage(tmp_path, {"odd": odd}) as scene:
        await scene.open("odd")
        assert (await scene.turn("garbage")).payload.stop_reason == "end_turn"
        assert "5 messages" in scene.all("agent.error")[0].payload.message
        assert (await scene.turn("go on")).payload.stop_reason == "end_turn"
        assert error_codes(scene) == ["INVALID_FRAME"]


@pytest.mark.req("A-8", "E-5")
async def test_a_line_above_the_cap_fails_only_its_turn(odd: AgentSpec, tmp_path: Path) -> None:
    async with stage(tmp_path, {"odd": odd}) as scene:
        await scene.open("odd")
        assert (await scene.turn("long")).payload.stop_reason == "error"
        assert error_codes(scene) == ["FRAME_TOO_LARGE"]
        assert (await scene.turn("go on")).payload.stop_reason == "end_turn"


@pytest.mark.req("A-4", "T-3")
async def test_an_ignored_cancel_ends_the_program(odd: AgentSpec, tmp_path: Path) -> None:
    async with stage(tmp_path, {"odd": odd}, timeouts=SessionTimeouts(cancel_s=0.2, end_s=0.2, drain_s=5)) as scene:
        await scene.open("odd")
        await scene.prompt("hang")
        await scene.cancel()
        assert (await scene.next("session.turn.end")).payload.stop_reason == "cancelled"
        await scene.next("session.closed")


@pytest.mark.req("A-2")
@pytest.mark.parametrize(("code", "stop"), [(0, "end_turn"), (3, "error")])
async def test_an_exit_in_mid_turn_is_reported_with_its_code(
    odd: AgentSpec, tmp_path: Path, code: int, stop: str
) -> None:
    async with stage(tmp_path, {"odd": odd}) as scene:
        await scene.open("odd")
        end = await scene.turn(f"exit:{code}")
        assert (end.payload.stop_reason, end.metadata["exit_code"]) == (stop, code)
        assert error_codes(scene) == ([] if code == 0 else ["PROCESS_EXIT"])


@pytest.mark.req("A-5")
async def test_a_program_whose_calls_cannot_be_held_is_not_started(odd: AgentSpec, tmp_path: Path) -> None:
    old = AgentSpec(adapter="claude", command=odd.command, env=odd.env, args=["--old"])
    async with stage(tmp_path, {"odd": old}) as scene:
        await scene.open("odd")
        error = (await scene.next("session.error")).payload
        assert error.error_code == "AGENT_START_FAILED"
        assert "on_failure" in error.message
