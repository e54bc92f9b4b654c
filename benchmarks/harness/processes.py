"""Processes that a benchmark starts, and ends when it is over."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

from benchmarks import REPOSITORY
from proof.processes import process_clock

STOP_S = 10
"""A process that has not ended this long after SIGTERM is killed."""


class Listening:
    """A process that listens on a port of loopback."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.pid = process.pid
        self.port = port

    def cpu_s(self) -> float:
        """Processor time of all its threads so far, in seconds; 0 if the system does not report it."""
        try:
            return process_clock.cpu_s(self.pid)
        except OSError:
            return 0.0

    def rss_bytes(self) -> int:
        """Resident memory; 0 if the system does not report it."""
        try:
            pages = int(Path(f"/proc/{self.pid}/statm").read_text("ascii").split()[1])
        except OSError:
            return 0
        return pages * os.sysconf("SC_PAGE_SIZE")


@contextlib.contextmanager
def listening(module: str, *arguments: str) -> Generator[Listening]:
    """Start `python -m module arguments`, which prints its URL on a line; end it at the end."""
    process = subprocess.Popen([sys.executable, "-m", module, *arguments], stdout=subprocess.PIPE, text=True,
                               cwd=REPOSITORY)
    try:
        assert process.stdout is not None
        # A component may log lines before the one with its address.
        lines = iter(process.stdout.readline, "")
        line = next((one.strip() for one in lines if one.strip().rpartition(":")[2].isdigit()), "")
        if not line:
            raise RuntimeError(f"{module} ended before it listened, with status {process.wait()}")
        yield Listening(process, int(line.rpartition(":")[2]))
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
