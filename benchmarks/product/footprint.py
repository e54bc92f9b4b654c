"""Memory and start of idle Interlock (Y-18): memory of all processes of an idle `up`, and the time of two verbs beside
the start of the interpreter itself, in one run. Only Linux reports a process's share of memory."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path

import msgspec

from benchmarks.harness.processes import STOP_S

PSS_LIMIT_MB, HELP_LIMIT_S, STATUS_LIMIT_S = 120.0, 0.2, 0.3
SETTLE_S = 3.0
"""The time from the ready line until memory is read, so that later loads are included."""
READY_S = 60.0
TRIALS = 7
"""Runs of each verb; the fastest counts, since other work of the machine only adds."""


class ProcessMemory(msgspec.Struct, frozen=True):
    """One process: its verb, and its proportional share of memory in MB of 1,000,000 bytes."""

    verb: str
    pss_mb: float


class VerbTime(msgspec.Struct, frozen=True):
    """One verb: seconds until it ended and seconds of processor time, of the fastest run."""

    verb: str
    wall_s: float
    cpu_s: float


class Weight(msgspec.Struct, frozen=True):
    """What `--json` prints."""

    processes: list[ProcessMemory]
    verbs: list[VerbTime]

    @property
    def pss_mb(self) -> float:
        """All processes together."""
        return sum(one.pss_mb for one in self.processes)


def run() -> Weight:
    """Start `up` on an empty state directory, let it settle, read memory and time verbs. Raises RuntimeError if it
    does not get ready."""
    with tempfile.TemporaryDirectory() as folder:
        state = str(Path(folder) / "state")
        with _up(state):
            pass  # Bytecode is written at the first start, which takes memory that later ones do not.
        with _up(state) as pid:
            time.sleep(SETTLE_S)
            processes = [memory(each) for each in (pid, *_children(pid))]
            verbs = [timed("python -c pass", [sys.executable, "-c", "pass"]),
                     timed("interlock --help", [sys.executable, "-m", "interlock", "--help"]),
                     timed("interlock status", [sys.executable, "-m", "interlock", "status", "--state", state])]
    return Weight(processes, verbs)


@contextlib.contextmanager
def _up(state: str) -> Generator[int]:
    process = subprocess.Popen([sys.executable, "-m", "interlock", "up", "--state", state, "--port", "0"],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=_environment())
    try:
        assert process.stdout is not None
        until = time.monotonic() + READY_S
        lines: list[str] = []
        for line in iter(process.stdout.readline, ""):
            lines.append(line)
            if line.startswith("ready") or time.monotonic() > until:
                break
        if not lines or not lines[-1].startswith("ready"):
            raise RuntimeError("`interlock up` did not get ready:\n" + "".join(lines))
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()


def _environment() -> dict[str, str]:
    """As an installed program has it: with bytecode beside its sources."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | {"COLUMNS": "80"}


def _children(pid: int) -> list[int]:
    found = [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()]
    return [*found, *(below for one in found for below in _children(one))]


def memory(pid: int) -> ProcessMemory:
    """Read a process's share of memory. Raises OSError if it has ended, or the system does not count it."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines()
    share_kb = next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    verb = words[words.index("interlock") + 1] if "interlock" in words[:-1] else words[0]
    return ProcessMemory(verb, share_kb * 1.024 / 1_000)


def timed(verb: str, words: list[str]) -> VerbTime:
    """Run a verb TRIALS times; the fastest is returned. Raises CalledProcessError if it fails."""
    fastest: VerbTime | None = None
    for _ in range(TRIALS):
        before, began_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(words, stdout=subprocess.DEVNULL, check=True, env=_environment())
        wall_s, after = time.perf_counter() - began_s, resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        if fastest is None or wall_s < fastest.wall_s:
            fastest = VerbTime(verb, wall_s, cpu_s)
    assert fastest is not None
    return fastest


def table(weight: Weight) -> str:
    """Print form, each figure beside its limit."""
    limits = {"interlock --help": HELP_LIMIT_S, "interlock status": STATUS_LIMIT_S}
    lines = [f"{one.verb:24} {one.pss_mb:7.1f} MB" for one in weight.processes]
    lines.append(f"{'all of an idle up':24} {weight.pss_mb:7.1f} MB   at most {PSS_LIMIT_MB:.0f}")
    for one in weight.verbs:
        limit = f"   at most {limits[one.verb]:.1f} on a quiet machine" if one.verb in limits else ""
        lines.append(f"{one.verb:24} {one.wall_s:7.2f} s    {one.cpu_s:.2f} s of processor time{limit}")
    return "\n".join(lines)
