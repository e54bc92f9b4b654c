"""R15: agents that fork away and ignore SIGTERM, and whose runner is killed at a random instant: no process is left
(A-4)."""

from __future__ import annotations

import contextlib
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from proof.processes.stack import NotReady, Stack

AGENTS = 200
AT_ONCE = 10
"""Agents under one runner when it is killed."""
GONE_TIMEOUT_S = 30.0
FORKER = """
import os, signal, sys, time
place, mark = sys.argv[1], sys.argv[2]
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for bare in (False, True):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            code = ("import os, signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
                    "open(os.path.join(sys.argv[1], f'{os.getpid()}.pid'), 'w').close(); signal.pause()")
            os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", code, place, mark],
                      {} if bare else os.environ)
        os._exit(0)
    os.wait()
while True:
    signal.pause()
"""


class Findings(NamedTuple):
    """What a run counted."""

    agents: int
    kills: int
    forked: int
    left: list[int]
    slowest_s: float

    @property
    def passed(self) -> bool:
        """Whether nothing is left of any."""
        return not self.left and self.forked > 0


def orphans(place: Path, seed: int, agents: int) -> Findings:
    """Start `agents` agents, a few at once, and kill -9 their runner at a random instant each time."""
    draw = random.Random(seed)
    pids = place / "pids"
    pids.mkdir()
    mark = f"proof-r15-{seed}-{place.name}"
    script = place / "forker.py"
    script.write_text(FORKER)
    config = (f'\n[agents.forker]\nadapter = "exec"\ncommand = "{sys.executable}"\n'
              f'args = ["-I", "-S", "{script}", "{pids}", "{mark}"]\n'
              '\n[[policy.rules]]\nname = "forkers are free"\neffect = "allow"\ndoor = "command"\nagent = "forker"\n')
    stack = Stack(place, config)
    kills, slowest = 0, 0.0
    try:
        stack.up()
        for first in range(0, agents, AT_ONCE):
            started = min(AT_ONCE, agents - first)
            already = len(list(pids.iterdir()))
            for number in range(first, first + started):
                _submit(stack, f"proof-r15-{seed}-{number:06}")
            if draw.random() < 0.5:  # Half of the kills fall into the starting, half after all have forked.
                with contextlib.suppress(NotReady):
                    stack.until(lambda already=already, want=2 * started: len(list(pids.iterdir())) >= already + want)
            time.sleep(draw.random() * 0.5)
            stack.kill("runner")
            kills += 1
            stack.start("runner")
            stack.ready()
            slowest = max(slowest, _until_gone(mark))
    finally:
        stack.down()
    return Findings(agents, kills, len(list(pids.iterdir())), [*marked(mark), *stack.leftovers()], slowest)


def _submit(stack: Stack, key: str) -> None:
    body = {"type": "execute", "target": {"agent_id": "forker", "workspace": str(stack.workspace)},
            "payload": {"messages": [{"role": "user", "content": [{"contentType": "text", "value": "fork"}]}]}}
    answer = stack.post("/v1/commands", body, key)
    if answer.status_code != 202:
        raise RuntimeError(f"the command was refused: {answer.text}")


def _until_gone(mark: str) -> float:
    began = time.monotonic()
    while marked(mark) and time.monotonic() - began < GONE_TIMEOUT_S:
        time.sleep(0.02)
    return time.monotonic() - began


def marked(mark: str) -> list[int]:
    """Processes whose command line carries the run's mark: an agent, or what forked away from one."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if mark.encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found


def run(seed: int, rounds: int | None) -> bool:
    """Run the proof and print its findings; `rounds` counts agents."""
    with tempfile.TemporaryDirectory(prefix="interlock-r15-") as place:
        seen = orphans(Path(place), seed, rounds or AGENTS)
    print(f"{seen.agents} agents, {seen.kills} kills of their runner, {seen.forked} processes forked away; "
          f"left: {len(seen.left)}; the slowest was gone {seen.slowest_s:.2f} s after the runner was back")
    print("passed" if seen.passed else f"FAILED {seen.left}; repeat with --seed {seed}")
    return seen.passed
