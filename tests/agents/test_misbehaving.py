"""The misbehaving agent does what its words request: driven over raw pipes, without any code of ours in between."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.misbehaving import WRITTEN, flood_chunk

PROGRAM = Path(__file__).with_name("misbehaving.py")


class Driver:
    """The agent's peer: writes requests, reads lines."""

    def __init__(self, workspace: Path, *argv: str) -> None:
        self.workspace = workspace
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), *argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.next_id = 0

    def send(self, **message: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def request(self, method: str, params: dict[str, Any]) -> int:
        self.next_id += 1
        self.send(id=self.next_id, method=method, params=params)
        return self.next_id

    def line(self) -> bytes:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def message(self) -> dict[str, Any]:
        return json.loads(self.line())

    def open(self) -> None:
        self.request("initialize", {"protocolVersion": 1})
        assert self.message()["result"]["protocolVersion"] == 1
        self.request("session/new", {"cwd": str(self.workspace), "mcpServers": []})
        self.session_id = self.message()["result"]["sessionId"]

    def prompt(self, text: str) -> int:
        block = {"type": "text", "text": text}
        return self.request("session/prompt", {"sessionId": self.session_id, "prompt": [block]})

    def cancel(self) -> None:
        self.send(method="session/cancel", params={"sessionId": self.session_id})

    def choose(self, question: dict[str, Any], option: str | None) -> None:
        outcome = {"outcome": "cancelled"} if option is None else {"outcome": "selected", "optionId": option}
        self.send(id=question["id"], result={"outcome": outcome})

    def question(self) -> dict[str, Any]:
        while (message := self.message()).get("method") != "session/request_permission":
            pass
        return message

    def until_answer(self, request_id: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """The updates before the answer, and the answer."""
        updates: list[dict[str, Any]] = []
        while (message := self.message()).get("id") != request_id:
            updates.append(message["params"]["update"])
        return updates, message

    def ended(self) -> tuple[int, str]:
        """Exit status and stderr of an agent that ends by itself."""
        assert self.process.stderr is not None
        return self.process.wait(timeout=10), self.process.stderr.read().decode()

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                continue


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Driver]:
    driver = Driver(tmp_path)
    driver.open()
    yield driver
    driver.stop()


def started(tmp_path: Path, word: str) -> Driver:
    return Driver(tmp_path, f"--start={word}")


def texts(updates: list[dict[str, Any]]) -> str:
    return "".join(u["content"]["text"] for u in updates if u["sessionUpdate"] == "agent_message_chunk")


def test_dies_at_start(tmp_path: Path) -> None:
    driver = started(tmp_path, "die")
    assert driver.ended() == (3, "misbehaving: leaving with status 3, as asked\n")
    driver.stop()


def test_answers_session_new_with_an_error(tmp_path: Path) -> None:
    driver = started(tmp_path, "session-error")
    driver.request("initialize", {"protocolVersion": 1})
    driver.message()
    driver.request("session/new", {"cwd": str(tmp_path), "mcpServers": []})
    assert driver.message()["error"]["message"] == "Authentication required"
    driver.stop()


def test_prints_garbage_before_the_first_answer(tmp_path: Path) -> None:
    driver = started(tmp_path, "garbage")
    driver.request("initialize", {"protocolVersion": 1})
    assert driver.line() == b"Welcome to misbehaving!\n"
    driver.line()
    assert "result" in driver.message()
    driver.stop()


def test_runs_its_script_in_order_and_ends_the_turn(agent: Driver) -> None:
    updates, answer = agent.until_answer(agent.prompt("think text:one echo text:two"))
    kinds = ["agent_thought_chunk", "agent_message_chunk", "user_message_chunk", "agent_message_chunk"]
    assert [u["sessionUpdate"] for u in updates] == kinds
    assert answer["result"] == {"stopReason": "end_turn"}


@pytest.mark.parametrize(("word", "status"), [("exit", 3), ("exit:0", 0), ("kill", -9), ("kill:15", -15)])
def test_exits_in_mid_turn(agent: Driver, word: str, status: int) -> None:
    agent.prompt(f"text:before {word} text:after")
    assert agent.message()["params"]["update"]["content"]["text"] == "before"
    assert agent.line() == b""
    assert agent.ended()[0] == status


def test_hangs_and_ignores_cancel_and_sigterm(agent: Driver) -> None:
    agent.prompt("ignore-term text:deaf hang")
    agent.message()
    agent.cancel()
    agent.process.terminate()
    with pytest.raises(subprocess.TimeoutExpired):
        agent.process.wait(timeout=0.2)


@pytest.mark.parametrize("word", ["fork-twice", "fork-twice-holding"])
def test_forks_twice(agent: Driver, word: str) -> None:
    agent.until_answer(agent.prompt(word))
    pid = int((agent.workspace / "grandchild.pid").read_text())
    try:
        assert os.getsid(pid) != os.getsid(agent.process.pid)
        os.kill(pid, signal.SIGTERM)
        os.kill(agent.process.pid, signal.SIGKILL)
        agent.process.wait()
        os.kill(pid, 0)  # still running after the end of its grandparent
        output = os.readlink(f"/proc/{pid}/fd/1")
        assert output.startswith("pipe:") == (word == "fork-twice-holding")
    finally:
        os.kill(pid, signal.SIGKILL)


def test_prints_lines_that_are_not_messages(agent: Driver) -> None:
    request = agent.prompt("garbage garbage-json")
    lines = [agent.line() for _ in range(9)]
    assert b"this is not JSON\n" in lines
    assert b"[1, 2]\n" in lines
    assert agent.message()["id"] == request


def test_prints_one_line_of_20_mib(agent: Driver) -> None:
    agent.prompt("line")
    assert len(agent.line()) > 20 * 1024 * 1024


def test_floods_with_text_that_can_be_checked(agent: Driver) -> None:
    updates, _ = agent.until_answer(agent.prompt("flood:1000000"))
    printed = texts(updates)
    assert len(printed) == 1_000_000
    assert printed == "".join(flood_chunk(index) for index in range(123))[:1_000_000]


def test_sends_chunks_until_it_is_cancelled(agent: Driver) -> None:
    request = agent.prompt("chunks:1000:2")
    assert agent.message()["params"]["update"]["content"]["text"] == "chunk 1 of 1000\n"
    agent.cancel()
    updates, answer = agent.until_answer(request)
    assert answer["result"]["stopReason"] == "cancelled"
    assert len(updates) < 999


def test_answers_twice_and_sends_after_the_result(agent: Driver) -> None:
    request = agent.prompt("two-results late-update")
    assert agent.message() == {"jsonrpc": "2.0", "id": request, "result": {"stopReason": "end_turn"}}
    assert agent.message() == {"jsonrpc": "2.0", "id": request, "result": {"stopReason": "refusal"}}
    assert agent.message()["params"]["update"]["content"]["text"] == "too late"


def test_sends_unknown_messages(agent: Driver) -> None:
    request = agent.prompt("unknown")
    assert agent.message()["method"] == "_vendor/thing"
    assert agent.message()["params"]["update"]["sessionUpdate"] == "vendor_special"
    question = agent.message()
    assert question["method"] == "_vendor/ask"
    agent.send(id=question["id"], error={"code": -32601, "message": "Method not found"})
    assert agent.until_answer(request)[1]["result"]["stopReason"] == "end_turn"


@pytest.mark.parametrize("word", ["ask", "ask-first", "ask-odd"])
@pytest.mark.parametrize("option", ["allow", "reject", None])
def test_writes_only_after_a_grant(agent: Driver, word: str, option: str | None) -> None:
    request = agent.prompt(f"{word}:out.txt")
    agent.choose(agent.question(), option)
    updates, _ = agent.until_answer(request)
    assert updates[-1]["status"] == ("completed" if option == "allow" else "failed")
    written = agent.workspace / "out.txt"
    assert (written.read_text() if written.exists() else None) == (WRITTEN if option == "allow" else None)


def test_asks_before_it_announces(agent: Driver) -> None:
    agent.prompt("ask-first")
    assert agent.message()["method"] == "session/request_permission"


def test_offers_always_options_only(agent: Driver) -> None:
    agent.prompt("ask-always")
    kinds = [option["kind"] for option in agent.question()["params"]["options"]]
    assert kinds == ["allow_always", "reject_always"]


def test_asks_two_things_at_once_and_accepts_the_answers_in_any_order(agent: Driver) -> None:
    request = agent.prompt("ask-two")
    first, second = agent.question(), agent.question()
    agent.choose(second, "allow")
    assert agent.message()["params"]["update"]["status"] == "completed"
    agent.choose(first, "reject")
    agent.until_answer(request)
    assert not (agent.workspace / "one.txt").exists()
    assert (agent.workspace / "two.txt").read_text() == WRITTEN


def test_accepts_a_grant_after_the_cancel(agent: Driver) -> None:
    request = agent.prompt("ask")
    question = agent.question()
    agent.cancel()
    agent.choose(question, "allow")
    assert agent.until_answer(request)[1]["result"]["stopReason"] == "end_turn"
    assert (agent.workspace / "written.txt").exists()


def test_asks_only_after_the_cancel(agent: Driver) -> None:
    request = agent.prompt("ask-after-cancel")
    agent.cancel()
    agent.choose(agent.question(), None)
    assert agent.until_answer(request)[1]["result"]["stopReason"] == "cancelled"


def test_abandons_its_question_at_a_cancel(agent: Driver) -> None:
    request = agent.prompt("ask-abandon")
    agent.question()
    agent.cancel()
    assert agent.until_answer(request)[1]["result"]["stopReason"] == "cancelled"


def test_sends_a_diff_and_leaves_a_tool_open(agent: Driver) -> None:
    updates, answer = agent.until_answer(agent.prompt("diff open-tool usage stop:refusal"))
    assert updates[1]["content"][0]["type"] == "diff"
    assert updates[2]["status"] == "pending"
    assert answer["result"]["usage"]["outputTokens"] == 200
    assert answer["result"]["stopReason"] == "refusal"


def test_answers_a_prompt_with_an_error(agent: Driver) -> None:
    assert agent.until_answer(agent.prompt("text error"))[1]["error"]["message"] == "the model is on fire"


def test_ends_when_its_input_ends(agent: Driver) -> None:
    assert agent.process.stdin is not None
    agent.process.stdin.close()
    assert agent.process.wait(timeout=10) == 0


def test_starts_quickly(tmp_path: Path) -> None:
    began = time.monotonic()
    driver = Driver(tmp_path)
    driver.open()
    driver.stop()
    assert time.monotonic() - began < 2.0


def test_reports_its_environment_and_starts_a_child(agent: Driver) -> None:
    updates, _ = agent.until_answer(
        agent.prompt("env:NO_SUCH_NAME cwd sleep:1 plan tool-output:5000 wrong-session spawn")
    )
    assert texts(updates) == f"NO_SUCH_NAME unset\n{Path.cwd()}for nobody"
    assert len(updates[4]["content"][0]["content"]["text"]) == 5_000
    child = int((agent.workspace / "child.pid").read_text())
    assert os.getpgid(child) == os.getpgid(agent.process.pid)
    os.kill(child, signal.SIGKILL)


def test_stops_itself(agent: Driver) -> None:
    agent.prompt("text freeze")
    agent.message()
    _, status = os.waitpid(agent.process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)


def test_closes_its_streams(agent: Driver) -> None:
    agent.until_answer(agent.prompt("deaf stderr:200"))
    status, printed = agent.ended()
    assert (status, len(printed)) == (0, 200)


def test_closes_its_output_and_keeps_running(agent: Driver) -> None:
    agent.prompt("close-stdout")
    assert agent.line() == b""
    assert agent.process.poll() is None


def test_offers_nothing(agent: Driver) -> None:
    request = agent.prompt("ask-none")
    question = agent.question()
    assert question["params"]["options"] == []
    agent.choose(question, "allow")
    agent.until_answer(request)
    assert not (agent.workspace / "written.txt").exists()


def test_starts_wrongly(tmp_path: Path) -> None:
    driver = started(tmp_path, "die-initialize")
    driver.request("initialize", {"protocolVersion": 1})
    assert driver.ended()[0] == 3
    driver.stop()
    driver = started(tmp_path, "version")
    driver.request("initialize", {"protocolVersion": 1})
    assert driver.message()["result"]["protocolVersion"] == 99
    driver.stop()
