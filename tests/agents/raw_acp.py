"""Raw JSON-RPC on an ACP agent's stdio: an agent's real messages, without an SDK or an adapter in between."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Message = dict[str, Any]

DEADLINE_SECONDS = 60.0


class RawAcp:
    """One conversation with one agent; `received` keeps every message of the agent in order.

    A permission request is answered at once with the option of the kind that `decide` holds; with None it stays open
    until `answer_cancelled`.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._next_id = 1
        self.received: list[Message] = []
        self.decide: str | None = "reject_once"

    def open_session(self, workspace: Path) -> str:
        """Initialize, make a session in `workspace`, and return its id."""
        self.call("initialize", protocolVersion=1, clientCapabilities={})
        return self.call("session/new", cwd=str(workspace), mcpServers=[])["result"]["sessionId"]

    def prompt(self, session: str, text: str) -> Message:
        """Run a turn to its end and return the whole answer, with a `result` or an `error`."""
        return self.answer_of(self.start_prompt(session, text))

    def start_prompt(self, session: str, text: str) -> int:
        """Send a prompt and return its id."""
        return self.request("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])

    def call(self, method: str, **params: object) -> Message:
        """Send a request and return its answer."""
        return self.answer_of(self.request(method, **params))

    def request(self, method: str, **params: object) -> int:
        """Send a request and return its id."""
        identifier, self._next_id = self._next_id, self._next_id + 1
        self._send({"id": identifier, "method": method, "params": params})
        return identifier

    def notify(self, method: str, **params: object) -> None:
        """Send a notification."""
        self._send({"method": method, "params": params})

    def answer_of(self, identifier: int) -> Message:
        """Read on until the request with this id is answered."""
        return self.read_until(lambda message: message.get("id") == identifier and "method" not in message)

    def read_until(self, found: Callable[[Message], bool]) -> Message:
        """Read on until `found` is true of a message, and return that message."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message = json.loads(line)
            self.received.append(message)
            if message.get("method") == "session/request_permission" and self.decide is not None:
                self._decide(message)
            if found(message):
                return message
        raise EOFError("the agent closed its output")

    def answer_cancelled(self, request: Message) -> None:
        """Answer a permission request as ACP wants it answered after a cancel."""
        self._send({"id": request["id"], "result": {"outcome": {"outcome": "cancelled"}}})

    def updates(self, kind: str) -> list[Message]:
        """The received session updates of a kind."""
        updates = [m["params"]["update"] for m in self.received if m.get("method") == "session/update"]
        return [update for update in updates if update["sessionUpdate"] == kind]

    def texts(self) -> list[str]:
        """The received text chunks of the agent."""
        return [update["content"]["text"] for update in self.updates("agent_message_chunk")]

    def asked(self) -> list[Message]:
        """The parameters of the received permission requests."""
        return [m["params"] for m in self.received if m.get("method") == "session/request_permission"]

    def _decide(self, message: Message) -> None:
        options = message["params"]["options"]
        option = next(one["optionId"] for one in options if one["kind"] == self.decide)
        self._send({"id": message["id"], "result": {"outcome": {"outcome": "selected", "optionId": option}}})

    def _send(self, message: Message) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._process.stdin.flush()


@contextmanager
def raw_acp(argv: list[str], env: dict[str, str], workspace: Path) -> Generator[RawAcp]:
    """Start an agent and connect to it; it is killed after the block or DEADLINE_SECONDS."""
    with (
        (workspace.parent / "agent.stderr").open("wb") as stderr,
        subprocess.Popen(
            argv, env=env, cwd=workspace, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True
        ) as process,
    ):
        deadline = threading.Timer(DEADLINE_SECONDS, process.kill)
        deadline.start()
        try:
            yield RawAcp(process)
        finally:
            deadline.cancel()
            process.kill()
