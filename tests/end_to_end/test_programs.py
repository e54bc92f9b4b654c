"""Programs of an agent that never asks, through gateway and runner: each is decided by policy or a person (H-16)."""

from __future__ import annotations

from pathlib import Path

import pytest

from end_to_end.errands import Errand, submit
from proof.processes.stack import Stack
from this_host import HOST

pytestmark = pytest.mark.skipif(HOST.programs is not None, reason=str(HOST.programs))


def program_asked_about(errand: Errand) -> dict[str, object]:
    approval = errand.approval()
    assert approval["tool_name"] == "program"
    return approval


@pytest.mark.req("H-16")
def test_each_command_of_a_shell_waits_for_a_person_and_a_no_leaves_no_file(stack: Stack, workspace: Path) -> None:
    errand = submit(stack, "held", "touch first; touch second; echo $?", workspace=workspace)

    first = program_asked_about(errand)
    assert first["title"] == "$ touch first"
    assert list(workspace.iterdir()) == []
    errand.vote("grant", first)
    second = program_asked_about(errand)
    assert second["title"] == "$ touch second"
    errand.vote("deny", second)

    assert errand.ended()["state"] == "succeeded"
    assert errand.text() == "126\n"
    assert [entry.name for entry in workspace.iterdir()] == ["first"]
    assert [frame["payload"]["status"] for frame in errand.sent("tool.invoke.result")] == ["ok", "denied"]
    assert first["holding"] == {"held": "box", "why": "each program that it starts is held"}


@pytest.mark.req("H-16")
def test_one_rule_lets_a_build_start_what_it_wants_and_the_record_counts_it(stack: Stack, workspace: Path) -> None:
    (workspace / "build.sh").write_text("for one in 1 2 3; do basename $one; done; touch made\n")
    errand = submit(stack, "held", "sh build.sh; touch outside; true", workspace=workspace)
    errand.vote("deny", program_asked_about(errand))

    assert errand.ended()["state"] == "succeeded"
    assert (workspace / "made").exists()
    assert not (workspace / "outside").exists()
    built = errand.sent("tool.invoke.result")[0]["payload"]["output"]
    assert built.startswith("4 programs started below it: basename ×3, touch\nsha256 ")
    assert len(errand.sent("agent.interaction.request")) == 2


@pytest.mark.req("H-16")
def test_a_person_may_let_a_program_start_what_it_wants(stack: Stack, workspace: Path) -> None:
    errand = submit(stack, "held", "sh -c 'touch one; touch two; exit'", workspace=workspace)
    approval = program_asked_about(errand)
    ballot = {"decision": "grant", "digest": approval["digest"], "option_id": "below"}
    assert stack.post(f"/v1/approvals/{approval['id']}/grants", ballot, f"below-{errand.id}").status_code == 200

    assert errand.ended()["state"] == "succeeded"
    assert sorted(entry.name for entry in workspace.iterdir()) == ["one", "two"]


@pytest.mark.req("H-16", "C-2")
def test_a_command_is_cancelled_while_its_program_is_held(stack: Stack, workspace: Path) -> None:
    errand = submit(stack, "held", "touch made; touch again", workspace=workspace)
    program_asked_about(errand)
    errand.cancel()

    assert errand.ended()["state"] == "canceled"
    assert list(workspace.iterdir()) == []


@pytest.mark.req("H-16")
def test_a_launcher_starts_its_agent_between_turns_and_in_a_turn_each_program_waits(
        stack: Stack, workspace: Path) -> None:
    errand = submit(stack, "launched", "touch made", workspace=workspace)
    errand.vote("grant", errand.approval())  # The agent's own question.
    errand.vote("deny", program_asked_about(errand))

    errand.ended()
    assert list(workspace.iterdir()) == []
    started = errand.sent("agent.error")[0]["payload"]
    assert started["error_code"] == "STARTED_BETWEEN_TURNS"
    assert "-m interlock.shell_agent while it worked on no command" in started["message"]
