"""Programs of an agent that never asks, through gateway and runner: each is decided by policy or a person (H-16)."""

from __future__ import annotations

from pathlib import Path

import pytest

from end_to_end.tasks import SubmittedTask, submit
from proof.processes.stack import Stack
from this_host import HOST

pytestmark = pytest.mark.skipif(HOST.programs is not None, reason=str(HOST.programs))


def program_asked_about(task: SubmittedTask) -> dict[str, object]:
    approval = task.approval()
    assert approval["tool_name"] == "program"
    return approval


@pytest.mark.req("H-16")
def test_each_command_of_a_shell_waits_for_a_vote_and_a_denial_leaves_no_file(stack: Stack, workspace: Path) -> None:
    task = submit(stack, "held", "touch first; touch second; echo $?", workspace=workspace)

    first = program_asked_about(task)
    assert first["title"] == "$ touch first"
    assert list(workspace.iterdir()) == []
    task.vote("grant", first)
    second = program_asked_about(task)
    assert second["title"] == "$ touch second"
    task.vote("deny", second)

    assert task.ended()["state"] == "succeeded"
    assert task.text() == "126\n"
    assert [entry.name for entry in workspace.iterdir()] == ["first"]
    assert [frame["payload"]["status"] for frame in task.sent("tool.invoke.result")] == ["ok", "denied"]
    assert first["holding"] == {"held": "box", "why": "each program that it starts is held"}


@pytest.mark.req("H-16")
def test_one_rule_lets_a_build_start_any_program_and_the_record_counts_them(stack: Stack, workspace: Path) -> None:
    (workspace / "build.sh").write_text("for one in 1 2 3; do basename $one; done; touch made\n")
    task = submit(stack, "held", "sh build.sh; touch outside; true", workspace=workspace)
    task.vote("deny", program_asked_about(task))

    assert task.ended()["state"] == "succeeded"
    assert (workspace / "made").exists()
    assert not (workspace / "outside").exists()
    built = task.sent("tool.invoke.result")[0]["payload"]["output"]
    assert built.startswith("4 programs started below it: basename ×3, touch\nsha256 ")
    assert len(task.sent("agent.interaction.request")) == 2


@pytest.mark.req("H-16")
def test_an_approver_may_let_a_program_start_any_program(stack: Stack, workspace: Path) -> None:
    task = submit(stack, "held", "sh -c 'touch one; touch two; exit'", workspace=workspace)
    approval = program_asked_about(task)
    ballot = {"decision": "grant", "digest": approval["digest"], "option_id": "below"}
    assert stack.post(f"/v1/approvals/{approval['id']}/grants", ballot, f"below-{task.id}").status_code == 200

    assert task.ended()["state"] == "succeeded"
    assert sorted(entry.name for entry in workspace.iterdir()) == ["one", "two"]


@pytest.mark.req("H-16", "C-2")
def test_a_command_is_cancelled_while_its_program_is_held(stack: Stack, workspace: Path) -> None:
    task = submit(stack, "held", "touch made; touch again", workspace=workspace)
    program_asked_about(task)
    task.cancel()

    assert task.ended()["state"] == "canceled"
    assert list(workspace.iterdir()) == []


@pytest.mark.req("H-16")
def test_a_launcher_starts_its_agent_between_turns_and_in_a_turn_each_program_waits(
        stack: Stack, workspace: Path) -> None:
    task = submit(stack, "launched", "touch made", workspace=workspace)
    task.vote("grant", task.approval())  # The agent's own question.
    task.vote("deny", program_asked_about(task))

    task.ended()
    assert list(workspace.iterdir()) == []
    started = task.sent("agent.error")[0]["payload"]
    assert started["error_code"] == "STARTED_BETWEEN_TURNS"
    assert "-m interlock.shell_agent while it worked on no command" in started["message"]
