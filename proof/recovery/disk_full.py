"""R14: the disk of gateway, runner or both is full or fails, 40 times: 503, nothing acknowledged is lost, back in 5 s.

Ledger, outbox, transcripts, objects and checkpoints are on a disk that refuses writes (`proof.faults.full_disk`), under
writers, a voter and viewers. Then the same on a file system that is really full: a small tmpfs, in its own namespaces.
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

import httpx2

from proof import REPOSITORY
from proof.faults.full_disk_component import LOOK, state_file
from proof.processes.fork_server import ForkServer
from proof.processes.stack import Component, Stack
from proof.workload.clients import CONFIG, TERMINAL, Clients, Pace
from proof.workload.outcome_tally import OutcomeTally, tally_outcomes

EPISODES = 40
REALLY_FULL = 5
BACK_S = 5.0
LASTS_S = (1.5, 3.0)
"""How long the disk is so: longer than `/readyz` remembers what it saw."""
SETTLE_TIMEOUT_S = 60.0
WAIT_S = 30.0
PACE = Pace(writers=8, sessions=4, rest_s=0.6)
SMALL_FS = "48m"
FILL_BYTES = 1 << 16

How = Literal["full", "failing"]
KINDS: tuple[tuple[How, tuple[Component, ...]], ...] = (
    ("full", ("gateway", "runner")), ("full", ("gateway",)), ("full", ("runner",)), ("failing", ("gateway",)),
    ("failing", ("runner",)))


class Findings(NamedTuple):
    """What a run counted."""

    episodes: Counter[str]
    answered: Counter[int]
    """What the writers were answered, all in all."""
    back_s: list[float]
    """The time from free space until a new command has ended and `/readyz` reports ready."""
    wrong: list[str]
    outcomes: OutcomeTally

    @property
    def passed(self) -> bool:
        """Nothing lost, only 503 during the fault, no process died, and work continued in time."""
        return not self.wrong and self.outcomes.passed

    @property
    def slow(self) -> list[str]:
        """What came back too late."""
        return [f"back after {took:.1f} s, {BACK_S:.0f} s are allowed" for took in self.back_s if took > BACK_S]

    def table(self) -> str:
        """Print form."""
        rows = [("episodes", ", ".join(f"{count} × {kind}" for kind, count in sorted(self.episodes.items()))),
                ("answers to writers", ", ".join(f"{count} × {code}" for code, count in sorted(self.answered.items()))),
                ("in service again after, median, slowest",
                 f"{sorted(self.back_s)[len(self.back_s) // 2]:.1f} s, {max(self.back_s):.1f} s")]
        return "\n".join([*(f"{name:<50} {value}" for name, value in rows), self.outcomes.table(),
                          *(f"  ! {sentence}" for sentence in self.wrong + self.slow)])


class Trouble:
    """A stack with clients, whose disk is made to refuse, and to take writes again."""

    def __init__(self, stack: Stack, seed: int, pace: Pace) -> None:
        self._stack = stack
        self._clients = Clients(stack, seed, pace)
        self._wrong: list[str] = []
        self._back_s: list[float] = []
        self._episodes: Counter[str] = Counter()
        self._clients.start()
        self._in_service("begin")

    def episode(self, kind: str, components: tuple[Component, ...], make: Callable[[str], None],
                lasts_s: float) -> None:
        """Apply this fault for a while; record the answers meanwhile, and the time until work continues."""
        before = self._clients.answered.copy()
        make(kind)
        began = time.monotonic()
        time.sleep(lasts_s)
        if kind == "full" and "gateway" in components:
            ready = httpx2.get(self._stack.url + "/readyz", timeout=WAIT_S)
            if (ready.status_code, ready.json().get("ledger")) != (503, "refuses"):
                self._wrong.append(f"/readyz said {ready.status_code} {ready.text} while the disk was full")
            while self._clients.answered[503] == before[503] and time.monotonic() - began < WAIT_S:
                time.sleep(0.05)
            if self._clients.answered[503] == before[503]:
                self._wrong.append(f"no writer was answered 503 while the disk was full: {self._clients.answered}")
        make("fine")
        self._back_s.append(self._in_service(f"back-{self._episodes.total()}"))
        self._episodes[f"{kind}, {' and '.join(components)}"] += 1
        self._wrong += [f"the {component} died of it\n{self._stack.log(component)}" for component, process
                        in self._stack.processes.items() if process.poll() is not None]

    def _in_service(self, name: str) -> float:
        """Run a new command to its end; returns the seconds that it took, at the least until `/readyz` agreed."""
        began = time.monotonic()
        command_id = ""
        body = {"type": "execute", "target": {"agent_id": "scripted", "workspace": str(self._stack.workspace)},
                "payload": {"messages": [{"role": "user", "content": [
                    {"contentType": "text", "value": f"{name} 1 0"}]}]}, "close_session": True}
        while time.monotonic() - began < WAIT_S:
            with contextlib.suppress(httpx2.TransportError, KeyError):
                if not command_id:
                    answer = self._stack.post("/v1/commands", body, f"proof-full-{name}-the-key")
                    if answer.status_code == 202:
                        command_id = answer.json()["id"]
                        self._clients.written[0].write(f"{name} {command_id} {answer.json()['target']['session_id']}")
                elif (self._stack.get(f"/v1/commands/{command_id}")["state"] in TERMINAL
                      and httpx2.get(self._stack.url + "/readyz").status_code == 200):
                    return time.monotonic() - began
            time.sleep(0.02)
        self._wrong.append(f"{name} did not end within {WAIT_S:.0f} s")
        return WAIT_S

    def tally_outcomes(self) -> Findings:
        """Let everybody end, and compare."""
        self._clients.stop()
        self._clients.settle(SETTLE_TIMEOUT_S)
        other = {code for code in self._clients.answered if code >= 500} - {503}
        self._wrong += [f"a writer was answered {code}" for code in other]
        return Findings(self._episodes, self._clients.answered, self._back_s, self._wrong,
                        tally_outcomes(self._clients))


def refuse(place: Path, seed: int, episodes: int, pace: Pace = PACE) -> Findings:
    """Episodes on a disk that refuses, of each kind in turn."""
    draw = random.Random(seed)
    fork_server = ForkServer()
    stack = Stack(place, CONFIG, fork_server, on_file=True)
    for component in ("gateway", "runner"):
        stack.entry[component] = ["proof.faults.full_disk_component", str(draw.randrange(2**32))]
    try:
        stack.up()
        trouble = Trouble(stack, seed, pace)
        for number in range(episodes):
            kind, components = KINDS[number % len(KINDS)]

            def make(how: str, components: tuple[Component, ...] = components) -> None:
                for component in components:
                    state_file(place, component).write_text(how)
                    stack.processes[component].send_signal(LOOK)
                stack.until(lambda: not any(state_file(place, component).exists() for component in components))

            trouble.episode(kind, components, make, draw.uniform(*LASTS_S))
        return trouble.tally_outcomes()
    finally:
        stack.down()
        fork_server.close()


def fill_really(place: Path, seed: int, episodes: int) -> Findings:
    """The same with the state directory on a file system of SMALL_FS that is filled; in name spaces of our own."""
    draw = random.Random(seed)
    state = place / "state"
    state.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SMALL_FS},mode=700", "none", str(state)], check=True)
    fork_server = ForkServer()
    stack = Stack(place, CONFIG, fork_server, on_file=True)
    filler = state / "filler"

    def make(how: str) -> None:
        if how == "fine":
            filler.unlink()
            return
        with filler.open("ab", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(b"\0" * FILL_BYTES) == FILL_BYTES:
                pass

    try:
        stack.up()
        trouble = Trouble(stack, seed, PACE)
        for _ in range(episodes):
            trouble.episode("full", ("gateway", "runner"), make, draw.uniform(*LASTS_S))
        return trouble.tally_outcomes()
    finally:
        stack.down()
        fork_server.close()


def _report(seen: Findings) -> bool:
    passed = seen.passed and not seen.slow
    print(seen.table())
    print(f"{'load of the machine':<50} {os.getloadavg()[0]:.1f}")
    print("passed" if passed else "FAILED")
    return passed


def run(seed: int, rounds: int | None) -> bool:
    """Run the proof and print its findings; `rounds` counts episodes."""
    with tempfile.TemporaryDirectory(prefix="interlock-r14-") as place:
        passed = _report(refuse(Path(place), seed, rounds or EPISODES))
    spaces = ["unshare", "-Urm"]
    try:
        subprocess.run([*spaces, "true"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        print("-- no name spaces here: the run on a file system of limited size is left out")
        return passed
    print(f"-- on a file system of {SMALL_FS}", flush=True)
    with tempfile.TemporaryDirectory(prefix="interlock-r14-") as place:
        command = [sys.executable, "-m", "proof.recovery.disk_full", place, str(seed), str(REALLY_FULL)]
        done = subprocess.run([*spaces, *command], check=False, cwd=REPOSITORY)
    return passed and done.returncode == 0


if __name__ == "__main__":
    sys.exit(0 if _report(fill_really(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))) else 1)
