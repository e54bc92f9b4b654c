"""R12: a link that is cut, half open, slow, repeats and reorders during many turns: every frame is there, or counted as
lost.

Each session's stream is read at the end: every number of the runner's once and in order, and the missing ones are
exactly those that notices of that stream report as lost (D-1 to D-4, E-3).
"""

from __future__ import annotations

import itertools
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from proof.faults.faulty_link import FaultyLink
from proof.processes.stack import Stack
from proof.recovery.random_kills import TERMINAL

TURNS = 1_000
SESSIONS = 4
TURN_TIMEOUT_S = 90.0
CONFIG = """
[[policy.rules]]
name = "the proof's lines are free"
effect = "allow"
door = "tool"
agent = "shell"
"""


class Findings(NamedTuple):
    """What a run counted."""

    turns: int
    states: Counter[str]
    mischief: Counter[str]
    applied: int
    lost: int
    reported_lost: int
    wrong: list[str]

    @property
    def passed(self) -> bool:
        """Frames applied are the frames made, or counted as lost exactly, and every turn ended."""
        return not self.wrong and self.lost == self.reported_lost and self.states.total() == self.turns


class LinkFaults:
    """Turns in a few sessions at once, over a bad network."""

    def __init__(self, place: Path, seed: int) -> None:
        self._stack = Stack(place, CONFIG)
        self._chaos = FaultyLink(self._stack.port, seed)
        self._stack.runner_url = self._chaos.url
        self._seed = seed
        self._numbers = itertools.count(1)
        self._states: Counter[str] = Counter()
        self._sessions: set[str] = set()
        self._wrong: list[str] = []

    def run(self, turns: int) -> Findings:
        """Run them all, let the network be calm, read everything."""
        stack = self._stack
        try:
            stack.up()
            share = [turns // SESSIONS + (each < turns % SESSIONS) for each in range(SESSIONS)]
            workers = [threading.Thread(target=self._work, args=(count,), daemon=True) for count in share if count]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
            self._chaos.calm = True
            return self._count(turns)
        finally:
            stack.down()
            self._chaos.close()

    def _work(self, turns: int) -> None:
        """Turns of one session, one after another; a session that was ended for a gap is followed by a new one."""
        session: str | None = None
        for _ in range(turns):
            number = next(self._numbers)
            target = {"session_id": session} if session else {"agent_id": "shell",
                                                              "workspace": str(self._stack.workspace)}
            line = f"i=0; while [ $i -lt 20 ]; do i=$((i+1)); echo turn {number} line $i; done; echo end {number}"
            body = {"type": "execute", "target": target, "payload": {
                "messages": [{"role": "user", "content": [{"contentType": "text", "value": line}]}]}}
            command = self._submit(body, f"proof-r12-{self._seed}-{number:06}")
            if command is None:
                continue
            session = str(command["target"]["session_id"])
            self._sessions.add(session)
            ended = self._ended(command["id"])
            error = ended["error"]["code"] if ended.get("error") else None
            self._states[f"{ended['state']} ({error})" if error else ended["state"]] += 1
            if ended["state"] not in TERMINAL:
                self._wrong.append(f"command {command['id']} of session {session} never ended: {ended['state']}")
            if ended["state"] != "succeeded":
                session = None

    def _submit(self, body: dict[str, Any], key: str) -> dict[str, Any] | None:
        deadline, refusal = time.monotonic() + TURN_TIMEOUT_S, ""
        while time.monotonic() < deadline:
            answer = self._stack.post("/v1/commands", body, key)
            if answer.status_code == 202:
                return answer.json()
            refusal = answer.text
            time.sleep(0.1)  # No runner is attached just now.
        self._wrong.append(f"{key} was never accepted: {refusal}")
        return None

    def _ended(self, command_id: str) -> dict[str, Any]:
        deadline = time.monotonic() + TURN_TIMEOUT_S
        while True:
            command = self._stack.get(f"/v1/commands/{command_id}")
            if command["state"] in TERMINAL or time.monotonic() > deadline:
                return command
            time.sleep(0.05)

    def _count(self, turns: int) -> Findings:
        applied = lost = reported = 0
        for session in sorted(self._sessions):
            events = self._stack.pages(f"/v1/sessions/{session}/frames", "events", view="raw")
            seqs = [event["frame"]["seq"] for event in events
                    if event.get("kind") in ("C", "refused") and "seq" in event.get("frame", {})]
            if seqs != sorted(set(seqs)):
                twice = [seq for seq, count in Counter(seqs).items() if count > 1]
                self._wrong.append(f"session {session}: numbers {twice or 'out of order'} twice or out of order")
            applied += len(seqs)
            lost += max(seqs, default=0) - len(set(seqs))
            reported += sum(event["notice"].get("lost_frame_count", 0) for event in events
                        if event.get("notice", {}).get("code") == "Truncated")
        for part in ("gateway", "runner"):
            if "Traceback" in (self._stack.place / f"{part}.log").read_text(errors="replace"):
                self._wrong.append(f"a traceback in the log of the {part}:\n{self._stack.log(part)}")
        return Findings(turns, self._states, self._chaos.done, applied, lost, reported, self._wrong)


def run(seed: int, rounds: int | None) -> bool:
    """Run the proof and print its findings; `rounds` counts turns."""
    with tempfile.TemporaryDirectory(prefix="interlock-r12-") as place:
        seen = LinkFaults(Path(place), seed).run(rounds or TURNS)
    print(f"{seen.turns} turns: " + ", ".join(f"{count} {state}" for state, count in seen.states.most_common()))
    print("network: " + ", ".join(f"{count} {what}" for what, count in sorted(seen.mischief.items())))
    print(f"frames applied {seen.applied}, missing {seen.lost}, reported as lost {seen.reported_lost}")
    for sentence in seen.wrong[:20]:
        print("  !", sentence)
    print("passed" if seen.passed else f"FAILED; repeat with --seed {seed}")
    return seen.passed
