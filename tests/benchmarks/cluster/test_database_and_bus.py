"""`python -m benchmarks cluster` measures its figures, each beside its limit."""

from __future__ import annotations

import pytest

from benchmarks.cluster import database_and_bus

pytestmark = pytest.mark.long


def test_each_figure_is_shown_beside_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_and_bus, "HOPS", 5)
    monkeypatch.delenv("INTERLOCK_BENCH_DIR", raising=False)
    report = database_and_bus.run(0.3, database_and_bus.RunSize(kills=0, stops=0, frames=200))
    assert [row["what"].split(",")[0] for row in report["rows"]] == [
        "durable frames", "commands", "a note over NATS", "a request over NATS and its answer"]
    assert all(row["value"] > 0 and row["limit"] > 0 for row in report["rows"])
    assert report["sharing"]["growth"] > 0
    assert len(database_and_bus.table(report | {"failover": {"kill -9": [0.2, 0.5]}}).splitlines()) == 7
