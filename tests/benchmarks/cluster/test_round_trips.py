"""`python -m benchmarks cluster --rtt MS` counts round trips and measures what they take."""

from __future__ import annotations

import pytest

from benchmarks.cluster import round_trips


def test_each_operation_takes_its_round_trips_and_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INTERLOCK_BENCH_DIR", raising=False)
    report = round_trips.run([20.0], times=2, seconds=0.3, sessions=[30])
    assert {one["what"]: one["trips"] for one in report["figures"]} == {
        "a batch of frames": 1, "a command": 2, "a vote": 2, "a command that opens a session": 3,
        "a runner attaches": 2, "a lane is taken": 4}
    assert all(one["p50_ms"] >= one["trips"] * 20.0 for one in report["figures"])
    assert {one["what"] for one in report["rates"]} == {"frames", "commands"}
    assert all(one["a_second"] > 0 and one["commits"] < 1 for one in report["rates"]), "many lanes share a transaction"
    failover, = report["failovers"]
    assert (failover["falsely_dead"], failover["broken"]) == (0, 0)
    assert len(round_trips.table(report).splitlines()) == 10
