"""The clock of a process counts all of its work."""

from __future__ import annotations

import subprocess
import sys

import pytest

from proof.processes import process_clock

A_LITTLE_WORK = "for line in __import__('sys').stdin: print(sum(range(1000)), flush=True)"
"""Some microseconds for each line, far less than a tick of /proc/PID/stat."""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the clock of another process is Linux's")
def test_work_shorter_than_a_tick_is_measured() -> None:
    with subprocess.Popen([sys.executable, "-c", A_LITTLE_WORK], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        costs: list[float] = []
        for _ in range(3):
            before = process_clock.cpu_s(process.pid)
            process.stdin.write("\n")
            process.stdin.flush()
            process.stdout.readline()
            costs.append(process_clock.cpu_s(process.pid) - before)
        process.stdin.close()
    assert all(cost > 0 for cost in costs)
    with pytest.raises(OSError, match="Invalid argument"):
        process_clock.cpu_s(process.pid)
