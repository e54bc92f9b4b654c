"""The adapter `claude`: the real SDK and the real program, driven by the runner's sessions against a model server."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agents.claude_settings import AUTO_ALLOW, write_settings
from agents.session_processes import left_of
from agents.third_party import ThirdParty
from interlock.agents.registry import offers
from interlock.model_stand_in import AFTER_TOOL, chunk_texts
from interlock.ports.agent import AgentSpec
from interlock.protocol import payloads as p
from runner.stage import Stage, raw_input, stage

pytestmark = pytest.mark.anyio
HOLD_S = 2.0


def spec(agent: ThirdParty, **fields: Any) -> AgentSpec:
    return AgentSpec(adapter="claude", env=dict(agent.env), **fields)


def errors(scene: Stage) -> list[tuple[str, str]]:
    return [(frame.payload.error_code, frame.payload.message) for frame in scene.all("agent.error")]


@pytest.mark.req("A-4", "A-6", "A-7")
async def test_turns_have_text_context_and_usage_once_and_leave_no_process(claude: ThirdParty) -> None:
    async with stage(claude.workspace, {"claude": spec(claude)}) as scene:
        await scene.open("claude")
        report = (await scene.next("session.capabilities")).payload
        assert report.features["adapter_type"] == "sdk"
        assert report.features["plan_mode"] is True
        assert report.agent.version.startswith("2.")
        assert report.agent.model.startswith("claude-")
        assert any("claude" in line for line in left_of(scene.session_id))
        assert (await scene.turn("hello [[chunks:5]]")).payload.stop_reason == "end_turn"
        assert scene.text() == "".join(chunk_texts(5))
        assert [f.payload.text for f in scene.all("agent.text.delta")] != []
        assert (await scene.turn("more [[chunks:2]]")).payload.stop_reason == "end_turn"
        assert scene.text() == "".join(chunk_texts(5) + chunk_texts(2))
        first, second = (frame.payload for frame in scene.all("session.usage"))
        assert (first.token_usage.input_tokens, first.token_usage.output_tokens) == (100, 20)
        assert second.token_usage.input_tokens == 100
        assert second.cost_usage.used == pytest.approx(2 * first.cost_usage.used)
        assert first.context_window.capacity > first.context_window.used == 100
        assert (first.request_usage.input_tokens, first.request_usage.output_tokens) == (100, 20)
        asked = json.dumps(claude.model.recording.turns()[-1].body)
        assert "hello [[chunks:5]]" in asked
        await scene.send("control.session.close", p.SessionClose(reason="enough"))
        await scene.next("session.closed")
        assert left_of(scene.session_id) == []


@pytest.mark.req("A-5", "A-7")
@pytest.mark.parametrize(("decision", "status"), [("allow", "ok"), ("deny", "denied")])
async def test_a_tool_runs_only_after_a_grant(claude: ThirdParty, decision: Any, status: str) -> None:
    async with stage(claude.workspace, {"claude": spec(claude)}) as scene:
        await scene.open("claude")
        await scene.prompt("please [[tool:echo hi > made.txt; cat made.txt]]")
        asked = await scene.next("agent.interaction.request")
        request = scene.all("tool.invoke.request")[0]
        assert (asked.payload.context.tool_name, request.payload.tool_name) == ("Bash", "Bash")
        assert asked.payload.context.invocation_id == request.payload.invocation_id
        assert raw_input(request)["command"] == "echo hi > made.txt; cat made.txt"
        assert request.metadata["kind"] == "execute"
        assert not (claude.workspace / "made.txt").exists()
        await scene.answer(asked, decision)
        result = await scene.next("tool.invoke.result")
        assert result.payload.status == status
        assert (await scene.next("session.turn.end")).payload.stop_reason == "end_turn"
        assert (claude.workspace / "made.txt").exists() == (decision == "allow")
        assert scene.text() == AFTER_TOOL
        assert len(scene.all("agent.interaction.request")) == 1


@pytest.mark.req("A-5")
async def test_a_late_denial_holds_whatever_the_users_settings_allow(claude: ThirdParty) -> None:
    write_settings(Path(claude.env["HOME"]), AUTO_ALLOW)
    async with stage(claude.workspace, {"claude": spec(claude)}) as scene:
        await scene.open("claude")
        await scene.prompt("please [[tool:touch made.txt]]")
        asked = await scene.next("agent.interaction.request")
        await held(scene, HOLD_S)
        assert not (claude.workspace / "made.txt").exists()
        await scene.answer(asked, "deny", message="Not today.")
        result = await scene.next("tool.invoke.result")
        assert (result.payload.status, result.payload.output) == ("denied", "denied by ada: Not today.")
        await scene.next("session.usage")
        assert not (claude.workspace / "made.txt").exists()


@pytest.mark.req("A-5", "A-7", "H-13")
@pytest.mark.parametrize(("fields", "ran"), [
    ({}, False), ({"args": ["--setting-sources", "user,project"], "workspace_files": "trust"}, True)])
async def test_repository_hooks_run_only_if_the_config_allows_it(
    claude: ThirdParty, fields: dict[str, Any], ran: bool
) -> None:
    mark = claude.workspace / "hook-ran"
    (claude.workspace / ".claude").mkdir()
    (claude.workspace / ".claude/settings.json").write_text(json.dumps({"hooks": {"SessionStart": [
        {"hooks": [{"type": "command", "command": f"touch '{mark}'"}]}], "UserPromptSubmit": [
        {"hooks": [{"type": "command", "command": f"touch '{mark}'"}]}]}}))
    async with stage(claude.workspace, {"claude": spec(claude, **fields)}) as scene:
        await scene.open("claude")
        assert (await scene.turn("hello [[chunks:1]]")).payload.stop_reason == "end_turn"
        assert mark.exists() is ran


async def held(scene: Stage, seconds: float) -> None:
    """The call does not run within this time."""
    with pytest.raises(TimeoutError):
        await scene.next_within(seconds, "tool.invoke.result", "session.turn.end")


@pytest.mark.req("A-4", "T-3")
async def test_a_cancel_ends_the_turn_but_not_the_session(claude: ThirdParty) -> None:
    async with stage(claude.workspace, {"claude": spec(claude)}) as scene:
        await scene.open("claude")
        await scene.prompt("slow [[chunks:300]] [[delay:50]]")
        await scene.next("agent.text.delta")
        await scene.cancel()
        assert (await scene.next("session.turn.end")).payload.stop_reason == "cancelled"
        await scene.next("session.usage")
        assert (await scene.turn("go on [[chunks:1]]")).payload.stop_reason == "end_turn"
        assert scene.all("session.closed") == []


@pytest.mark.req("A-4", "A-5")
async def test_a_cancel_denies_the_open_request(claude: ThirdParty) -> None:
    async with stage(claude.workspace, {"claude": spec(claude)}) as scene:
        await scene.open("claude")
        await scene.prompt("please [[tool:touch made.txt]]")
        await scene.next("agent.interaction.request")
        await scene.cancel()
        assert (await scene.next("session.turn.end")).payload.stop_reason == "cancelled"
        assert scene.all("x-interlock.interaction.resolved")[0].payload.outcome == "void"
        await scene.next("session.usage")
        assert (await scene.turn("go on [[chunks:1]]")).payload.stop_reason == "end_turn"
        assert not (claude.workspace / "made.txt").exists()


@pytest.mark.req("A-7")
async def test_a_model_failure_ends_the_turn_with_its_message(claude: ThirdParty) -> None:
    async with stage(claude.workspace, {"claude": spec(claude)}) as scene:
        await scene.open("claude")
        for status in (500, 401):
            assert (await scene.turn(f"now [[fail:{status}]]")).payload.stop_reason == "error"
            code, message = errors(scene)[-1]
            assert code == "UPSTREAM_ERROR"
            assert str(status) in message
        assert scene.text() == ""
        assert (await scene.turn("go on [[chunks:1]]")).payload.stop_reason == "end_turn"


@pytest.mark.req("A-7")
async def test_a_later_opening_continues_the_conversation(claude: ThirdParty) -> None:
    async with stage(claude.workspace, {"claude": spec(claude)}) as scene:
        for resume in (False, True):
            await scene.send("control.session.open", p.SessionOpen(
                session_id=scene.session_id, agent_id="claude", workspace=str(claude.workspace),
                workspace_access="rw", resume=resume))  # fmt: skip
            assert (await scene.turn(f"resume {resume} [[chunks:1]]")).payload.stop_reason == "end_turn"
            await scene.send("control.session.close", p.SessionClose(reason="enough"))
            await scene.next("session.closed")
        asked = json.dumps(claude.model.recording.turns()[-1].body)
        assert "resume False" in asked


@pytest.mark.req("A-5", "A-7")
@pytest.mark.parametrize(("decision", "status"), [("allow", "ok"), ("deny", "denied")])
async def test_a_subagents_call_is_held_like_any_other(claude: ThirdParty, decision: Any, status: str) -> None:
    write_settings(Path(claude.env["HOME"]), AUTO_ALLOW)
    async with stage(claude.workspace, {"claude": spec(claude)}) as scene:
        await scene.open("claude")
        await scene.prompt("please [[agent:touch made.txt]]")
        asked = await scene.next("agent.interaction.request")
        task, call = scene.all("tool.invoke.request")
        assert (task.payload.tool_name in {"Task", "Agent"}, call.payload.tool_name) == (True, "Bash")
        assert call.payload.parent_invocation_id == task.payload.invocation_id
        kind = json.loads(bytes(task.payload.input)).get("subagent_type", task.payload.tool_name)
        assert call.metadata["delegation_chain"] == [
            {"agent_id": kind, "invocation_id": task.payload.invocation_id}]  # fmt: skip
        assert asked.payload.context.invocation_id == call.payload.invocation_id
        await scene.answer(asked, decision)
        assert (await scene.next("tool.invoke.result")).payload.status == status
        outcome = (await scene.next("tool.invoke.result")).payload
        assert (outcome.invocation_id, outcome.output_type) == (task.payload.invocation_id, "agent_result")
        assert (await scene.next("session.turn.end")).payload.stop_reason == "end_turn"
        assert (claude.workspace / "made.txt").exists() == (decision == "allow")


@pytest.mark.req("A-5", "C-8")
@pytest.mark.parametrize("answer", ["the middle one", None])
async def test_a_question_to_the_user_is_answered_with_text_or_declined(claude: ThirdParty, answer: str | None) -> None:
    async with stage(claude.workspace, {"claude": spec(claude)}) as scene:
        await scene.open("claude")
        await scene.prompt("please [[ask:Which way?]]")
        asked = await scene.next("agent.interaction.request")
        assert (asked.payload.interaction_type, asked.payload.title) == ("QUESTION", "Which way?")
        await scene.answer(asked, "deny" if answer is None else "allow", answer=answer)
        result = (await scene.next("tool.invoke.result")).payload
        assert (result.status, (answer or "no answer") in str(result.output)) == ("error" if answer is None else "ok",
                                                                                  True)
        assert (await scene.next("session.turn.end")).payload.stop_reason == "end_turn"


@pytest.mark.req("P-2", "A-5")
async def test_a_changed_input_is_the_one_that_runs(claude: ThirdParty) -> None:
    async with stage(claude.workspace, {"claude": spec(claude)}) as scene:
        await scene.open("claude")
        await scene.prompt("please [[tool:touch asked.txt]]")
        asked = await scene.next("agent.interaction.request")
        await scene.answer(asked, "allow", updated_input={**raw_input(scene.all("tool.invoke.request")[0]),
                                                          "command": "touch changed.txt"})
        assert (await scene.next("session.turn.end")).payload.stop_reason == "end_turn"
        assert [one.name for one in claude.workspace.iterdir()] == ["changed.txt"]
        assert len(scene.all("agent.interaction.request")) == 1
        assert scene.all("agent.error") == []


@pytest.mark.req("A-6")
async def test_a_prompts_mode_and_model_apply_to_it_only(claude: ThirdParty) -> None:
    async with stage(claude.workspace, {"claude": spec(claude)}) as scene:
        await scene.open("claude")
        await scene.prompt("first [[chunks:1]]", mode="plan", model="claude-other-model")
        await scene.next("session.usage")
        await scene.turn("second [[chunks:1]]")
        first, second = (turn.body for turn in claude.model.recording.turns()[-2:])
        assert "Plan mode is active" in json.dumps(first)
        assert first["model"] == "claude-other-model"
        assert second["model"] != "claude-other-model"


@pytest.mark.req("A-6")
async def test_only_plan_mode_can_be_switched(claude: ThirdParty) -> None:
    async with stage(claude.workspace, {"claude": spec(claude)}) as scene:
        await scene.open("claude")
        await scene.send("control.mode.switch", p.ModeSwitch(mode="plan"))
        await scene.turn("plan [[chunks:1]]")
        assert "Plan mode is active" in json.dumps(claude.model.recording.turns()[-1].body)
        await scene.send("control.mode.switch", p.ModeSwitch(mode="default"))
        assert scene.all("session.error") == []
        await scene.send("control.mode.switch", p.ModeSwitch(mode="bypassPermissions"))
        error = (await scene.next("session.error")).payload
        assert (error.error_code, error.fatal) == ("UNSUPPORTED_CAPABILITY", False)


@pytest.mark.req("T-6", "P-7")
async def test_compactions_are_reported_whether_requested_or_automatic(claude: ThirdParty) -> None:
    async with stage(claude.workspace, {"claude": spec(claude)}) as scene:
        await scene.open("claude")
        await scene.turn("hello [[chunks:5]]")
        assert (await scene.turn("/compact")).payload.stop_reason == "end_turn"
        await scene.turn("more [[chunks:5]]")
        await scene.send("control.session.compact", p.SessionCompact(request_id="r-1"))
        while len(scene.all("session.compacted")) < 2:
            await scene.next("session.compacted")
        by_hand, asked = (frame.payload for frame in scene.all("session.compacted"))
        assert (by_hand.trigger, asked.trigger) == ("manual", "requested")
        assert all(report.previous_token_count > 0 and report.summary for report in (by_hand, asked))
        # Usage of a request between turns is reported at once and not with the next turn (P-7).
        while (took := (await scene.next("session.usage")).payload).turn_id is not None:
            pass
        assert took.cost_usage.used > scene.all("session.usage")[-2].payload.cost_usage.used
        assert (await scene.turn("go on [[chunks:1]]")).payload.stop_reason == "end_turn"


@pytest.mark.req("A-2", "A-8")
async def test_a_program_that_dies_in_mid_turn_is_reported(claude: ThirdParty) -> None:
    async with stage(claude.workspace, {"claude": spec(claude)}) as scene:
        await scene.open("claude")
        await scene.prompt("please [[tool:kill -9 $PPID; sleep 60]]")
        await scene.answer(await scene.next("agent.interaction.request"), "allow")
        assert (await scene.next("session.turn.end")).payload.stop_reason == "error"
        assert errors(scene)[-1][0] == "SIGNAL_EXIT"
        await scene.next("session.closed")
        assert left_of(scene.session_id) == []


@pytest.mark.req("A-7")
async def test_a_missing_sdk_gives_one_sentence(claude: ThirdParty, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("interlock.agents.claude")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "claude_agent_sdk", None)
    async with stage(claude.workspace, {"claude": spec(claude)}) as scene:
        await scene.open("claude")
        error = (await scene.next("session.error")).payload
        assert error.error_code == "AGENT_START_FAILED"
        assert "pip install '.[agents]'" in error.message


@pytest.mark.req("A-5", "A-7")
@pytest.mark.parametrize("word", ["--dangerously-skip-permissions", "--permission-mode=bypassPermissions"])
async def test_arguments_that_open_gates_are_refused(claude: ThirdParty, word: str) -> None:
    async with stage(claude.workspace, {"claude": spec(claude, args=[word])}) as scene:
        await scene.open("claude")
        assert word.partition("=")[0] in (await scene.next("session.error")).payload.message
        assert left_of(scene.session_id) == []


@pytest.mark.req("A-7", "A-8")
async def test_a_program_that_does_not_start_reports_the_reason(claude: ThirdParty) -> None:
    broken = replace(claude, command=Path(sys.executable))
    async with stage(claude.workspace, {"claude": spec(broken, command=str(broken.command))}) as scene:
        await scene.open("claude")
        error = (await scene.next("session.error")).payload
        assert error.error_code == "AGENT_START_FAILED"
        assert "unknown option" in error.message


@pytest.mark.req("A-6", "L-4")
def test_the_offer_names_the_capabilities() -> None:
    offer = offers({"claude": AgentSpec(adapter="claude")})[0]
    assert (offer.adapter_type, offer.permission, offer.context_owner) == ("sdk", "asks", "agent")
