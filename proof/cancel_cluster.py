"""R8 in a cluster: 1,000 commands whose cancel, own end and timeout come at once, while gateways are killed.

Each lane of work nears the instant at which the three meet: what won comes later the next time; where the agent won,
the others come sooner. The cancel is asked of a gateway that is drawn. At the end each command has one terminal event,
and its row as each gateway shows it, its stream and the audit log agree on which.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import httpx2

from interlock.command.machine import TERMINAL
from proof.cancel_race import ENDS, ROUNDS
from proof.crew import CONFIG
from proof.gateways import GATEWAYS
from proof.trio import Trio

LANES = 12
PATIENCE_S = 60.0
PIECES = 4
PIECE_MS = 100
BEGIN_MS = 600
SOONEST_MS, LATEST_MS = 50, 5_000
STEP = 0.3
"""By how much of itself a time is moved at the most after each race."""
BETWEEN_KILLS_S = (1.0, 4.0)
AWAY_S = 4.0
FREE = """
[[policy.rules]]
name = "the proof's agent asks for nothing"
effect = "allow"
door = "tool"
agent = "speaker"
"""


class Races(NamedTuple):
    """What the races showed."""

    states: Counter[str]
    kills: int
    cancels: Counter[int]
    """How the cancels were answered."""
    wrong: list[str]
    audit: tuple[bool, int, str]


class Killer:
    """Kills one gateway after another, each at a random instant, until it is stopped."""

    def __init__(self, house: Trio, draw: random.Random) -> None:
        self._house = house
        self._draw = draw
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.deaths: list[float] = []
        """When each of them died, on the monotonic clock."""

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Kill no more, and have every gateway be there."""
        self._stopping.set()
        self._thread.join()
        for number in range(GATEWAYS):
            self._house.until(lambda number=number: self._house.gateways.answers(number))

    def _run(self) -> None:
        while not self._stopping.wait(self._draw.uniform(*BETWEEN_KILLS_S)):
            number = self._draw.randrange(GATEWAYS)
            self.deaths.append(time.monotonic())
            self._house.gateways.kill(number)
            self._stopping.wait(self._draw.random() * AWAY_S)
            self._house.gateways.start(number)
            with contextlib.suppress(httpx2.TransportError):
                self._house.until(lambda number=number: self._house.gateways.answers(number))


def insist(ask: Callable[[], httpx2.Response]) -> httpx2.Response:
    """Ask until it is answered for good, by whoever is there."""
    until = time.monotonic() + PATIENCE_S
    while True:
        with contextlib.suppress(httpx2.TransportError):
            answer = ask()
            again = answer.status_code == 409 and answer.json().get("retryable")
            if answer.status_code < 500 and not again:
                return answer
        if time.monotonic() > until:
            raise TimeoutError("nobody answered for good")
        time.sleep(0.05)


def execute(house: Trio, lane: int, prompt: str, key: str, timeout_ms: int) -> str:
    """Give the agent of a lane's session a prompt; gives the command's id. Raises AssertionError for a refusal."""
    body = {"type": "execute", "timeout_ms": timeout_ms,
            "target": {"agent_id": "speaker", "session_key": f"agent:speaker:lane-{lane}",
                       "workspace": str(house.workspace), **house.target(lane)},
            "payload": {"messages": [{"role": "user", "content": [{"contentType": "text", "value": prompt}]}]}}
    answer = insist(lambda: house.post("/v1/commands", body, key))
    if answer.status_code != 202:
        raise AssertionError(f"{prompt}: {answer.status_code} {answer.text}")
    return str(answer.json()["id"])


def state_of(house: Trio, command_id: str, at: str | None = None) -> str:
    """A command's state, as one gateway shows it, or whoever is there."""
    return str(insist(lambda: httpx2.get(f"{at or house.url}/v1/commands/{command_id}", headers=house.headers,
                                         timeout=30)).json()["state"])


def until_state(house: Trio, command_id: str, wanted: Callable[[str], bool]) -> str:
    """Wait until a command is in such a state, or for PATIENCE_S."""
    until = time.monotonic() + PATIENCE_S
    while not wanted(state := state_of(house, command_id)) and time.monotonic() < until:
        time.sleep(0.02)
    return state


class _Lane:
    """One session in which one race is run after the other."""

    def __init__(self, house: Trio, number: int, seed: int) -> None:
        self._house = house
        self._number = number
        self._draw = random.Random(seed * 53 + number)
        self._seed = seed
        self._timeout_ms, self._cancel_ms = float(BEGIN_MS), BEGIN_MS / 2
        self.commands: list[str] = []
        self.answers: Counter[int] = Counter()
        self.failed: list[str] = []

    def run(self, races: int) -> None:
        """Run so many; what goes wrong is kept."""
        try:
            for race in range(races):
                self._race(race)
        except (AssertionError, TimeoutError) as stands:
            self.failed.append(f"lane {self._number}: {stands}")

    def _race(self, race: int) -> None:
        name = f"l{self._number}-{race}"
        key = f"proof-race-{self._seed}-{name}"
        command = execute(self._house, self._number, f"{name} {PIECES} {PIECE_MS}", key, int(self._timeout_ms))
        self.commands.append(command)
        time.sleep(self._cancel_ms / 1000)
        at = self._house.gateways.url(self._draw.randrange(GATEWAYS))
        self.answers[self._cancel(command, at, f"{key}-cancel")] += 1
        state = until_state(self._house, command, lambda state: state in TERMINAL)
        step = STEP * self._draw.random()
        if state in ("succeeded", "timed_out"):
            self._timeout_ms = _within(self._timeout_ms * (1 + step if state == "timed_out" else 1 - step))
        if state in ("succeeded", "canceled"):
            self._cancel_ms = _within(self._cancel_ms * (1 + step if state == "canceled" else 1 - step))

    def _cancel(self, command: str, at: str, key: str) -> int:
        body = {"type": "cancel", "target": {"command_id": command}}
        places = [at]

        def ask() -> httpx2.Response:
            # Who was drawn may just have been killed: then whoever is there.
            place = places.pop() if places else self._house.url
            return httpx2.post(f"{place}/v1/commands", json=body, timeout=30,
                               headers={**self._house.headers, "Idempotency-Key": key})

        return insist(ask).status_code


def _within(ms: float) -> float:
    return min(LATEST_MS, max(SOONEST_MS, ms))


def races(house: Trio, seed: int, rounds: int) -> Races:
    """Run so many races on a house that is up, under kills."""
    lanes = [_Lane(house, number, seed) for number in range(LANES)]
    share = [rounds // LANES + (number < rounds % LANES) for number in range(LANES)]
    killer = Killer(house, random.Random(seed))
    threads = [threading.Thread(target=lane.run, args=(count,)) for lane, count in zip(lanes, share, strict=True)]
    killer.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    killer.stop()
    wrong = [sentence for lane in lanes for sentence in lane.failed]
    commands = [command for lane in lanes for command in lane.commands]
    export = list(house.lines("/v1/audit/export"))
    records: dict[str, list[str]] = defaultdict(list)
    for line in export:
        record: dict[str, Any] = json.loads(line).get("record", {})
        if (record.get("meta") or {}).get("to") in TERMINAL and not record.get("approval_id"):
            records[record.get("command_id", "")].append(record["action"])
    house.stay()
    states = Counter[str]()
    for command in commands:
        shown = {state_of(house, command, house.gateways.url(number)) for number in range(GATEWAYS)}
        state = "/".join(sorted(shown))
        states[state] += 1
        told = house.pages(f"/v1/commands/{command}/status", "events")
        ends = [event["state"] for event in told if event["event"] == "state" and event.get("state") in TERMINAL]
        if state not in ENDS or ends != [state] or records[command] != [ENDS[state]]:
            wrong.append(f"command {command}: the gateways say {state}, the stream {ends}, the log {records[command]}")
    answers = sum((lane.answers for lane in lanes), Counter[int]())
    if len(commands) != rounds:
        wrong.append(f"{len(commands)} of {rounds} races were run")
    house.down()
    return Races(states, len(killer.deaths), answers, wrong, house.audit_ok())


def run(seed: int, rounds: int | None) -> bool:
    """Run the races and print how they ended."""
    with tempfile.TemporaryDirectory(prefix="interlock-r8-") as place:
        house = Trio(Path(place), FREE + CONFIG)
        try:
            house.up()
            seen = races(house, seed, rounds or ROUNDS)
        finally:
            house.down()
    print(f"{seen.states.total()} races under {seen.kills} kills of a gateway: {dict(sorted(seen.states.items()))}; "
          f"the cancels were answered {dict(sorted(seen.cancels.items()))}; {seen.audit[2]}")
    print(f"load of the machine {os.getloadavg()[0]:.1f}")
    for sentence in seen.wrong[:20]:
        print("  !", sentence)
    passed = not seen.wrong and seen.audit[0] and seen.states.keys() == ENDS.keys()
    print("passed" if passed else f"FAILED; repeat with --seed {seed}")
    return passed
