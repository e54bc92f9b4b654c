"""kill -9 of the runner and of the gateway at random instants under writers, voters and viewers (D-6, D-7, C-4, R2).

Each writer notes an acknowledged command id, and each voter an acknowledged vote, in an fsynced file of its own, before
it continues. Each command's shell line appends its own name to a file, so that a prompt that ran twice would show.
Viewers keep the text that they saw. At the end everything is read over REST and compared.
"""

from __future__ import annotations

import os
import random
import tempfile
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import httpx2

from proof.processes.stack import Component, Stack
from proof.workload.viewers import Viewers

ROUNDS = 20
"""Kills of each side in a full run."""
WRITERS = 4
SETTLE_TIMEOUT_S = 120.0
TERMINAL = {"succeeded", "failed", "timed_out", "canceled", "rejected", "expired"}
KILLED: tuple[Component, ...] = ("gateway", "runner")


class Note:
    """An append-only file that is on disk when `write` returns."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.path = path

    def write(self, line: str) -> None:
        """Append one line and fsync."""
        os.write(self._file, line.encode() + b"\n")
        os.fsync(self._file)

    def lines(self) -> list[str]:
        """All lines."""
        return self.path.read_text().splitlines()


class Findings(NamedTuple):
    """What a run counted."""

    kills: dict[Component, int]
    in_turn: int
    commands: int
    states: Counter[str]
    lost: list[str]
    doubled: list[str]
    unseen_text: list[str]
    audit: str
    audit_ok: bool
    orphans: int
    ready_max_s: float

    @property
    def passed(self) -> bool:
        """Nothing lost, nothing doubled, nothing that a viewer saw is gone, the audit log verifies, no orphan."""
        return not (self.lost or self.doubled or self.unseen_text or self.orphans) and self.audit_ok

    def table(self) -> str:
        """Print form."""
        rows = [
            ("kills of the gateway", self.kills["gateway"]), ("kills of the runner", self.kills["runner"]),
            ("kills inside a turn", self.in_turn), ("acknowledged commands", self.commands),
            ("their states", ", ".join(f"{count} {state}" for state, count in sorted(self.states.items()))),
            ("acknowledged and lost", len(self.lost)), ("doubled", len(self.doubled)),
            ("texts seen by a viewer and missing from history", len(self.unseen_text)),
            ("processes left", self.orphans), ("slowest time to be ready again", f"{self.ready_max_s:.2f} s"),
            ("audit", self.audit),
        ]
        return "\n".join(f"{name:<50} {value}" for name, value in rows)


class RandomKills:
    """Writers, voters and a killer around one stack."""

    def __init__(self, stack: Stack, seed: int, writers: int = WRITERS) -> None:
        self.stack = stack
        self.random = random.Random(seed)
        self.stopping = threading.Event()
        self.viewers = Viewers(stack)
        self.written = [Note(stack.place / f"writer-{n}") for n in range(writers)]
        self.votes = Note(stack.place / "votes")
        self.ready_max_s = 0.0
        self._seed = seed

    def run(self, rounds: int) -> Findings:
        """Kill each side `rounds` times, let everything settle, compare."""
        stack = self.stack
        stack.up()
        threads = [threading.Thread(target=self._write, args=(n,), daemon=True) for n in range(len(self.written))]
        threads.append(threading.Thread(target=self._vote, daemon=True))
        for thread in threads:
            thread.start()
        components: list[Component] = [component for component in KILLED for _ in range(rounds)]
        self.random.shuffle(components)
        in_turn = sum(self._kill(component, inside=number % 2 == 0) for number, component in enumerate(components))
        self.stopping.set()
        for thread in threads[:-1]:
            thread.join(30)
        self._settle()
        self.voting_over = True
        self.viewers.stop()
        return self._compare({"gateway": rounds, "runner": rounds}, in_turn)

    # --- workload ---
    def _write(self, number: int) -> None:
        draw = random.Random(self._seed * 31 + number)
        count = 0
        while not self.stopping.is_set():
            count += 1
            name = f"w{number}-{count}"
            lines = draw.randrange(2, 12)
            script = (f"echo {name} >> ran.txt; i=0; while [ $i -lt {lines} ]; "
                      f"do i=$((i+1)); echo {name} line $i; sleep 0.0{draw.randrange(1, 6)}; done")
            self._submit(name, script, number)
            self.stopping.wait(draw.random() * 0.6)

    def _submit(self, name: str, script: str, number: int) -> None:
        target = {"agent_id": "shell", "workspace": str(self.stack.workspace)}
        if number % 2 == 0:  # Every other writer keeps to one session, which outlives its agent many times.
            target["session_key"] = f"agent:shell:writer-{number}"
        body = {"type": "execute", "target": target,
                "payload": {"messages": [{"role": "user", "content": [{"contentType": "text", "value": script}]}]}}
        while not self.stopping.is_set():
            try:
                answer = self.stack.post("/v1/commands", body, f"proof-kill-{self._seed}-{name}")
            except (httpx2.TransportError, FileNotFoundError):
                self.stopping.wait(0.05)
                continue
            if answer.status_code == 202:
                command = answer.json()
                self.written[number].write(f"{name} {command['id']} {command['target']['session_id']}")
                self.viewers.watch(command["target"]["session_id"], one_opening=number % 2 == 1)
                return
            self.stopping.wait(0.1)  # no runner is attached, or the lane is being read again: ask again

    def _vote(self) -> None:
        self.voting_over = False
        while not self.voting_over:
            try:
                for approval in self.stack.get("/v1/approvals", state="pending")["items"]:
                    answer = self.stack.post(f"/v1/approvals/{approval['id']}/grants",
                                             {"decision": "grant", "digest": approval["digest"]},
                                             f"proof-vote-{approval['id']}")
                    if answer.status_code in (200, 201):
                        self.votes.write(approval["id"])
            except (httpx2.TransportError, KeyError, FileNotFoundError):
                time.sleep(0.05)
            time.sleep(0.1)  # As people are: each look is a connection of its own.

    # --- kills ---
    def _kill(self, component: Component, *, inside: bool) -> bool:
        """Kill at a random instant; `inside`: not before a turn is under way. Returns whether one was."""
        time.sleep(self.random.random() * 0.5)
        turn = self._turn_is_open() if not inside else self._await_turn()
        if inside:
            time.sleep(self.random.random() * 0.15)
        self.stack.kill(component)
        time.sleep(self.random.random() * 0.3)
        self.stack.start(component)
        self.ready_max_s = max(self.ready_max_s, self.stack.ready())
        return turn

    def _turn_is_open(self) -> bool:
        try:
            return bool(self.stack.get("/v1/commands", state="running", limit=1)["items"])
        except (httpx2.TransportError, KeyError):
            return False

    def _await_turn(self) -> bool:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            if self._turn_is_open():
                return True
            time.sleep(0.01)
        return False

    # --- the reckoning ---
    def _settle(self) -> None:
        deadline = time.monotonic() + SETTLE_TIMEOUT_S
        open_ids = {line.split()[1] for note in self.written for line in note.lines()}
        while open_ids and time.monotonic() < deadline:
            for command_id in sorted(open_ids):
                try:
                    if self.stack.get(f"/v1/commands/{command_id}")["state"] in TERMINAL:
                        open_ids.discard(command_id)
                except (httpx2.TransportError, KeyError):
                    break
            time.sleep(0.1)

    def _compare(self, kills: dict[Component, int], in_turn: int) -> Findings:
        lost: list[str] = []
        doubled: list[str] = []
        states: Counter[str] = Counter()
        ran = Counter((self.stack.workspace / "ran.txt").read_text().split())
        doubled += [f"{name} ran {count} times" for name, count in ran.items() if count > 1]
        sessions: dict[str, str] = {}
        names = [line.split() for note in self.written for line in note.lines()]
        ids = Counter(command_id for _, command_id, _ in names)
        doubled += [f"command {name} was given out {count} times" for name, count in ids.items() if count > 1]
        for name, command_id, session_id in names:
            sessions[session_id] = name
            try:
                command = self.stack.get(f"/v1/commands/{command_id}")
            except KeyError:
                lost.append(f"command {command_id} of {name}")
                continue
            code = command.get("error", {}).get("code")
            states[f"{command['state']} ({code})" if code else command["state"]] += 1
            if command["state"] not in TERMINAL:
                lost.append(f"command {command_id} never ended: {command['state']}")
            elif command["state"] == "succeeded" and ran[name] != 1:
                lost.append(f"command {command_id} succeeded and {name} ran {ran[name]} times")
        for approval_id in self.votes.lines():
            approval = self.stack.get(f"/v1/approvals/{approval_id}")
            if len(approval.get("votes", [])) != 1:
                lost.append(f"vote on {approval_id}: {len(approval.get('votes', []))} kept")
        unseen: list[str] = []
        for session_id in sessions:
            self._compare_session(session_id, lost, doubled, unseen)
        self.stack.down()
        orphans = len(self.stack.leftovers())
        audit_ok, records, says = self.stack.audit_ok()
        return Findings(kills, in_turn, len(names), states, lost, doubled, unseen, f"{says} ({records} records)",
                        audit_ok, orphans, self.ready_max_s)

    def _compare_session(self, session_id: str, lost: list[str], doubled: list[str], unseen: list[str]) -> None:
        events = self.stack.pages(f"/v1/sessions/{session_id}/frames", "events", view="raw")
        numbers = [event["n"] for event in events]
        if numbers != list(range(1, len(numbers) + 1)):
            lost.append(f"session {session_id}: numbers {numbers[:5]}… have a gap or a repetition")
        seqs = [e["frame"]["seq"] for e in events if e["kind"] in ("C", "refused") and "seq" in e.get("frame", {})]
        if seqs != sorted(set(seqs)):
            doubled.append(f"session {session_id}: frames {[s for s, c in Counter(seqs).items() if c > 1]}")
        if seqs and seqs != list(range(1, seqs[-1] + 1)):
            lost.append(f"session {session_id}: a frame is missing in {len(seqs)} of {seqs[-1]}")
        starts = Counter(e["frame"]["metadata"].get("prompt_id") for e in events
                         if e.get("frame", {}).get("type") == "session.turn.start")
        doubled += [f"prompt {prompt} started {count} times" for prompt, count in starts.items() if count > 1]
        stored = history_texts(events)
        for block, seen in self.viewers.texts(session_id).items():
            if not stored.get(block, "").startswith(seen):
                unseen.append(f"session {session_id} block {block}: a viewer saw {seen[-60:]!r}, "
                              f"history has {stored.get(block, '')[-60:]!r}")


def history_texts(events: list[dict[str, Any]]) -> dict[str, str]:
    """Text by block from durable frames alone: text blocks by id, tool output by invocation."""
    texts: dict[str, str] = defaultdict(str)
    for event in events:
        frame = event.get("frame", {})
        payload = frame.get("payload", {})
        if frame.get("type") in ("agent.text.done", "agent.thinking.done"):
            texts[payload["block_id"]] = payload["text"]
        elif frame.get("type") == "tool.invoke.result" and isinstance(payload.get("output"), str):
            texts[payload["invocation_id"] + "/stdout"] = payload["output"]
    return texts


def run(seed: int, rounds: int | None) -> bool:
    """Run the proof and print its findings; True if it passed."""
    with tempfile.TemporaryDirectory(prefix="interlock-proof-") as place:
        stack = Stack(Path(place))
        try:
            findings = RandomKills(stack, seed).run(rounds or ROUNDS)
        finally:
            stack.down()
    print(findings.table())
    for sentence in [*findings.lost, *findings.doubled, *findings.unseen_text][:20]:
        print("  !", sentence)
    print("passed" if findings.passed else f"FAILED; repeat with --seed {seed}")
    return findings.passed
