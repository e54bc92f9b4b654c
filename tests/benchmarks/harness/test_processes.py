"""A process that is measured reports its processor time and its memory."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks.harness.processes import Listening

A_LITTLE_WORK = "for line in __import__('sys').stdin: print(sum(range(1000)), flush=True)"
"""Some microseconds for each line, far less than a tick of /proc/PID/stat."""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the clock of another process is Linux's")
def test_work_shorter_than_a_tick_is_measured() -> None:
    with subprocess.Popen([sys.executable, "-c", A_LITTLE_WORK], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        listening = Listening(process, port=0)
        costs: list[float] = []
        for _ in range(3):
            before = listening.cpu_s()
            process.stdin.write("\n")
            process.stdin.flush()
            process.stdout.readline()
            costs.append(listening.cpu_s() - before)
        process.stdin.close()
    assert all(cost > 0 for cost in costs)
    assert listening.cpu_s() == 0, "a process that has ended has no clock"
    assert listening.rss_bytes() == 0
