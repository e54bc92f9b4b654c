"""Writers, a voter and viewers of one stack, each with a file of its own for what was acknowledged or shown to it.

A line is written and synced before its client continues, so each line of a file was acknowledged, whichever process
died.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import httpx2

from proof.processes.stack import Stack
from proof.workload import scripted_agent
from proof.workload.viewers import Viewers

TERMINAL = {"succeeded", "failed", "timed_out", "canceled", "rejected", "expired"}
LIVE = ("pending_approval", "queued", "dispatched", "running", "canceling", "pausing", "paused", "resuming")
CONFIG = f"""
[agents.scripted]
adapter = "dps"
command = "{sys.executable}"
args = ["-I", "-S", "{scripted_agent.__file__}"]

[rates]
principal_a_minute = 0
tenant_a_minute = 0
"""
AGAIN = ("Conflict", "IdempotencyKeyInUse")
"""No runner is there just now; or another gateway still answers the same request, which was cut off on its way."""
DENIED = 0.1
"""How likely a vote is a no."""


class Note:
    """An append-only file that is on disk when `write` returns."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.path = path

    def write(self, *lines: str) -> None:
        """Append lines and sync them."""
        os.write(self._file, "".join(f"{line}\n" for line in lines).encode())
        os.fsync(self._file)

    def lines(self) -> list[str]:
        """All lines."""
        return self.path.read_text().splitlines()


class Pace(NamedTuple):
    """How the writers work: how many there are, over how many lasting sessions, and what a prompt may take."""

    writers: int = 20
    sessions: int = 6
    pieces: int = 6
    pause_ms: int = 40
    rest_s: float = 3.0


class Clients:
    """Writers, a voter and viewers of a stack. `start` them, inject faults, then `stop` and `settle`."""

    def __init__(self, stack: Stack, seed: int, pace: Pace) -> None:
        self.stack = stack
        self.pace = pace
        self.seed = seed
        self.written = [Note(stack.place / f"writer-{n}") for n in range(pace.writers)]
        self.probes = Note(stack.place / "probes")
        self.votes = Note(stack.place / "votes")
        self.shown = Note(stack.place / "viewers")
        self.viewers = Viewers(stack, self.shown.write)
        self.refused: set[str] = set()
        """What a writer was answered besides 202, 409 and 5xx."""
        self.answered: Counter[int] = Counter()
        """What the writers were answered, by status."""
        self._stopping = threading.Event()
        self._voting_over = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(n,), daemon=True) for n in range(pace.writers)]
        self._voter = threading.Thread(target=self._vote, daemon=True)

    def start(self) -> None:
        """Start the writers and the voter."""
        for thread in (*self._threads, self._voter):
            thread.start()

    def stop(self) -> None:
        """End the writers; the voter and the viewers continue."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(60)

    def settle(self, timeout_s: float) -> None:
        """Wait until every command has ended, also those whose acknowledgement a death took along: their turns are open
        until then. Give up if nothing has changed for `timeout_s`, which distinguishes stuck from slow. Then end voter
        and viewers."""
        before, deadline = list[tuple[str, str]](), time.monotonic() + timeout_s
        while (live := self._live()) != [] and time.monotonic() < deadline:
            if live is not None and live != before:
                before, deadline = live, time.monotonic() + timeout_s
            time.sleep(0.1)
        self._voting_over.set()
        self._voter.join(30)
        self.viewers.stop()

    def _live(self) -> list[tuple[str, str]] | None:
        """Commands that have not ended, with their states; None if the gateway does not answer."""
        try:
            return sorted((command["id"], state) for state in LIVE
                          for command in self.stack.get("/v1/commands", state=state, limit=500)["items"])
        except (httpx2.TransportError, KeyError, FileNotFoundError):
            return None

    def commands(self) -> list[tuple[str, str, str]]:
        """(name, command id, session id) of every acknowledged command."""
        split = (line.split() for note in (*self.written, self.probes) for line in note.lines())
        return [(name, command_id, session_id) for name, command_id, session_id in split]

    # --- writers ---
    def _write(self, number: int) -> None:
        draw = random.Random(self.seed * 31 + number)
        count = 0
        while not self._stopping.is_set():
            count += 1
            name = f"w{number}-{count}"
            text = f"{name} {draw.randrange(1, self.pace.pieces)} {draw.randrange(self.pace.pause_ms)}"
            lasting = number >= self.pace.writers // 10  # A tenth of the writers opens a session for each command.
            command_id = self._submit(name, text, self.written[number], number, self._stopping, lasting=lasting)
            rest = time.monotonic() + draw.random() * self.pace.rest_s
            # What a writer waits for is its own command; now and then it lets one wait behind another.
            while not self._stopping.wait(max(0.0, rest - time.monotonic()) or 0.2):
                if command_id is None or draw.random() < 0.1 or self._ended(command_id):
                    break

    def _ended(self, command_id: str) -> bool:
        try:
            return self.stack.get(f"/v1/commands/{command_id}")["state"] in TERMINAL
        except (httpx2.TransportError, KeyError, FileNotFoundError):
            return False

    def _submit(self, name: str, text: str, note: Note, number: int, stopping: threading.Event, *, lasting: bool
                ) -> str | None:
        session = number % self.pace.sessions
        target = {"agent_id": "scripted", "workspace": str(self.stack.workspace), **self.stack.target(session)}
        if lasting:
            target["session_key"] = f"agent:scripted:clients-{session}"
        body: dict[str, Any] = {
            "type": "execute", "target": target,
            "payload": {"messages": [{"role": "user", "content": [{"contentType": "text", "value": text}]}]}}
        if not lasting:
            body["close_session"] = True
        while not stopping.is_set():
            try:
                answer = self.stack.post("/v1/commands", body, f"proof-clients-{self.seed}-{name}")
            except (httpx2.TransportError, FileNotFoundError):
                stopping.wait(0.05)
                continue
            self.answered[answer.status_code] += 1
            if answer.status_code == 202:
                command = answer.json()
                session_id = command["target"]["session_id"]
                note.write(f"{name} {command['id']} {session_id}")
                self.viewers.watch(session_id, one_opening=not lasting)
                return str(command["id"])
            if answer.status_code < 500 and answer.json()["code"] not in AGAIN:
                self.refused.add(f"{answer.status_code} {answer.text}")
            stopping.wait(0.1)  # The lane is being read again: ask again.
        return None

    def probe(self, number: int, name: str) -> float:
        """Submit one short command to a lasting session, repeatedly until it is acknowledged; returns the seconds."""
        began = time.monotonic()
        self._submit(name, f"{name} 1 0", self.probes, number, threading.Event(), lasting=True)
        return time.monotonic() - began

    # --- the voter ---
    def _vote(self) -> None:
        draw = random.Random(self.seed * 37)
        shown_texts: dict[str, str] = {}
        while not self._voting_over.wait(0.03):
            with contextlib.suppress(httpx2.TransportError, KeyError, FileNotFoundError):
                for approval in self.stack.get("/v1/approvals", state="pending")["items"]:
                    decision = shown_texts.setdefault(approval["id"], "deny" if draw.random() < DENIED else "grant")
                    answer = self.stack.post(f"/v1/approvals/{approval['id']}/grants",
                                             {"decision": decision, "digest": approval["digest"]},
                                             f"proof-vote-{approval['id']}")
                    if answer.status_code in (200, 201):
                        self.votes.write(f"{approval['id']} {decision}")
