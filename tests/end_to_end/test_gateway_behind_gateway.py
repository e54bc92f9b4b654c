"""A gateway behind a gateway: our adapter of ACP agents at `interlock acp`. Each approval is asked at both, and one
answer at either decides it (O-4)."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from end_to_end.tasks import SubmittedTask, submit
from proof.processes.fork_server import ForkServer
from proof.processes.stack import Stack

pytestmark = [pytest.mark.req("O-3", "O-4"), pytest.mark.long]


class Pair(NamedTuple):
    """`front` has the agent `behind`, which is the agent `shell` of `back`."""

    front: Stack
    back: Stack


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, fork_server: ForkServer) -> Generator[Pair]:
    back = Stack(tmp_path_factory.mktemp("back"), fork_server=fork_server)
    back.up()
    place = back.workspace / "front"  # What works below a root of the one works below one of the other.
    place.mkdir()
    client = place / "client"  # An agent has no variable of Interlock's: its key comes from a directory that is named.
    client.mkdir(mode=0o700)
    shutil.copy(back.state / "owner.key", client)
    front = Stack(place, f"""
[agents.behind]
adapter = "acp"
command = "{sys.executable}"
args = ["-m", "interlock", "acp", "shell", "--url", "{back.url}", "--state", "{client}"]
""")
    try:
        front.up()
        yield Pair(front, back)
    finally:
        front.down()
        back.down()
    for stack in (front, back):
        audit_ok, _, says = stack.audit_ok()
        assert audit_ok, says
        assert stack.leftovers() == []


@pytest.fixture
def workspace(pair: Pair, request: pytest.FixtureRequest) -> Path:
    found = pair.front.workspace / "".join(c if c.isalnum() else "-" for c in request.node.name)
    found.mkdir()
    return found


def behind(pair: Pair, task: SubmittedTask) -> tuple[dict[str, Any], SubmittedTask]:
    """The approval that waits at the back, and its command there."""
    (approval,) = pair.back.get("/v1/approvals", state="pending")["items"]
    return approval, SubmittedTask(pair.back, pair.back.get(f"/v1/commands/{approval['command_id']}"))


@pytest.mark.parametrize("decision", ["grant", "deny"])
def test_a_vote_at_the_front_gateway_is_the_vote_at_the_back(pair: Pair, workspace: Path, decision: str) -> None:
    task = submit(pair.front, "behind", "touch made", workspace=workspace)
    asked = task.approval()
    waiting, command = behind(pair, task)
    assert asked["title"] == waiting["title"] == "$ touch made"
    assert not (workspace / "made").exists()

    assert task.vote(decision, asked).status_code == 200

    ended = command.ended()
    decided = pair.back.get(f"/v1/approvals/{waiting['id']}")
    assert decided["state"] == ("consumed" if decision == "grant" else "denied")
    assert [vote["decision"] for vote in decided["votes"]] == [decision]
    assert task.ended()["state"] == ended["state"] == "succeeded"
    assert (workspace / "made").exists() == (decision == "grant")
    assert pair.front.get("/v1/approvals", state="pending")["items"] == []


@pytest.mark.parametrize("decision", ["grant", "deny"])
def test_a_vote_at_the_back_withdraws_the_question_and_grants_nothing_at_the_front(
    pair: Pair, workspace: Path, decision: str
) -> None:
    task = submit(pair.front, "behind", "touch made", workspace=workspace)
    asked = task.approval()
    waiting, command = behind(pair, task)

    assert command.vote(decision, waiting).status_code == 200

    assert command.ended()["state"] == "succeeded"
    ended = task.ended()
    if decision == "grant":  # A run without a grant of the front's approvers is reported there and ends the turn.
        assert (ended["state"], ended["error"]["code"]) == ("failed", "RAN_UNASKED")
    else:
        assert ended["state"] == "succeeded"
    left = pair.front.get(f"/v1/approvals/{asked['id']}")
    assert left["state"] not in ("pending", "granted")
    assert "votes" not in left
    assert (workspace / "made").exists() == (decision == "grant")


def test_a_cancel_at_the_front_ends_the_turn_at_the_back_without_a_vote(pair: Pair, workspace: Path) -> None:
    task = submit(pair.front, "behind", "touch made", workspace=workspace)
    task.approval()
    waiting, command = behind(pair, task)

    task.cancel()

    assert task.ended()["state"] == command.ended()["state"] == "canceled"
    left = pair.back.get(f"/v1/approvals/{waiting['id']}")
    assert left["state"] not in ("pending", "granted", "denied")
    assert "votes" not in left
    assert not (workspace / "made").exists()
