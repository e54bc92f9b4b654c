"""An engine of a cluster, and the lanes that its gateway has claimed."""

from __future__ import annotations

import pytest

from clusters.street import NOW, street
from interlock.engine.bridge.tenant_lane import tenant_lane_id
from interlock.engine.cluster_sync import ClusterPeers
from interlock.ports.ledger import LaneName, PutSession, WriteBatch
from interlock.protocol.records import SessionRecord
from interlock.protocol.resources import SessionActivity

pytestmark = [pytest.mark.anyio, pytest.mark.req("C-4")]


def session(session_id: str, deadline_ms: int | None, state: SessionActivity = "running",
            runner_id: str = "r1") -> PutSession:
    return PutSession(SessionRecord(
        session_id=session_id, tenant_id="default", runner_id=runner_id, agent_id="shell", session_key=session_id,
        workspace="/w", state=state, created_ms=0, updated_ms=0, deadline_ms=deadline_ms, machine=b"", usage={}))


async def test_the_claimed_session_with_the_nearest_deadline_is_read_first() -> None:
    async with street() as town:
        here = town.members[0]
        await town.ledger.commit(WriteBatch([
            session("S1", NOW + 3_000), session("S2", NOW - 1_000), session("S3", None), session("S4", NOW + 2_000)]))
        peers = ClusterPeers(here.engine, here.cluster, lambda _: None)
        lanes = [LaneName("default", one) for one in ("S1", "S2", "S3", "S4", tenant_lane_id("default"))]
        found = await peers.clocked(lanes)
        assert [one.lane.name for one in found] == [tenant_lane_id("default"), "S2", "S4", "S1"]


async def test_what_waits_for_a_runner_is_read_at_once_where_the_runner_is() -> None:
    async with street(2) as town:
        here, there = town.members
        lanes = [LaneName("default", one) for one in ("S1", "S2")]
        async with here.attached():
            await town.ledger.commit(WriteBatch([session("S1", NOW + 3_000, "queued", "local"),
                                                 session("S2", NOW + 1_000, "queued", "local")]))
            delays = [[(one.lane.name, one.delay_s) for one in await ClusterPeers(
                member.engine, member.cluster, lambda _: None).clocked(lanes)] for member in (here, there)]
        assert delays == [[("S2", 0.0), ("S1", 0.0)], [("S2", 1.0), ("S1", 3.0)]]
