"""`python -m benchmarks weight`: its sums and its table (Y-18)."""

from __future__ import annotations

import os
import sys

import pytest

from benchmarks.product.footprint import ProcessMemory, VerbTime, Weight, memory, table, timed

pytestmark = pytest.mark.req("Y-18")


def test_memory_of_all_processes_is_summed_and_compared_with_its_limit() -> None:
    weight = Weight([ProcessMemory("up", 30.25), ProcessMemory("gateway", 60.5)],
                    [VerbTime("interlock status", 0.31, 0.3)])
    assert weight.pss_mb == 90.75
    assert table(weight).splitlines() == [
        "up                          30.2 MB", "gateway                     60.5 MB",
        "all of an idle up           90.8 MB   at most 120",
        "interlock status            0.31 s    0.30 s of processor time   at most 0.3 on a quiet machine"]


def test_the_memory_of_a_process_is_the_systems_figure() -> None:
    if not os.path.exists("/proc/self/smaps_rollup"):
        pytest.skip("only Linux reports a process's share of memory")
    own = memory(os.getpid())
    assert 5 < own.pss_mb < 4_000


def test_the_fastest_run_of_a_verb_counts() -> None:
    found = timed("python -c pass", [sys.executable, "-c", "pass"])
    assert found.cpu_s > 0
    assert found.wall_s > 0
