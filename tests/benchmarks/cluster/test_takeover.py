"""`python -m benchmarks cluster --rtt MS --orphans N` measures takeovers by several survivors."""

from __future__ import annotations

import pytest

from benchmarks.cluster import takeover


def test_all_sessions_of_a_dead_gateway_are_claimed_and_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INTERLOCK_BENCH_DIR", raising=False)
    report = takeover.run([1.0], 300, survivors=2, rounds=1)
    taken, = report["takeovers"]
    assert (taken["sessions"], taken["survivors"], taken["falsely_dead"]) == (300, 2, 0)
    assert taken["lease_s"] < taken["claimed_s"] <= taken["read_s"] + takeover.LOOK_S
    assert taken["claims"] >= 3, "each of at most 128 sessions"
    assert len(takeover.table(report).splitlines()) == 2
