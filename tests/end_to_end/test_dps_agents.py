"""Agents that use the protocol themselves, through gateway and runner: each end of a turn is its command's (C-8)."""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from end_to_end.tasks import submit, watching
from installed import require
from proof.processes.fork_server import ForkServer
from proof.processes.stack import Stack

DPS = Path(__file__).resolve().parents[1] / "agents" / "dps_words.py"
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "dps-agent" / "agent.mjs"


def agent(name: str, command: str, *args: str) -> str:
    given = ", ".join(f'"{arg}"' for arg in args)
    return f'\n[agents.{name}]\nadapter = "dps"\ncommand = "{command}"\nargs = [{given}]\n'


def lived_in(place: Path, config: str, fork_server: ForkServer) -> Generator[Stack]:
    stack = Stack(place, config, fork_server)
    try:
        stack.up()
        yield stack
    finally:
        stack.down()
    left, (audit_ok, _, says) = stack.leftovers(), stack.audit_ok()
    assert left == []
    assert audit_ok, says
    assert "Traceback" not in stack.log("gateway") + stack.log("runner")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, fork_server: ForkServer) -> Generator[Stack]:
    yield from lived_in(tmp_path_factory.mktemp("stack"), agent("words", sys.executable, "-I", "-S", str(DPS)),
                        fork_server)


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory, fork_server: ForkServer) -> Generator[Stack]:
    yield from lived_in(tmp_path_factory.mktemp("example"), agent("notes", str(require("node")), str(EXAMPLE)),
                        fork_server)


@pytest.mark.req("C-8", "T-1", "T-2", "A-7")
@pytest.mark.parametrize(("words", "state", "notices", "awaits"), [
    ("stop:end_turn", "succeeded", [], False),
    ("stop:max_tokens", "succeeded", ["Truncated"], False),
    ("stop:awaiting_input", "succeeded", [], True),
    ("stop:tool_use", "succeeded", [], False),
    ("stop:cancelled", "canceled", [], False),
    ("stop:error", "failed", [], False),
])
def test_each_stop_reason_ends_its_command(
    words: str, state: str, notices: list[str], awaits: bool, stack: Stack
) -> None:
    task = submit(stack, "words", f"text:said {words}", workspace=stack.workspace)
    ended = task.ended()
    assert ended["state"] == state
    output = ended["result"]["output"]
    assert [notice["code"] for notice in output.get("notices", [])] == notices
    assert output.get("awaiting_input", False) is awaits
    assert "said" in task.text()
    ends = [frame["payload"]["stop_reason"] for frame in task.sent("session.turn.end")]
    assert ends == ([*(["tool_use"] if "tool_use" in words else []), "end_turn"] if state == "succeeded"
                    and words in ("stop:end_turn", "stop:tool_use") else [words.removeprefix("stop:")])
    if state == "failed":
        assert ended["error"]["code"] == "UPSTREAM_ERROR"
    task.close()


@pytest.mark.req("C-8")
def test_a_query_of_two_turns_is_one_command_until_its_last_turn(stack: Stack) -> None:
    task = submit(stack, "words", "text:first stop:tool_use", workspace=stack.workspace)
    task.ended()
    assert task.text() == "firstmore"
    states = [event["state"] for event in task.status() if event["event"] == "state"]
    assert states[-2:] == ["running", "succeeded"]
    following = submit(stack, "words", "text:next", session_id=task.session_id)
    assert following.ended()["state"] == "succeeded"
    task.close()


@pytest.mark.req("T-6", "E-1")
def test_compactions_and_unknown_entries_are_stored_in_the_session(stack: Stack) -> None:
    task = submit(stack, "words", "compact:auto compact:manual vendor", workspace=stack.workspace)
    assert task.ended()["state"] == "succeeded"
    assert [frame["payload"]["trigger"] for frame in task.sent("session.compacted")] == ["auto", "manual"]
    assert [frame["payload"] for frame in task.sent("x-acme.progress")] == [{"percent": 12}]
    assert [frame["payload"]["mood"] for frame in task.sent("agent.mood")] == ["fine"]
    task.close()


@pytest.mark.req("A-5", "A-7", "P-1")
@pytest.mark.parametrize(("decision", "text"), [
    ("grant", "It is in note.txt."), ("deny", "I leave note.txt as it is."),
])
@pytest.mark.needs("node")
def test_the_documented_example_writes_its_note_after_a_grant(decision: str, text: str, example: Stack) -> None:
    place = example.workspace / decision
    place.mkdir()
    task = submit(example, "notes", "buy milk", workspace=place)

    approval = task.approval()
    assert (approval["door"], approval["tool_name"]) == ("tool", "write_note")
    assert not (place / "note.txt").exists()
    task.vote(decision, approval)

    assert task.ended()["state"] == "succeeded"
    assert text in task.text()
    assert task.text().startswith("Hello! You said: buy milk")
    assert (place / "note.txt").exists() is (decision == "grant")
    assert example.log("runner").count("refused:") == 0
    task.close()


@pytest.mark.req("A-4", "A-7", "C-8")
@pytest.mark.needs("node")
def test_the_documented_example_stops_on_cancel(example: Stack) -> None:
    task = submit(example, "notes", "word " * 500, workspace=example.workspace)
    with watching(task) as viewer:
        viewer.until_text("word word")
        task.cancel()
        assert task.ended()["state"] == "canceled"
        viewer.until_frame("session.turn.end")
    assert 0 < task.text().count("word") < 500
    assert not (example.workspace / "note.txt").exists()
    assert task.sent("agent.error") == []
    again = submit(example, "notes", "still there?", session_id=task.session_id)
    again.vote("deny")
    assert again.ended()["state"] == "succeeded"
    task.close()
