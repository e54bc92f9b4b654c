"""Every gateway of a cluster is restarted in turn, behind one address, while people submit commands and read them.

A planned restart must not lose a response. A person's client repeats requests that were cut, and those with a 503 that
states the delay; any other response that is not 2xx is a fault, and so is a command that was not accepted, lost or run
twice.
"""

from __future__ import annotations

import contextlib
import random
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2

from proof.cluster.cascade import CONFIG
from proof.processes.cluster import ClusterStack
from proof.processes.gateways import GATEWAYS
from proof.workload.clients import TERMINAL

ROUNDS = 5
RUNNERS = 2
PEOPLE = 4
SESSIONS = 24
PATIENCE_S = 60.0
"""A request without a final answer within this time has failed."""
PAUSE_S = 0.05
"""Between a person's requests."""


class Answers:
    """What people were answered, counted; called by several threads."""

    def __init__(self, stack: ClusterStack) -> None:
        self._stack = stack
        self._count = threading.Lock()
        self.statuses: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.acknowledged: dict[str, str] = {}
        """Command id → the name that it writes."""

    def insist(self, http: httpx2.Client, method: str, path: str, **what: Any) -> httpx2.Response | None:
        """Ask as our clients do, until it is answered for good; None if that is a fault."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            wait_s = PAUSE_S
            try:
                answer = http.request(method, self._stack.url + path, **what)
            except httpx2.TransportError:
                self._note("cut, and repeated")
            else:
                if answer.status_code < 300:
                    self._note("2xx")
                    return answer
                after = answer.headers.get("retry-after", "")
                if answer.status_code != 503 or not after.isdigit():
                    self._fault(f"{method} {path}: {answer.status_code} {answer.text[:200]}")
                    return None
                self._note("503 with Retry-After")
                wait_s = int(after)
            time.sleep(wait_s)
        self._fault(f"{method} {path}: not answered for good")
        return None

    def _note(self, what: str) -> None:
        with self._count:
            self.statuses[what] += 1

    def _fault(self, what: str) -> None:
        with self._count:
            self.faults[what] += 1

    def live(self, person: int, ended: threading.Event) -> None:
        """Give commands and look at them until it is over, on one connection while that lasts."""
        with httpx2.Client(timeout=30) as http:
            self._live(http, person, ended)

    def _live(self, http: httpx2.Client, person: int, ended: threading.Event) -> None:
        draw, stack = random.Random(person), self._stack
        number = 0
        while not ended.is_set():
            number += 1
            session, name = draw.randrange(SESSIONS), f"p{person}-{number}"
            body = {"type": "execute", "timeout_ms": 600_000,
                    "target": {"agent_id": "shell", "session_key": f"agent:shell:lane-{session}",
                               "workspace": str(stack.workspace), **stack.target(session)},
                    "payload": {"messages": [{"role": "user", "content": [
                        {"contentType": "text", "value": f"echo {name} >> {stack.workspace}/done"}]}]}}
            headers = {**stack.headers, "Idempotency-Key": f"proof-of-rolling-{name}"}
            answer = self.insist(http, "POST", "/v1/commands", json=body, headers=headers)
            if answer is not None:
                self.acknowledged[str(answer.json()["id"])] = name
                self.insist(http, "GET", f"/v1/commands/{answer.json()['id']}", headers=stack.headers)
            ended.wait(PAUSE_S)

    def unfinished(self) -> int:
        """Wait for the end of all that was acknowledged; returns how many have none."""
        live, until = list(self.acknowledged), time.monotonic() + 2 * PATIENCE_S
        while live and time.monotonic() < until:
            live = [one for one in live if self._state(one) not in TERMINAL]
        return len(live)

    def _state(self, command_id: str) -> str:
        with contextlib.suppress(httpx2.TransportError, KeyError):
            return str(self._stack.get(f"/v1/commands/{command_id}")["state"])
        return ""


def restart(stack: ClusterStack, number: int) -> None:
    """Stop one gateway as a service manager does, start it again, and wait until all is well."""
    running = stack.gateways.running(number)
    running.terminate()
    running.wait()
    stack.gateways.start(number)
    stack.until(lambda: stack.gateways.answers(number))
    stack.ready()


def run(seed: int, rounds: int | None) -> bool:
    """Restart every gateway in turn, this many times, and print the answers of the clients."""
    with tempfile.TemporaryDirectory(prefix="interlock-rolling-") as name:
        place = Path(name)
        place.chmod(0o755)
        stack = ClusterStack(place, CONFIG, runners=RUNNERS)
        try:
            stack.up()
            answers, ended = Answers(stack), threading.Event()
            with ThreadPoolExecutor(PEOPLE) as people:
                living = [people.submit(answers.live, seed * PEOPLE + at, ended) for at in range(PEOPLE)]
                try:
                    for _ in range(rounds or ROUNDS):
                        for number in range(GATEWAYS):
                            restart(stack, number)
                finally:
                    ended.set()
                for one in living:
                    one.result()
            lost = answers.unfinished()
            done = stack.workspace / "done"
            written = Counter(done.read_text().split() if done.exists() else ())
            twice = sum(count > 1 for count in written.values())
        finally:
            stack.down()
    print(f"  {(rounds or ROUNDS) * GATEWAYS} restarts, {len(answers.acknowledged)} commands acknowledged, {lost} "
          f"without an end, {twice} run twice\n  answers: {dict(answers.statuses)}", flush=True)
    for fault, count in answers.faults.most_common(20):
        print(f"  ! {count} times {fault}", flush=True)
    passed = bool(answers.acknowledged) and not (lost or twice or answers.faults)
    print("passed" if passed else "FAILED", flush=True)
    return passed
