"""Tasks: a command and its session, as a client sees them over REST, with a gateway and a runner as processes.

Nothing here sleeps: a state is waited for with the API's own `wait`, a frame with a viewer of the session's stream.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import threading
import time
from collections.abc import Callable, Generator
from typing import Any

import httpx2

from proof.processes.stack import Stack
from proof.recovery.random_kills import TERMINAL, history_texts
from proof.workload.viewers import write_at

PATIENCE_S = 30.0
"""A test that waits longer for something has failed."""

Event = dict[str, Any]
_keys = itertools.count(1)


def new_key() -> str:
    """An idempotency key that no other request has."""
    return f"end-to-end-{os.getpid()}-{next(_keys):08d}"


def body(agent: str, text: str, **target: Any) -> dict[str, Any]:
    """The body of an execute; a `session_id` in `target` makes agent and workspace needless."""
    aim = {"agent_id": agent, **{name: str(value) for name, value in target.items()}}
    return {"type": "execute", "target": aim,
            "payload": {"messages": [{"role": "user", "content": [{"contentType": "text", "value": text}]}]}}


class SubmittedTask:
    """One accepted command."""

    def __init__(self, stack: Stack, command: dict[str, Any]) -> None:
        self.stack = stack
        self.id: str = command["id"]
        self.session_id: str = command["target"]["session_id"]

    def command(self) -> dict[str, Any]:
        """The command in its present state."""
        return self.stack.get(f"/v1/commands/{self.id}")

    def status(self) -> list[Event]:
        """Every event of its status stream."""
        return self.stack.pages(f"/v1/commands/{self.id}/status", "events")

    def until(self, *states: str) -> dict[str, Any]:
        """Follow the status stream until the command has been in one of `states`; returns the command in that state."""
        deadline, cursor, seen = time.monotonic() + PATIENCE_S, None, []
        while time.monotonic() < deadline:
            page = self.stack.get(f"/v1/commands/{self.id}/status", limit=500, wait=5,
                                  **({"since": cursor} if cursor else {}))
            cursor = page["next_cursor"]
            seen += [event["state"] for event in page["events"] if event["event"] == "state"]
            if set(seen) & set(states):
                return self.command()
            if page["terminal"] and not page["has_more"]:
                break
        raise AssertionError(f"never {' or '.join(states)}, only {seen}: {self.command().get('error')}\n"
                             f"{self.stack.log('gateway')}\n{self.stack.log('runner')}")

    def ended(self) -> dict[str, Any]:
        """Wait for the end."""
        return self.until(*TERMINAL)

    def approval(self) -> dict[str, Any]:
        """Wait for an approval of this command that is pending."""
        cursor, deadline = None, time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            page = self.stack.get(f"/v1/commands/{self.id}/status", limit=500, wait=5,
                                  **({"since": cursor} if cursor else {}))
            cursor = page["next_cursor"]
            for event in page["events"]:
                if event["event"] == "approval" and event["approval_state"] == "pending":
                    found = self.stack.get(f"/v1/approvals/{event['approval_id']}")
                    if found["state"] == "pending":
                        return found
            assert not page["terminal"], f"nothing was asked for: {self.command().get('error')}"
        raise AssertionError("nothing was asked for")

    def vote(self, decision: str, approval: dict[str, Any] | None = None) -> httpx2.Response:
        """Vote on the pending approval, bound to what it showed."""
        approval = approval or self.approval()
        ballot = {"decision": decision, "digest": approval["digest"]}
        return self.stack.post(f"/v1/approvals/{approval['id']}/grants", ballot, new_key())

    def cancel(self) -> SubmittedTask:
        """Ask for the command's end."""
        answer = self.stack.post("/v1/commands", {"type": "cancel", "target": {"command_id": self.id}}, new_key())
        assert answer.status_code == 202, answer.text
        return SubmittedTask(self.stack, answer.json())

    def frames(self) -> list[Event]:
        """The session's whole stream, raw; its numbers have no gap and the runner's frames neither."""
        events = self.stack.pages(f"/v1/sessions/{self.session_id}/frames", "events", view="raw")
        events = [event for event in events if "n" in event]
        assert [event["n"] for event in events] == list(range(1, len(events) + 1))
        seqs = [event["frame"]["seq"] for event in events if event["kind"] in ("C", "refused")]
        assert seqs == list(range(1, len(seqs) + 1))
        return events

    def sent(self, kind: str) -> list[dict[str, Any]]:
        """The frames of one type, both directions; those that were refused are none."""
        return [event["frame"] for event in self.frames()
                if event["kind"] in ("C", "M") and event["frame"]["type"] == kind]

    def texts(self) -> dict[str, str]:
        """Text by block from the durable frames alone."""
        return history_texts(self.frames())

    def text(self) -> str:
        """The agent's text without the output of its tools."""
        return "".join(frame["payload"]["text"] for frame in self.sent("agent.text.done"))

    def close(self) -> None:
        """Close the session and wait until the runner reports that none of its processes is left (A-4)."""
        answer = self.stack.post(f"/v1/sessions/{self.session_id}/close", {"reason": "the test is over"}, new_key())
        assert answer.status_code == 200, answer.text
        self.closed()

    def closed(self) -> dict[str, Any]:
        """Wait for `session.closed` and return its payload."""
        with watching(self) as viewer:
            return viewer.until_frame("session.closed")["payload"]


def submit(stack: Stack, agent: str, text: str, *, timeout_ms: int | None = None, **target: Any) -> SubmittedTask:
    """Give a command; it must be taken."""
    wanted = body(agent, text, **target)
    if timeout_ms is not None:
        wanted["timeout_ms"] = timeout_ms
    answer = stack.post("/v1/commands", wanted, new_key())
    assert answer.status_code == 202, answer.text
    return SubmittedTask(stack, answer.json())


class Viewer(threading.Thread):
    """A viewer of a session's stream over SSE, from its start."""

    def __init__(self, task: SubmittedTask) -> None:
        super().__init__(daemon=True)
        self._stack = task.stack
        self._path = f"{task.stack.url}/v1/sessions/{task.session_id}/frames?view=raw"
        self._changed = threading.Condition()
        self._leaving = False
        self.events: list[Event] = []
        self.blocks: dict[str, str] = {}
        """Text by block as it came live."""

    def run(self) -> None:
        """Read until the stream ends or no one wants it any more."""
        headers = {**self._stack.headers, "Accept": "text/event-stream"}
        with (
            contextlib.suppress(httpx2.TransportError, httpx2.StreamError),
            httpx2.stream("GET", self._path, headers=headers, timeout=PATIENCE_S) as answer,
        ):
            for line in answer.iter_lines():
                if self._leaving:
                    return
                if line.startswith("data:"):
                    self._see(json.loads(line[5:]))

    def _see(self, event: Event) -> None:
        payload = event.get("frame", {}).get("payload", {})
        kind = event.get("frame", {}).get("type")
        with self._changed:
            if kind in ("agent.text.delta", "agent.thinking.delta"):
                write_at(self.blocks, payload["block_id"], payload["offset"], payload["text"])
            elif kind == "tool.invoke.stream" and payload["channel"] == "stdout":
                write_at(self.blocks, payload["invocation_id"] + "/stdout", payload["offset"], payload["text"])
            self.events.append(event)
            self._changed.notify_all()

    def until(self, seen: Callable[[Event], bool]) -> Event:
        """Wait for an event."""
        at = 0

        def found() -> Event | None:
            nonlocal at
            fresh, at = self.events[at:], len(self.events)
            return next(filter(seen, fresh), None)

        with self._changed:
            event = self._changed.wait_for(found, PATIENCE_S)
        assert event, f"not seen: {[event.get('frame', event).get('type') for event in self.events][-20:]}"
        return event

    def until_frame(self, kind: str) -> dict[str, Any]:
        """Wait for a frame of a type."""
        return self.until(lambda event: event.get("frame", {}).get("type") == kind)["frame"]

    def until_text(self, text: str) -> None:
        """Wait until some block, as it came live, holds `text`."""
        with self._changed:
            there = self._changed.wait_for(lambda: any(text in shown for shown in self.blocks.values()), PATIENCE_S)
        assert there, f"{text!r} was never shown: {self.blocks}"

    def notices(self) -> list[str]:
        """The codes of the notices that were shown."""
        return [event["notice"]["code"] for event in self.events if event.get("kind") == "notice"]

    def leave(self) -> None:
        """Want no more; the thread ends with the next line that comes."""
        self._leaving = True


@contextlib.contextmanager
def watching(task: SubmittedTask) -> Generator[Viewer]:
    """A viewer for as long as the block lasts."""
    viewer = Viewer(task)
    viewer.start()
    try:
        yield viewer
    finally:
        viewer.leave()


def healthy(stack: Stack) -> bool:
    """Whether the gateway answers."""
    return httpx2.get(stack.url + "/healthz", timeout=PATIENCE_S).status_code == 200
