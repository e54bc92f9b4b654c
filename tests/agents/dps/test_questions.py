"""Questions of an agent that uses the protocol: each is answered once, and none about another input (A-5)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock.ports.agent import AgentSpec
from interlock.protocol.envelope import Frame
from runner.stage import stage

pytestmark = pytest.mark.anyio
DPS = Path(__file__).parent.parent / "dps_words.py"


def words(*start: str) -> dict[str, AgentSpec]:
    return {"dps": AgentSpec(adapter="dps", command=sys.executable, args=["-I", "-S", str(DPS), *start])}


def given(asked: Frame) -> Any:
    return msgspec.json.decode(asked.payload.context.input)


@pytest.mark.req("A-5", "P-2")
@pytest.mark.parametrize("decision", ["allow", "deny"])
async def test_a_tool_runs_only_after_a_grant(decision: Any, tmp_path: Path) -> None:
    async with stage(tmp_path, words()) as scene:
        await scene.open("dps")
        await scene.prompt("tool:out.txt")
        asked = await scene.next("agent.interaction.request")
        call = scene.all("tool.invoke.request")[0].payload
        assert asked.payload.context.invocation_id == call.invocation_id != "call-1"
        assert given(asked) == {"path": "out.txt", "size": 100.0}
        assert not (tmp_path / "out.txt").exists()
        await scene.answer(asked, decision)
        result = (await scene.next("tool.invoke.result")).payload
        assert result.status == ("ok" if decision == "allow" else "denied")
        await scene.next("session.usage")
        assert (tmp_path / "out.txt").exists() is (decision == "allow")


@pytest.mark.req("A-5", "P-2")
async def test_a_question_about_another_input_is_denied_and_not_shown(tmp_path: Path) -> None:
    async with stage(tmp_path, words()) as scene:
        await scene.open("dps")
        await scene.turn("ask-other ask-unknown ask-question")
        assert scene.text() == "deny;deny;deny;deny;"
        assert scene.all("agent.interaction.request") == []


@pytest.mark.req("A-5", "P-2")
async def test_two_questions_with_one_id_are_both_denied(tmp_path: Path) -> None:
    async with stage(tmp_path, words()) as scene:
        await scene.open("dps")
        await scene.turn("ask-twice")
        assert [given(asked) for asked in scene.all("agent.interaction.request")] in ([], [{"tool": "harmless"}])
        assert all(one.payload.outcome == "void" for one in scene.all("x-interlock.interaction.resolved"))
        assert scene.text() == "deny;deny;"


@pytest.mark.req("A-5")
async def test_a_question_without_a_call_is_asked(tmp_path: Path) -> None:
    async with stage(tmp_path, words()) as scene:
        await scene.open("dps")
        await scene.prompt("ask-bare")
        asked = await scene.next("agent.interaction.request")
        assert given(asked) == {"deep": True}
        await scene.answer(asked, "allow")
        await scene.next("session.usage")
        assert scene.text() == "allow;"
