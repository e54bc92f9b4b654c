"""How a turn of an ACP agent ended, when the agent's own word for it is wrong or missing."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from agents.scripted_acp import content, opened, permission, play, update
from interlock.agents.process_end import SENTENCE
from interlock.ports.agent import AgentSpec, AgentStartFailed
from runner.stage import stage

pytestmark = pytest.mark.anyio
LAUNCHED = Path(__file__).parent.parent / "launched.py"
END = {"result": {"stopReason": "end_turn"}}
CANCELLED = {"result": {"stopReason": "cancelled"}}
ASKED = permission([("yes", "allow_once"), ("no", "reject_once")], toolCallId="c1", kind="execute",
                   rawInput={"command": "make"}, title="make")


def chunk(text: str) -> dict[str, Any]:
    return update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": text})


@pytest.mark.req("A-2")
@pytest.mark.parametrize("last_words", [
    {"result": {"stopReason": "cancelled"}}, {"error": {"code": -32603, "message": "terminated"}},
])  # fmt: skip
async def test_a_killed_launcher_counts_as_a_death_not_a_cancel(last_words: dict[str, Any], tmp_path: Path) -> None:
    spec = AgentSpec(adapter="acp", command=sys.executable,
                     args=["-I", "-S", str(LAUNCHED), json.dumps(last_words)])
    async with stage(tmp_path, {"launched": spec}) as scene:
        await scene.open("launched")
        await scene.prompt("go")
        delta = await scene.next("agent.text.delta")
        os.kill(int(delta.payload.text.split()[1]), signal.SIGKILL)
        error = (await scene.next("agent.error")).payload
        assert (error.error_code, error.severity) == ("SIGNAL_EXIT", "fatal")
        assert (await scene.next("session.turn.end")).payload.stop_reason == "error"
        assert (await scene.next("session.closed")).payload.signal == signal.SIGKILL


@pytest.mark.req("A-2", "A-4")
async def test_an_agent_that_closes_its_output_and_lives_on_is_ended_with_that_reason(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.open("bad")
        end = await scene.turn("text:hello close-stdout")
        errors = [frame for frame in scene.all("agent.error") if frame.metadata.get("expected") is not True]
        assert [(frame.payload.error_code, frame.payload.message) for frame in errors] == [("PROCESS_EXIT", SENTENCE)]
        assert end.payload.stop_reason == "error"
        assert (await scene.next("session.closed")).payload.signal == signal.SIGTERM


@pytest.mark.req("A-2", "A-5")
async def test_an_agent_that_stops_after_a_denial_was_not_canceled() -> None:
    _, process, outcome = await play([ASKED, None, CANCELLED], allow=False)
    assert process.got[-1]["result"]["outcome"] == {"outcome": "selected", "optionId": "no"}
    assert outcome.stop_reason == "end_turn"
    assert outcome.notice == ("AgentStopped", "The agent ended its turn because a permission was denied.")


@pytest.mark.req("A-2")
async def test_an_agent_that_gives_up_by_itself_is_canceled() -> None:
    _, _, outcome = await play([ASKED, None, CANCELLED])
    assert (outcome.stop_reason, outcome.notice) == ("cancelled", None)


@pytest.mark.req("A-2")
@pytest.mark.parametrize("steps", [
    [], [chunk("")], [chunk(" \n")],
    [update(sessionUpdate="agent_thought_chunk", content={"type": "text", "text": "hm"})],
    [update(sessionUpdate="usage_update", used=1, size=2)],
])  # fmt: skip
async def test_an_empty_turn_is_detected(steps: list[Any]) -> None:
    _, _, outcome = await play([*steps, END])
    assert outcome.stop_reason == "end_turn"
    assert outcome.notice is not None
    assert outcome.notice[0] == "EmptyTurn"


@pytest.mark.req("A-2")
@pytest.mark.parametrize("steps", [
    [chunk("hi")],
    [update(sessionUpdate="tool_call", toolCallId="c1", status="completed", content=content("done"))],
    [update(sessionUpdate="agent_message_chunk", content={"type": "image", "mimeType": "image/png", "data": "aGk="})],
])  # fmt: skip
async def test_a_turn_with_text_a_tool_or_a_file_is_not_empty(steps: list[Any]) -> None:
    _, _, outcome = await play([*steps, END])
    assert outcome.notice is None


@pytest.mark.req("A-2")
@pytest.mark.parametrize(("error", "code"), [
    ({"code": -32602, "message": "The prompt contains 1100 commands, more than 1000."}, "PromptRefused"),
    ({"code": -32603, "message": "The model cannot be reached."}, "UPSTREAM_ERROR"),
    ({"code": -32602, "message": "It failed.", "data": {"interlock": {"exit_code": 3}}}, "PROCESS_EXIT"),
])  # fmt: skip
async def test_a_rejected_prompt_is_not_a_failure_of_the_model_service(
    error: dict[str, Any], code: str
) -> None:
    _, _, outcome = await play([{"error": error}])
    assert (outcome.stop_reason, outcome.error) == ("error", (code, error["message"]))


@pytest.mark.req("A-8")
@pytest.mark.parametrize(("error", "sentence"), [
    ({"code": -32000, "message": "Authentication required", "data": {"details": "run `login` first."}},
     "The agent refused to start a session: Authentication required: run `login` first."),
    ({"code": -32603, "message": "Internal error"},
     "The agent refused to start a session: Internal error\na line of its log"),
])  # fmt: skip
async def test_a_start_error_includes_the_agents_log_only_if_the_message_is_vague(
    error: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(AgentStartFailed) as failed:
        async with opened({"session/new": [{"error": error}]}):
            pass
    assert str(failed.value) == sentence
