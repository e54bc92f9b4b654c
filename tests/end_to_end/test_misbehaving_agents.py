"""Agents that die, hang, flood and lie: each turn ends with the right frames, no process is left, other sessions
continue."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any, ClassVar

import pytest

from agents.misbehaving import WRITTEN, flood_chunk
from end_to_end.tasks import SubmittedTask, body, new_key, submit, watching
from proof.processes.stack import Stack

pytestmark = pytest.mark.usefixtures("usable")

FLOOD_BYTES = 20_000_000


def give(stack: Stack, workspace: Path, words: str) -> SubmittedTask:
    """A prompt for the misbehaving agent."""
    return submit(stack, "misbehaving", words, workspace=workspace)


def ends(task: SubmittedTask) -> list[tuple[str, Any]]:
    """The frames that report the end of the session's turn and process, in order, each with its relevant field."""
    named = {"agent.error": "error_code", "session.turn.end": "stop_reason", "session.usage": None,
             "session.closed": "reason"}
    frames = [event["frame"] for event in task.frames() if event["kind"] == "C"]
    return [(frame["type"], frame["payload"][named[frame["type"]]] if named[frame["type"]] else None)
            for frame in frames if frame["type"] in named and frame["payload"].get("severity") != "warning"]


@pytest.mark.req("A-2", "A-8", "C-8", "W-2")
@pytest.mark.parametrize("agent", ["dead", "deaf", "penniless"])
def test_an_agent_that_does_not_start_fails_the_command(stack: Stack, workspace: Path, agent: str) -> None:
    task = submit(stack, agent, "text", workspace=workspace)

    ended = task.ended()

    assert (ended["state"], ended["error"]["code"]) == ("failed", "AGENT_START_FAILED")
    printed = {"dead": "leaving with status 3", "deaf": "leaving with status 3", "penniless": "Authentication required"}
    assert printed[agent] in ended["error"]["message"]
    task.closed()
    assert task.sent("session.turn.start") == []
    errors = task.sent("session.error")
    assert (errors[0]["payload"]["error_code"], errors[0]["payload"]["fatal"]) == ("AGENT_START_FAILED", True)
    assert stack.leftovers(workspace) == []


@pytest.mark.req("A-8", "C-0")
def test_a_missing_agent_program_is_refused_before_a_command_is_stored(stack: Stack, workspace: Path) -> None:
    answer = stack.post("/v1/commands", body("absent", "text", workspace=workspace), new_key())

    assert (answer.status_code, answer.json()["code"]) == (409, "Conflict")
    assert "'/nowhere/at/all' is not on the runner" in answer.json()["detail"]


@pytest.mark.req("A-2", "T-2", "T-3", "C-8", "W-2")
@pytest.mark.parametrize(("word", "code", "exit_code", "number"), [
    ("exit", "PROCESS_EXIT", 3, None), ("exit:127", "PROCESS_EXIT", 127, None),
    ("exit:143", "SIGNAL_EXIT", 143, None), ("kill", "SIGNAL_EXIT", None, 9), ("kill:11", "SIGNAL_EXIT", None, 11)])
def test_an_agent_that_dies_in_mid_turn_fails_the_command(
    stack: Stack, workspace: Path, word: str, code: str, exit_code: int | None, number: int | None
) -> None:
    task = give(stack, workspace, f"text:before {word} text:after")

    ended = task.ended()
    closed = task.closed()

    assert (ended["state"], ended["error"]["code"]) == ("failed", code)
    assert ends(task) == [("agent.error", code), ("session.turn.end", "error"), ("session.usage", None),
                          ("session.closed", closed["reason"])]
    assert (closed.get("exit_code"), closed.get("signal")) == (exit_code, number)
    assert task.text() == "before"
    assert stack.leftovers(workspace) == []


@pytest.mark.req("A-2", "T-3", "C-8")
def test_an_agent_that_exits_with_0_in_mid_turn_fails_the_command(stack: Stack, workspace: Path) -> None:
    task = give(stack, workspace, "text:before exit:0")

    ended = task.ended()
    closed = task.closed()

    assert (ended["state"], ended["error"]["code"]) == ("failed", "AgentExited")
    assert task.sent("agent.error") == []
    assert task.sent("session.turn.end")[0]["payload"]["stop_reason"] == "end_turn"
    assert task.sent("session.turn.end")[0]["metadata"]["unanswered"] is True
    assert closed["exit_code"] == 0
    assert stack.leftovers(workspace) == []
    again = submit(stack, "misbehaving", "text:again", session_id=task.session_id)
    assert again.ended()["state"] == "succeeded"


class Stubborn:
    """Agents that are ended by force, which takes timeouts: all end at once, and each has its own test."""

    WORDS: ClassVar = {
        "hangs": "text:on hang",
        "ignores SIGTERM": "ignore-term text:on hang",
        "stops itself": "text:on freeze",
        "forked twice": "fork-twice text:on wait",
        "forked twice and holds the pipes": "fork-twice-holding text:on hang",
        "has a child": "spawn text:on hang",
    }

    def __init__(self, stack: Stack) -> None:
        self.tasks: dict[str, SubmittedTask] = {}
        self.places: dict[str, Path] = {}
        for name, words in self.WORDS.items():
            self.places[name] = stack.workspace / name.replace(" ", "-")
            self.places[name].mkdir()
            self.tasks[name] = give(stack, self.places[name], words)
        for task in self.tasks.values():
            with watching(task) as viewer:
                viewer.until_text("on")
        self.pids = {name: stack.leftovers(place) for name, place in self.places.items()}
        for task in self.tasks.values():
            task.cancel()
            answer = stack.post(f"/v1/sessions/{task.session_id}/close", {"reason": "enough"},
                                f"stubborn-{task.session_id}")
            assert answer.status_code == 200, answer.text


@pytest.fixture(scope="module")
def stubborn(stack: Stack) -> Stubborn:
    """All of them, asked to end."""
    return Stubborn(stack)


@pytest.mark.req("A-4", "C-8", "T-3")
@pytest.mark.parametrize("name", list(Stubborn.WORDS))
def test_an_agent_that_ignores_its_end_is_killed(stack: Stack, stubborn: Stubborn, name: str) -> None:
    task, place = stubborn.tasks[name], stubborn.places[name]
    assert len(stubborn.pids[name]) == (2 if "fork" in name or "child" in name else 1)

    ended = task.ended()
    task.closed()

    assert ended["state"] == "canceled"
    assert task.sent("session.turn.end")[0]["payload"]["stop_reason"] == "cancelled"
    assert stack.leftovers(place) == []
    assert not [pid for pid in stubborn.pids[name] if Path(f"/proc/{pid}").exists()]


@pytest.mark.req("A-4", "C-1", "C-8")
def test_an_agent_that_hangs_is_timed_out(stack: Stack, workspace: Path) -> None:
    task = submit(stack, "misbehaving", "text:on hang", workspace=workspace, timeout_ms=300)

    assert task.ended()["state"] == "timed_out"
    task.closed()
    assert stack.leftovers(workspace) == []


@pytest.mark.req("A-8", "E-1")
def test_an_agent_that_prints_garbage_fails_the_command(stack: Stack, workspace: Path) -> None:
    task = give(stack, workspace, "text:before garbage garbage-json stderr:300000 text:after")

    assert task.ended()["state"] == "succeeded"
    assert task.text() == "beforeafter"
    warnings = [frame["payload"] for frame in task.sent("agent.error")]
    assert {(warning["severity"], warning["error_code"]) for warning in warnings} == {("warning", "INVALID_FRAME")}


@pytest.mark.req("A-8", "L-2", "E-1")
@pytest.mark.parametrize("value", [
    b'"\xff"', b'"\xed\xa0\x80"', b"1e400", b"9" * 5_000, b"[" * 970 + b"]" * 970, b'{"a":' * 975 + b"1" + b"}" * 975],
    ids=["no UTF-8", "a surrogate", "no number", "a long number", "deep", "deep members"])
def test_an_input_that_cannot_be_parsed_reaches_neither_the_link_nor_a_list(
    stack: Stack, workspace: Path, value: bytes
) -> None:
    (workspace / "lines").write_bytes(
        b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"@","update":{"sessionUpdate":"tool_call",'
        b'"toolCallId":"c","kind":"read","status":"in_progress","rawInput":{"path":' + value + b"}}}}\n")

    task = give(stack, workspace, "text:before lines text:after")

    assert task.ended()["state"] == "succeeded"
    assert task.text() == "beforeafter"
    assert [frame["payload"]["error_code"] for frame in task.sent("agent.error")] == ["INVALID_FRAME"]
    assert task.id in [one["id"] for one in stack.get("/v1/commands")["items"]]
    assert give(stack, workspace, "text:on").ended()["state"] == "succeeded", "the runner's link carries on"


@pytest.mark.req("A-8", "W-2")
def test_an_agent_line_of_20_mib_is_too_long(stack: Stack, workspace: Path) -> None:
    task = give(stack, workspace, "text:before line text:after")

    ended = task.ended()

    assert (ended["state"], ended["error"]["code"]) == ("failed", "FRAME_TOO_LARGE")
    assert ends(task)[:3] == [("agent.error", "FRAME_TOO_LARGE"), ("session.turn.end", "error"),
                              ("session.usage", None)]
    again = submit(stack, "misbehaving", "text:again", session_id=task.session_id)
    assert again.ended()["state"] == "succeeded"


@pytest.mark.req("A-8", "E-5")
def test_an_agent_line_of_8_mib_is_read_in_full(stack: Stack, workspace: Path) -> None:
    task = give(stack, workspace, f"line:{8 * 1024 * 1024}")

    assert task.ended()["state"] == "succeeded"
    assert task.text() == "y" * (8 * 1024 * 1024)


@pytest.mark.req("A-8", "D-3", "E-5")
def test_an_agent_that_floods_its_output_is_bounded(stack: Stack, workspace: Path) -> None:
    task = give(stack, workspace, f"flood:{FLOOD_BYTES}")

    ended = task.ended()

    assert ended["state"] == "succeeded"
    assert ended.get("notices", []) == []
    expected = "".join(flood_chunk(index) for index in range(FLOOD_BYTES // 8_192 + 1))[:FLOOD_BYTES]
    assert task.text() == expected


@pytest.mark.req("T-2", "T-4", "C-8")
def test_a_second_answer_and_text_after_the_answer_are_ignored(stack: Stack, workspace: Path) -> None:
    task = give(stack, workspace, "text:in-time two-results late-update")
    assert task.ended()["state"] == "succeeded"
    again = submit(stack, "misbehaving", "text:again", session_id=task.session_id)
    assert again.ended()["state"] == "succeeded"

    assert task.text() == "in-timeagain"
    assert ends(task) == [("session.turn.end", "end_turn"), ("session.usage", None)] * 2
    assert [event for event in task.frames() if event["kind"] == "refused"] == []


@pytest.mark.req("A-7", "E-1")
def test_unknown_messages_of_an_agent_are_ignored(stack: Stack, workspace: Path) -> None:
    task = give(stack, workspace, "unknown wrong-session open-tool text:after")

    assert task.ended()["state"] == "succeeded"
    assert "after" in task.text()
    assert [frame["payload"]["status"] for frame in task.sent("tool.invoke.result")] != []


@pytest.mark.req("A-5", "A-7")
def test_a_permission_request_before_its_announcement_is_asked(stack: Stack, workspace: Path) -> None:
    task = give(stack, workspace, "ask-first")

    approval = task.approval()
    assert approval["input"] == {"path": "written.txt", "content": WRITTEN}
    assert not (workspace / "written.txt").exists()
    task.vote("grant", approval)

    assert task.ended()["state"] == "succeeded"
    assert (workspace / "written.txt").read_text() == WRITTEN
    kinds = [event["frame"]["type"] for event in task.frames() if event["kind"] == "C"]
    assert kinds.index("tool.invoke.request") < kinds.index("agent.interaction.request")


@pytest.mark.req("A-5", "P-6")
@pytest.mark.parametrize("words", ["ask", "ask-abandon", "text ask-after-cancel"])
def test_a_permission_is_void_once_its_command_is_canceled(stack: Stack, workspace: Path, words: str) -> None:
    task = give(stack, workspace, words)
    approval: dict[str, Any] | None = None
    if words == "text ask-after-cancel":
        with watching(task) as viewer:
            viewer.until_text("hello")
    else:
        approval = task.approval()

    task.cancel()
    ended = task.ended()

    assert ended["state"] == "canceled"
    assert not (workspace / "written.txt").exists()
    if approval is not None:
        assert stack.get(f"/v1/approvals/{approval['id']}")["state"] == "void"
        late = task.vote("grant", approval)
        assert (late.status_code, late.json()["code"]) == (409, "Conflict")
    assert stack.get("/v1/approvals", state="pending")["items"] == []
    task.close()
    assert not (workspace / "written.txt").exists()
    assert stack.leftovers(workspace) == []


@pytest.mark.req("A-5", "P-6", "C-8")
def test_a_permission_is_void_once_its_agent_is_gone(stack: Stack, workspace: Path) -> None:
    task = give(stack, workspace, "ask")
    approval = task.approval()
    (agent,) = stack.leftovers(workspace)

    os.kill(agent, signal.SIGKILL)

    assert task.ended()["error"]["code"] == "SIGNAL_EXIT"
    assert stack.get(f"/v1/approvals/{approval['id']}")["state"] == "void"
    assert task.vote("grant", approval).status_code == 409
    assert not (workspace / "written.txt").exists()


@pytest.mark.req("A-9", "A-5")
@pytest.mark.parametrize("word", ["ask-always", "ask-none"])
def test_a_request_without_a_once_option_is_denied(stack: Stack, workspace: Path, word: str) -> None:
    task = give(stack, workspace, word)

    assert task.ended()["state"] == "succeeded"
    assert not (workspace / "written.txt").exists()
    assert "allow" in task.sent("agent.error")[0]["payload"]["message"]
    assert task.sent("tool.invoke.result")[0]["payload"]["status"] == "denied"


@pytest.mark.req("A-9", "A-5")
def test_a_request_with_unusual_options_is_allowed_once(stack: Stack, workspace: Path) -> None:
    task = give(stack, workspace, "ask-odd")
    task.vote("grant")

    assert task.ended()["state"] == "succeeded"
    assert (workspace / "written.txt").read_text() == WRITTEN


@pytest.mark.req("A-5", "P-2")
def test_two_permissions_at_once_are_decided_separately(stack: Stack, workspace: Path) -> None:
    task = give(stack, workspace, "ask-two")
    with watching(task) as viewer:
        viewer.until(lambda event: "two.txt" in str(event.get("frame", {}).get("payload", {}).get("context")))
        viewer.until(lambda event: event.get("frame", {}).get("type") == "x-interlock.interaction.held")
    asked = {item["input"]["path"]: item for item in stack.get("/v1/approvals", state="pending")["items"]
             if item["session_id"] == task.session_id}

    task.vote("grant", asked["two.txt"])
    task.vote("deny", asked["one.txt"])

    assert task.ended()["state"] == "succeeded"
    assert not (workspace / "one.txt").exists()
    assert (workspace / "two.txt").read_text() == WRITTEN


MANY, OPEN = 10_000, 64
"""Requests of one turn, and how many of them may wait at one time."""


@pytest.mark.req("A-5", "H-1")
@pytest.mark.parametrize(("words", "answer", "sentences"), [
    ("ask-half", "cancelled", 2), ("ask-elsewhere", "cancelled", 1), ("ask-same-id", "error", 1),
    ("ask-late", "cancelled", 0), (f"ask-many:{MANY}:{OPEN}", "cancelled", 1),
], ids=["half a request", "another session's", "one id twice", "after the turn's end", "10,000 at once"])
def test_a_request_that_cannot_be_asked_is_denied_and_the_session_continues(
    stack: Stack, workspace: Path, words: str, answer: str, sentences: int
) -> None:
    task = give(stack, workspace, f"{words} text:done")
    assert task.ended()["state"] == "succeeded"
    again = submit(stack, "misbehaving", "late-answer text:again" if words == "ask-late" else "text:again",
                   session_id=task.session_id)
    assert again.ended()["state"] == "succeeded"

    printed = task.text().removesuffix("again").replace("done", "")
    assert set(printed.split(";")) == {answer, ""}
    assert list(workspace.glob("*.txt")) == []
    assert len({frame["payload"]["message"] for frame in task.sent("agent.error")}) == sentences
