"""Third-party agents, driven by the runner's own sessions against the tests' model server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agents.third_party import ThirdParty
from interlock.model_stand_in import chunk_texts
from interlock.ports.agent import AgentSpec
from interlock.protocol import payloads as p
from runner.stage import raw_input, stage

pytestmark = pytest.mark.anyio


def spec(adapter: str, agent: ThirdParty) -> AgentSpec:
    return AgentSpec(adapter=adapter, command=str(agent.command), args=list(agent.args), env=dict(agent.env))


@pytest.mark.req("A-5", "A-7")
@pytest.mark.parametrize(("decision", "status"), [("allow", "ok"), ("deny", "denied")])
async def test_goose_runs_a_tool_only_after_a_grant(goose: ThirdParty, decision: Any, status: str) -> None:
    async with stage(goose.workspace, {"goose": spec("acp", goose)}) as scene:
        await scene.open("goose")
        await scene.prompt("please [[tool:echo hi > made.txt; cat made.txt]]")
        asked = await scene.next("agent.interaction.request")
        assert asked.payload.context.tool_name == "shell"
        assert raw_input(scene.all("tool.invoke.request")[0]) == {"command": "echo hi > made.txt; cat made.txt"}
        assert not (goose.workspace / "made.txt").exists()
        await scene.answer(asked, decision)
        result = await scene.next("tool.invoke.result")
        assert result.payload.status == status
        usage = await scene.next("session.usage")
        assert usage.payload.token_usage.input_tokens == 100
        assert (goose.workspace / "made.txt").exists() == (decision == "allow")


@pytest.mark.req("A-4", "A-7")
async def test_goose_streams_and_stops_at_a_cancel(goose: ThirdParty) -> None:
    async with stage(goose.workspace, {"goose": spec("acp", goose)}) as scene:
        await scene.open("goose")
        assert (await scene.turn("hello [[chunks:5]]")).payload.stop_reason == "end_turn"
        assert scene.text() == "".join(chunk_texts(5))
        await scene.prompt("slow [[chunks:300]] [[delay:50]]")
        await scene.next("agent.text.delta")
        await scene.cancel()
        assert (await scene.next("session.turn.end")).payload.stop_reason == "cancelled"
        assert scene.all("session.closed") == []


@pytest.mark.req("A-6", "A-7")
async def test_goose_continues_its_conversation_and_keeps_its_mode(goose: ThirdParty) -> None:
    async with stage(goose.workspace, {"goose": spec("acp", goose)}) as scene:
        for resume in (False, True):
            await scene.send("control.session.open", p.SessionOpen(
                session_id=scene.session_id, agent_id="goose", workspace=str(goose.workspace), workspace_access="rw",
                resume=resume))  # fmt: skip
            features = (await scene.next("session.capabilities")).payload.features
            assert (features["resume_session"], features["plan_mode"], features["permission"]) == (True, False, "asks")
            assert (await scene.turn(f"resume {resume} [[chunks:1]]")).payload.stop_reason == "end_turn"
            await scene.send("control.session.close", p.SessionClose(reason="enough"))
            await scene.next("session.closed")
        assert "resume False" in json.dumps(goose.model.recording.turns()[-1].body)
        assert [f.payload.message for f in scene.all("agent.error") if f.payload.severity == "warning"] == []
        assert scene.text() == "".join(chunk_texts(1)) * 2


@pytest.mark.req("A-3", "A-10")
async def test_claude_runs_as_an_exec_program(claude: ThirdParty) -> None:
    async with stage(claude.workspace, {"claude": spec("exec", claude)}) as scene:
        await scene.open("claude")
        end = await scene.turn("hello [[chunks:3]]")
        assert (end.payload.stop_reason, end.metadata["exit_code"]) == ("end_turn", 0)
        assert "".join(chunk_texts(3)).strip() in scene.text()
