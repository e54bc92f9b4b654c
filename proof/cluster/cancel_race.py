"""R8 in a cluster: 1,000 commands whose cancel, own end and timeout coincide, while gateways are killed.

Each worker approaches the instant at which the three coincide: the winner comes later the next time; if the agent won,
the others come sooner. The cancel is sent to a random gateway. At the end each command has one terminal event, and its
row as each gateway shows it, its stream and the audit log agree on which.
"""

from __future__ import annotations

import json
import os
import random
import tempfile
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import httpx2

from interlock.command.machine import TERMINAL
from proof.processes.cluster import ClusterStack, GatewayKiller
from proof.processes.gateways import GATEWAYS
from proof.sessions.cancel_race import ENDS, MANY, ROUNDS
from proof.workload.clients import CONFIG
from proof.workload.command_retries import execute, http, repeat_until_answered, state_of, until_state

LANES = 12
PIECES = 4
PIECE_MS = 100
BEGIN_MS = 600
SOONEST_MS, LATEST_MS = 50, 5_000
STEP = 0.3
"""By how much of itself a time is moved at the most after each race."""
BETWEEN_KILLS_S = (1.0, 4.0)
FREE = """
[[policy.rules]]
name = "the proof's agent asks for nothing"
effect = "allow"
door = "tool"
agent = "scripted"
"""


class Races(NamedTuple):
    """What the races showed."""

    states: Counter[str]
    kills: int
    cancels: Counter[int]
    """How the cancels were answered."""
    wrong: list[str]
    audit: tuple[bool, int, str]


class _Lane:
    """One session in which one race is run after the other."""

    def __init__(self, stack: ClusterStack, number: int, seed: int) -> None:
        self._stack = stack
        self._number = number
        self._draw = random.Random(seed * 53 + number)
        self._seed = seed
        self._timeout_ms, self._cancel_ms = float(BEGIN_MS), BEGIN_MS / 2
        self.commands: list[str] = []
        self.answers: Counter[int] = Counter()
        self.failed: list[str] = []

    def run(self, races: int) -> None:
        """Run this many races, and record failures."""
        try:
            for race in range(races):
                self._race(race)
        except (AssertionError, TimeoutError) as stands:
            self.failed.append(f"lane {self._number}: {stands}")

    def _race(self, race: int) -> None:
        name = f"l{self._number}-{race}"
        key = f"proof-race-{self._seed}-{name}"
        command = execute(self._stack, self._number, f"{name} {PIECES} {PIECE_MS}", key, int(self._timeout_ms))
        self.commands.append(command)
        time.sleep(self._cancel_ms / 1000)
        at = self._stack.gateways.url(self._draw.randrange(GATEWAYS))
        self.answers[self._cancel(command, at, f"{key}-cancel")] += 1
        state = until_state(self._stack, command, TERMINAL.__contains__)
        step = STEP * self._draw.random()
        if state in ("succeeded", "timed_out"):
            self._timeout_ms = _within(self._timeout_ms * (1 + step if state == "timed_out" else 1 - step))
        if state in ("succeeded", "canceled"):
            self._cancel_ms = _within(self._cancel_ms * (1 + step if state == "canceled" else 1 - step))

    def _cancel(self, command: str, at: str, key: str) -> int:
        body = {"type": "cancel", "target": {"command_id": command}}
        places = [at]

        def ask() -> httpx2.Response:
            # The drawn gateway may just have been killed: then any live one.
            place = places.pop() if places else self._stack.url
            return http.post(f"{place}/v1/commands", json=body,
                             headers={**self._stack.headers, "Idempotency-Key": key})

        return repeat_until_answered(ask).status_code


def _within(ms: float) -> float:
    return min(LATEST_MS, max(SOONEST_MS, ms))


def races(stack: ClusterStack, seed: int, rounds: int) -> Races:
    """Run this many races on a running stack, under kills."""
    lanes = [_Lane(stack, number, seed) for number in range(LANES)]
    share = [rounds // LANES + (number < rounds % LANES) for number in range(LANES)]
    killer = GatewayKiller(stack, random.Random(seed), BETWEEN_KILLS_S)
    threads = [threading.Thread(target=lane.run, args=(count,)) for lane, count in zip(lanes, share, strict=True)]
    killer.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    killer.stop()
    wrong = [sentence for lane in lanes for sentence in lane.failed]
    commands = [command for lane in lanes for command in lane.commands]
    export = list(stack.lines("/v1/audit/export"))
    records: dict[str, list[str]] = defaultdict(list)
    for line in export:
        record: dict[str, Any] = json.loads(line).get("record", {})
        if record.get("meta") and record["meta"].get("to") in TERMINAL and not record.get("approval_id"):
            records[record.get("command_id", "")].append(record["action"])
    stack.stay()
    states = Counter[str]()
    for command in commands:
        shown = {state_of(stack, command, stack.gateways.url(number)) for number in range(GATEWAYS)}
        state = "/".join(sorted(shown))
        states[state] += 1
        events = stack.pages(f"/v1/commands/{command}/status", "events")
        ends = [event["state"] for event in events if event["event"] == "state" and event.get("state") in TERMINAL]
        if state not in ENDS or ends != [state] or records[command] != [ENDS[state]]:
            wrong.append(f"command {command}: the gateways say {state}, the stream {ends}, the log {records[command]}")
    answers = sum((lane.answers for lane in lanes), Counter[int]())
    if len(commands) != rounds:
        wrong.append(f"{len(commands)} of {rounds} races were run")
    stack.down()
    return Races(states, len(killer.deaths), answers, wrong, stack.audit_ok())


def run(seed: int, rounds: int | None) -> bool:
    """Run the races and print how they ended."""
    with tempfile.TemporaryDirectory(prefix="interlock-r8-") as place:
        stack = ClusterStack(Path(place), FREE + CONFIG)
        try:
            stack.up()
            seen = races(stack, seed, rounds or ROUNDS)
        finally:
            stack.down()
    print(f"{seen.states.total()} races under {seen.kills} kills of a gateway: {dict(sorted(seen.states.items()))}; "
          f"the cancels were answered {dict(sorted(seen.cancels.items()))}; {seen.audit[2]}")
    print(f"load of the machine {os.getloadavg()[0]:.1f}")
    for sentence in seen.wrong[:20]:
        print("  !", sentence)
    passed = not seen.wrong and seen.audit[0] and (len(seen.states) > 1 or seen.states.total() < MANY)
    print("passed" if passed else f"FAILED; repeat with --seed {seed}")
    return passed
