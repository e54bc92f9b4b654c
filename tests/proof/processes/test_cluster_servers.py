"""`--rtt` of the proofs that run on a cluster: it sets the delay between the gateways of a stack and their servers."""

from __future__ import annotations

import time
import tomllib

import asyncpg
import nats
import pytest

from proof.processes import cluster_servers

pytestmark = pytest.mark.anyio
RTT_S = 0.05


async def test_a_stack_reaches_postgresql_and_nats_over_delayed_links() -> None:
    place, port = cluster_servers.slow(RTT_S * 1000)
    store = cluster_servers.postgres().url.replace(f"host={cluster_servers.sockets()}", f"host={place}")
    connection = await asyncpg.connect(store)
    bus = await nats.connect(f"nats://127.0.0.1:{port}")
    for asking in (lambda: connection.fetchval("SELECT 1"), bus.flush):
        begin_s = time.monotonic()
        await asking()
        assert time.monotonic() - begin_s >= RTT_S
    await bus.close()
    await connection.close()


def test_the_config_of_a_stack_names_the_delayed_links(monkeypatch: pytest.MonkeyPatch) -> None:
    straight = tomllib.loads(cluster_servers.section())["cluster"]
    monkeypatch.setattr(cluster_servers, "_rtt_ms", RTT_S * 1000)
    place, port = cluster_servers.slow(RTT_S * 1000)
    delayed = tomllib.loads(cluster_servers.section())["cluster"]
    assert (str(place) in delayed["store"], delayed["bus"]) == (True, f"nats://127.0.0.1:{port}")
    assert (str(place) in straight["store"], straight["bus"]) == (False, cluster_servers.nats().url)
