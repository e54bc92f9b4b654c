"""The gateways of a cluster and the servers that they share, a line each (C-4)."""

from __future__ import annotations

import time
from typing import Any

import pytest

from interlock.cli.operations.cluster_health import cluster_lines, shared_server
from interlock.protocol.answers import ClusterGateway, ClusterHealth, LostLease, SharedServer
from interlock.protocol.clock import iso

pytestmark = pytest.mark.req("C-4")
THERE = SharedServer(where="db:5432", reachable=True, version="17.2", latency_ms=1.26)


def gateway(**fields: Any) -> ClusterGateway:
    now_ms = int(time.time() * 1000)
    return ClusterGateway(**{"instance_id": "gw_1", "address": "10.0.0.1:1", "since": iso(now_ms - 7_200_000),
                             "last_beat_at": iso(now_ms), "lanes": 1, **fields})


def test_each_gateway_and_each_server_is_a_line() -> None:
    lines = list(cluster_lines(ClusterHealth(gateways=[gateway(), gateway(since=None, lanes=3)], database=THERE,
    bus=THERE)))
    assert lines[0] == "cluster          gw_1 · 10.0.0.1:1 · up 2 h · 1 lane · last beat 0 s ago"
    assert " · up · 3 lanes · " in lines[1]
    assert lines[2:] == ["database         db:5432 · 17.2 · 1.3 ms", "bus              db:5432 · 17.2 · 1.3 ms"]


def test_a_failing_server_is_shown_with_its_consequences() -> None:
    away = "The database is away: nothing is written."
    assert shared_server(SharedServer(where="db", reachable=False, trouble=away)) == away
    assert shared_server(SharedServer(where="db", reachable=False, trouble="a\nb\x1b[2J")).isprintable()


def test_a_lost_lease_is_a_line_with_its_reason() -> None:
    health = ClusterHealth(gateways=[], database=THERE, bus=THERE, lost_lease=LostLease(
        ago_s=95, reason="Its host had no free processor:\x1b it waited 6,240 ms."))
    line = next(cluster_lines(health))
    assert line.startswith("lease            This gateway lost its sessions to others 2 min ago. Its host had no free ")
    assert line.isprintable()
