"""The builtin agent in a stack of real processes, against the tests' model server: from the command to the transcript,
through compactions and kills, no tool run twice and nothing forgotten."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from end_to_end.tasks import SubmittedTask, new_key, submit
from interlock.model_stand_in import AFTER_TOOL, ModelServer, running_model_server
from proof.processes.fork_server import ForkServer
from proof.processes.stack import Stack

KEY = "a-key-that-nobody-else-sees"
WINDOW = 12_000


@pytest.fixture(scope="module")
def model() -> Generator[ModelServer]:
    with running_model_server() as server:
        yield server


@pytest.fixture(scope="module")
def stack(model: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Generator[Stack]:
    """Gateway and runner, the API key in the environment that the runner was started with."""
    def agent(name: str, window: int) -> str:
        return (f'\n[agents.{name}]\nadapter = "builtin"\nmodel = "anthropic/claude-sonnet-5-5"\n'
                f'base_url = "{model.url}"\napi_key_env = "OWN_MODEL_KEY"\ncontext_window = {window}\n')

    os.environ["OWN_MODEL_KEY"] = KEY
    fork_server = ForkServer("interlock.agents.builtin.agent", "pydantic_ai.models.anthropic")
    stack = Stack(tmp_path_factory.mktemp("builtin"), agent("own", 200_000) + agent("small", WINDOW), fork_server)
    try:
        stack.up()
        yield stack
    finally:
        del os.environ["OWN_MODEL_KEY"]
        stack.down()
        fork_server.close()
    left, (audit_ok, _, says) = stack.leftovers(), stack.audit_ok()
    logs = stack.log("gateway") + stack.log("runner")
    assert left == []
    assert audit_ok, says
    assert "Traceback" not in logs
    assert KEY not in logs


@pytest.fixture
def workspace(stack: Stack, request: pytest.FixtureRequest) -> Path:
    found = stack.workspace / "".join(c if c.isalnum() else "-" for c in request.node.name)
    found.mkdir()
    return found


def entries(stack: Stack, session_id: str) -> list[dict[str, Any]]:
    """The transcript's entries. An export has all that is committed; the file is written after that."""
    answer = stack.ask(f"/v1/sessions/{session_id}/export", view="raw").raise_for_status()
    return [json.loads(line) for line in answer.text.splitlines()][1:]


def roles(found: list[dict[str, Any]]) -> list[str]:
    return [entry["message"]["role"] if entry["type"] == "message" else entry["type"] for entry in found
            if entry["type"] in ("message", "compaction")]


def asked(model: ModelServer) -> str:
    return json.dumps(model.recording.turns()[-1].body)


def then(stack: Stack, task: SubmittedTask, text: str) -> SubmittedTask:
    """Another command in the same session, answered."""
    following = submit(stack, task.command()["target"]["agent_id"], text, session_id=task.session_id)
    ended = following.ended()
    assert ended["state"] == "succeeded", ended.get("error")
    return following


@pytest.mark.req("B-1", "A-5", "X-5", "X-8")
def test_a_held_tool_runs_after_a_grant_and_its_file_and_transcript_are_stored(
    stack: Stack, model: ModelServer, workspace: Path
) -> None:
    task = submit(stack, "own", 'please [[call:write {"path":"made.txt","content":"by hand\\n"}]]',
                  workspace=workspace)
    approval = task.approval()
    assert (approval["tool_name"], approval["input"]) == ("write", {"path": "made.txt", "content": "by hand\n"})
    assert not (workspace / "made.txt").exists()
    assert task.vote("grant", approval).status_code == 200
    ended = task.ended()
    assert ended["state"] == "succeeded", ended.get("error")
    assert (workspace / "made.txt").read_text() == "by hand\n"
    assert task.text() == AFTER_TOOL
    assert roles(entries(stack, task.session_id)) == ["user", "assistant", "toolResult", "assistant"]
    # What only reads is not asked about: the tools are ours, and so are their kinds.
    again = then(stack, task, '\n\nand [[call:read {"path":"made.txt"}]]')
    assert again.sent("tool.invoke.result")[-1]["payload"]["output"] == "1\tby hand"
    assert "made.txt: written, 1 lines" in asked(model)
    again.close()


@pytest.mark.req("B-1", "D-6")
def test_a_killed_runner_continues_with_the_whole_conversation(
    stack: Stack, model: ModelServer, workspace: Path
) -> None:
    task = submit(stack, "own", "remember the blue door [[say:I will.]]", workspace=workspace)
    assert task.ended()["state"] == "succeeded"
    slow = submit(stack, "own", "\n\nslow [[say:begun]] [[hang]]", session_id=task.session_id)
    slow.until("running")
    stack.until(lambda: "begun" in "".join(slow.texts().values()) or bool(slow.sent("agent.text.delta")) or any(
        "[[hang]]" in one.asked.prompt for one in model.recording.turns()))
    stack.kill("runner")
    stack.start("runner")
    assert slow.ended()["state"] == "failed"
    then(stack, task, "\n\nwhat did I say? [[say:The blue door.]]")
    assert "remember the blue door" in asked(model)
    assert "I will." in asked(model)
    stack.kill("gateway")
    stack.start("gateway")
    stack.ready()
    then(stack, task, "\n\nand now? [[say:Still.]]")
    assert "remember the blue door" in asked(model)
    assert asked(model).count("The blue door.") >= 1
    task.close()


@pytest.mark.req("B-1", "Z-2", "Z-4", "Z-5")
def test_a_conversation_past_its_threshold_is_summarized_and_compacted(
    stack: Stack, model: ModelServer, workspace: Path
) -> None:
    words = "word " * 4_000
    task = submit(stack, "small", f"the first thing {words}\n\n[[say:One.]]", workspace=workspace)
    assert task.ended()["state"] == "succeeded"
    then(stack, task, f"the second thing {words}\n\n[[say:Two.]]")
    then(stack, task, f"the third thing {words}\n\n[[say:Three.]] [[tokens:{WINDOW - 100}]]")
    stack.until(lambda: "compaction" in roles(entries(stack, task.session_id)))
    following = then(stack, task, "\n\nand now? [[say:Short.]] [[tokens:100]]")
    # Before that a silent turn wrote down what must last, and no one was asked.
    written = [file.read_text() for file in (workspace / "memory").iterdir()]
    assert written == ["what must last\n"]
    assert len(following.sent("agent.interaction.request")) == len(following.sent("control.interaction.response")) == 1
    assert following.sent("control.interaction.response")[0]["payload"]["by"] == "policy:memory flush writes memory"
    assert "the first thing" not in asked(model)
    assert "Test session" in asked(model)
    assert "the third thing" in asked(model)
    assert stack.get(f"/v1/sessions/{task.session_id}")["entry"]["compactionCount"] == 1
    task.close()


@pytest.mark.req("B-1", "Z-2")
def test_an_overflow_in_mid_turn_is_compacted_and_no_tool_runs_twice(
    stack: Stack, model: ModelServer, workspace: Path
) -> None:
    words = "word " * 2_000
    task = submit(stack, "small", f"long ago {words}\n\n[[say:One.]]", workspace=workspace)
    assert task.ended()["state"] == "succeeded"
    then(stack, task, f"later {words}\n\n[[say:Two.]]")
    size = model.recording.turns()[-1].asked.size
    # The request with the result is too long, until what was long ago is summed up.
    full = submit(stack, "small", f"\n\nnow [[tool:echo ran >> runs; seq 1 300]] [[room:{size + 1_200}]]",
                  session_id=task.session_id)
    assert full.vote("grant").status_code == 200
    ended = full.ended()
    assert ended["state"] == "succeeded", ended.get("error")
    assert (workspace / "runs").read_text() == "ran\n"
    warnings = [frame["payload"] for frame in full.sent("agent.error")]
    assert [(warning["error_code"], warning["severity"]) for warning in warnings] == [("CONTEXT_OVERFLOW", "warning")]
    assert "compaction" in roles(entries(stack, task.session_id))
    assert "Test session" in asked(model)
    assert len(full.sent("tool.invoke.request")) == 1
    then(stack, task, "\n\nand now? [[say:Short.]]")
    assert "long ago" not in asked(model)
    task.close()


@pytest.mark.req("B-1", "Z-4")
def test_a_client_requests_a_compaction(stack: Stack, model: ModelServer, workspace: Path) -> None:
    words = "word " * 4_000
    task = submit(stack, "small", f"the first thing {words}\n\n[[say:One.]]", workspace=workspace)
    assert task.ended()["state"] == "succeeded"
    then(stack, task, f"the second thing {words}\n\n[[say:Two.]]")
    then(stack, task, f"the third thing {words}\n\n[[say:Three.]]")
    answer = stack.post(f"/v1/sessions/{task.session_id}/compact", {"instructions": "keep the doors"}, new_key())
    assert answer.status_code == 202, answer.text
    stack.until(lambda: "compaction" in roles(entries(stack, task.session_id)))
    assert "keep the doors" in json.dumps(model.recording.all()[-1].body)
    then(stack, task, "\n\nand now? [[say:Short.]]")
    assert "the first thing" not in asked(model)
    task.close()
