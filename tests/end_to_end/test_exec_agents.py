"""Programs that never ask, through `exec`: the command itself waits for its approval, and the result shows it."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from agents.third_party import ThirdParty
from end_to_end.conftest import AGENTS, CONFIG
from end_to_end.tasks import submit, watching
from interlock.model_stand_in import AFTER_TOOL, chunk_texts
from proof.processes.stack import Stack


@pytest.mark.req("A-10", "A-3", "P-1", "C-8")
def test_a_program_starts_only_after_its_command_is_approved(stack: Stack, workspace: Path) -> None:
    task = submit(stack, "sh", "echo ran > ran; echo out; echo err >&2", workspace=workspace)

    approval = task.approval()
    assert (approval["door"], approval["rule"]) == ("command", "ask before an execute")
    assert not (workspace / "ran").exists()
    task.vote("grant", approval)

    ended = task.ended()
    assert (ended["state"], ended["result"]["output"]["exit_code"]) == ("succeeded", 0)
    assert "ToolsNotGated" in [notice["code"] for notice in ended["result"]["output"]["notices"]]
    assert task.text() == "out\n"
    assert stack.leftovers(workspace) == []  # One process a turn: none waits for the next prompt.


@pytest.mark.req("A-10", "P-1")
def test_a_denied_program_never_starts(stack: Stack, workspace: Path) -> None:
    task = submit(stack, "sh", "echo ran > ran", workspace=workspace)
    task.vote("deny")

    assert task.ended()["state"] == "rejected"
    assert not (workspace / "ran").exists()


@pytest.mark.req("A-2", "A-3", "A-8", "C-8")
@pytest.mark.parametrize(("script", "state", "code", "exit_code"), [
    ("exit 0", "succeeded", None, 0), ("echo why >&2; exit 3", "failed", "PROCESS_EXIT", 3),
    ("exit 137", "failed", "SIGNAL_EXIT", 137), ("kill -9 $$", "failed", "SIGNAL_EXIT", None)])
def test_the_exit_of_a_program_is_the_result_and_its_session_continues(
    stack: Stack, workspace: Path, script: str, state: str, code: str | None, exit_code: int | None
) -> None:
    task = submit(stack, "sh", script, workspace=workspace)
    task.vote("grant")

    ended = task.ended()

    assert (ended["state"], ended.get("error", {}).get("code")) == (state, code)
    assert ended["result"]["output"].get("exit_code") == exit_code
    if "why" in script:
        assert "why" in ended["error"]["message"]
    again = submit(stack, "sh", "echo again", session_id=task.session_id)
    again.vote("grant")
    assert again.ended()["state"] == "succeeded"


@pytest.mark.req("A-4", "C-2")
def test_a_program_is_ended_with_all_its_children(stack: Stack, workspace: Path) -> None:
    task = submit(stack, "sh", "sleep 600 & setsid sleep 600 & echo begun; wait", workspace=workspace)
    task.vote("grant")
    with watching(task) as viewer:
        viewer.until_text("begun\n")

    task.cancel()

    assert task.ended()["state"] == "canceled"
    assert stack.leftovers(workspace) == []


@pytest.fixture
def claude_stack(claude: ThirdParty, tmp_path: Path) -> Generator[Stack]:
    """A stack that drives Claude's command line as a user would write it."""
    env = ", ".join(f'{name} = "{value}"' for name, value in claude.env.items())
    args = ", ".join(f'"{argument}"' for argument in claude.args)
    place = tmp_path / "stack"
    place.mkdir()
    stack = Stack(place, CONFIG + AGENTS + f'\n[agents.claude]\nadapter = "exec"\ncommand = "{claude.command}"\n'
                                           f"args = [{args}]\nenv = {{ {env} }}\n")
    try:
        stack.up()
        yield stack
    finally:
        stack.down()


@pytest.mark.req("A-7", "A-10", "A-2", "P-1", "C-8")
def test_claude_runs_through_exec(claude_stack: Stack) -> None:
    stack = claude_stack
    task = submit(stack, "claude", "hello [[chunks:3]]", workspace=stack.workspace)
    approval = task.approval()
    assert approval["door"] == "command"
    task.vote("grant", approval)
    ended = task.ended()
    assert (ended["state"], ended["result"]["output"]["exit_code"]) == ("succeeded", 0)
    assert task.text().strip() == "".join(chunk_texts(3)).strip()
    assert "ToolsNotGated" in [notice["code"] for notice in ended["result"]["output"]["notices"]]

    tool = submit(stack, "claude", "please [[tool:touch denied.txt]]", session_id=task.session_id)
    tool.vote("grant")
    assert tool.ended()["state"] == "succeeded"  # It denies its own tools, and exits 0.
    assert AFTER_TOOL in tool.text()
    assert not (stack.workspace / "denied.txt").exists()

    failing = submit(stack, "claude", "[[fail:500]]", session_id=task.session_id)
    failing.vote("grant")
    ended = failing.ended()
    assert (ended["state"], ended["error"]["code"]) == ("failed", "PROCESS_EXIT")
    assert ended["result"]["output"]["exit_code"] == 1
    assert "API Error: 500" in failing.text()
    assert stack.leftovers() == []
