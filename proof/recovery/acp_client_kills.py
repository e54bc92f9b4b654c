"""An editor at `interlock acp` while its gateway is killed in mid-turn: each prompt ends once, with the whole text, and
its agent ran once (O-3, O-6)."""

from __future__ import annotations

import json
import queue
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

from proof import REPOSITORY
from proof.processes.stack import Stack

KILLS = 50
LINES = 300
LINE_S = 0.005
"""Between two lines of the agent, so that a turn takes some two seconds."""
PATIENCE_S = 60.0
CONFIG = """
[agents.sh]
adapter = "exec"
command = "/bin/sh"
args = ["-c"]

[[policy.rules]]
name = "the proof's own lines are free"
effect = "allow"
door = "command"
agent = "sh"
"""


class Findings(NamedTuple):
    """What the kills did: prompts by how they went wrong, and the slowest end after a kill in seconds."""

    prompts: int
    unended: int
    ended_twice: int
    incomplete: int
    not_once: int
    slowest_s: float

    @property
    def passed(self) -> bool:
        """Whether each prompt ended once, whole, after one run."""
        return self.prompts > 0 and not (self.unended or self.ended_twice or self.incomplete or self.not_once)

    def table(self) -> str:
        """Print form."""
        return (f"{self.prompts} prompts, the gateway killed in each: {self.unended} did not end, {self.ended_twice} "
                f"ended twice, {self.incomplete} with other text, {self.not_once} did not run once; the slowest ended "
                f"{self.slowest_s:.1f} s after the kill")


class Editor:
    """An ACP client over the pipes of `interlock acp`."""

    def __init__(self, stack: Stack, agent: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "interlock", "acp", agent, "--state", str(stack.state)], cwd=REPOSITORY,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._came = queue.Queue[dict[str, Any]]()
        self._number = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.text = ""
        self.answers: list[dict[str, Any]] = []
        """Responses that `response` has passed over: each is one too many."""

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._came.put(json.loads(line))

    def send(self, method: str, **params: Any) -> int:
        """Send a request; returns its id."""
        self._number += 1
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(
            {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}) + "\n")
        self._process.stdin.flush()
        return self._number

    def response(self, number: int) -> dict[str, Any] | None:
        """Receive until the response to a request; None after PATIENCE_S."""
        deadline = time.monotonic() + PATIENCE_S
        while (left := deadline - time.monotonic()) > 0:
            try:
                message = self._came.get(timeout=left)
            except queue.Empty:
                return None
            update = message.get("params", {}).get("update", {})
            if update.get("sessionUpdate") == "agent_message_chunk":
                self.text += update["content"]["text"]
            if "method" in message:
                continue
            if message["id"] == number:
                return message
            self.answers.append(message)
        return None

    def close(self) -> None:
        """End the door by the end of its input."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        self._process.stdout.close()


def kill_in_turns(place: Path, seed: int, kills: int) -> Findings:
    """Prompt `kills` times through one door, and kill the gateway in the middle of each turn."""
    chance = random.Random(seed)
    stack = Stack(place, CONFIG)
    unended = ended_twice = incomplete = not_once = 0
    slowest_s = 0.0
    try:
        stack.up()
        editor = Editor(stack, "sh")
        opened = editor.response(editor.send("session/new", cwd=str(stack.workspace), mcpServers=[]))
        assert opened is not None, "the door has not answered"
        session = opened["result"]["sessionId"]
        expected = "".join(f"line {number}\n" for number in range(1, LINES + 1))
        for round_ in range(kills):
            ran = stack.workspace / f"ran-{round_}"
            editor.text, editor.answers = "", []
            number = editor.send("session/prompt", sessionId=session, prompt=[{"type": "text", "text": (
                f"echo once >> {ran.name}; for i in $(seq {LINES}); do echo line $i; sleep {LINE_S}; done")}])
            stack.until(ran.exists)
            time.sleep(chance.uniform(0, LINES * LINE_S))
            stack.kill("gateway")
            killed_s = time.monotonic()
            stack.start("gateway")
            answer = editor.response(number)
            slowest_s = max(slowest_s, time.monotonic() - killed_s)
            unended += answer is None or "result" not in answer
            ended_twice += bool(editor.answers)
            incomplete += editor.text.rstrip("\n") != expected.rstrip("\n")
            not_once += ran.read_text() != "once\n"
            stack.ready()
        editor.close()
    finally:
        stack.down()
    return Findings(kills, unended, ended_twice, incomplete, not_once, slowest_s)


def run(seed: int, rounds: int | None) -> bool:
    """Kill KILLS times, or `rounds`."""
    with tempfile.TemporaryDirectory(prefix="ilk-") as place:
        found = kill_in_turns(Path(place), seed, rounds or KILLS)
    print(found.table())
    return found.passed
