"""Monitoring of a gateway: alive, ready, and its figures (`/healthz`, `/readyz`, `/metrics`)."""

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from interlock.gateway.rest import readiness
from interlock.gateway.rest.readiness import ROOM_BYTES, has_room
from interlock.ports.ledger import Full, Put, Receipt, WriteBatch
from interlock.protocol.clock import iso
from interlock.protocol.drains import Drain
from interlock.protocol.records import DeliveryRecord, DrainRecord
from interlock.protocol.resources import Delivery
from small_gateway.desk import NOW
from small_gateway.running import Gateway, running

pytestmark = pytest.mark.anyio


async def figures(gateway: Gateway) -> dict[tuple[str, str], float]:
    """Every sample by its name and its labels' values."""
    answer = await gateway.http.get("/metrics")
    assert answer.status_code == 200, answer.text
    return {(sample.name, " ".join(sample.labels.values())): sample.value
            for family in text_string_to_metric_families(answer.text) for sample in family.samples}


async def test_ready_is_a_ledger_that_writes_and_lanes_that_are_up(gateway: Gateway) -> None:
    async with httpx2.AsyncClient(base_url=gateway.base) as anonymous:
        assert (await anonymous.get("/readyz")).json() == {"ok": True, "ledger": "writes", "lanes": "up",
                                                           "draining": False, "audit": "signs"}
        gateway.desk.up = False
        answer = await anonymous.get("/readyz")
        assert (answer.status_code, answer.json()["lanes"]) == (503, "down")
        assert (await anonymous.get("/healthz")).status_code == 200


async def test_a_full_disk_is_not_ready_and_is_ready_again_with_space(gateway: Gateway) -> None:
    commit = gateway.desk.ledger.commit

    async def full(_batch: WriteBatch) -> Receipt:
        raise Full("The ledger's disk is full.")

    gateway.desk.ledger.commit = full  # type: ignore[method-assign]
    answer = await gateway.http.get("/readyz")
    assert (answer.status_code, answer.json()["ledger"]) == (503, "refuses")
    assert answer.headers["Retry-After"] == "1"
    refused = await gateway.post("/v1/keys", {"principal": {"type": "user", "id": "ann"}, "roles": ["viewer"]},
                                 "the-name-of-a-request")
    assert (refused.status_code, refused.json()["detail"], refused.json()["hint"]) == (
        503, "The disk of the gateway's ledger is full; nothing was changed.",
        "Free some space on it, and send it again.")
    gateway.desk.ledger.commit = commit  # type: ignore[method-assign]
    gateway.desk.at_ms += 1_000
    assert (await gateway.http.get("/readyz")).json()["ok"] is True


async def test_a_ledger_that_hangs_is_not_ready_and_is_probed_once(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(readiness, "PROBE_TIMEOUT_S", 0.05)
    released, asked = asyncio.Event(), list[WriteBatch]()

    async def never_commits(batch: WriteBatch) -> Receipt:
        asked.append(batch)
        await released.wait()
        return Receipt([], [])

    gateway.desk.ledger.commit = never_commits  # type: ignore[method-assign]
    for _ in range(3):
        answer = await gateway.http.get("/readyz")
        assert (answer.status_code, answer.json()["ledger"]) == (503, "refuses")
        gateway.desk.at_ms += readiness.PROBE_MS
    assert len(asked) == 1
    released.set()
    while not (await gateway.http.get("/readyz")).json()["ok"]:
        gateway.desk.at_ms += readiness.PROBE_MS


async def test_a_state_directory_without_free_space_is_not_ready(
    gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert has_room(tmp_path)
    assert has_room(tmp_path / "not there")
    free_blocks = 0

    def statvfs(_path: Path) -> SimpleNamespace:
        return SimpleNamespace(f_bavail=free_blocks, f_frsize=4096)

    monkeypatch.setattr(os, "statvfs", statvfs)
    answer = await gateway.http.get("/readyz")
    assert (answer.status_code, answer.json()["ledger"]) == (503, "refuses")
    free_blocks = ROOM_BYTES // 4096
    gateway.desk.at_ms += 1_000
    assert (await gateway.http.get("/readyz")).json()["ok"] is True


@pytest.mark.req("U-3")
async def test_an_unsigned_log_is_not_ready_and_its_tenant_sees_the_reason(gateway: Gateway) -> None:
    gateway.desk.signing.failed("default", "The bucket is away.")
    answer = await gateway.http.get("/readyz")
    assert (answer.status_code, answer.json()) == (503, {"ok": False, "ledger": "writes", "lanes": "up",
                                                         "draining": False, "audit": "refuses"})
    assert (await gateway.http.get("/v1/status")).json()["unsigned"] == "The bucket is away."
    async with gateway.as_role("owner", "other") as other:
        assert (await other.get("/v1/status")).json()["unsigned"] is None
    gateway.desk.signing.signed("default")
    assert (await gateway.http.get("/readyz")).json()["ok"] is True


async def test_a_drain_shows_and_does_not_make_it_unready(gateway: Gateway) -> None:
    drain = Drain(scope="gateway", id=None, at=iso(NOW), by="user:owner", reason="")
    await gateway.desk.ledger.commit(WriteBatch([Put(DrainRecord(tenant_id="default", drain=drain))]))
    await gateway.desk.drains.learn()
    assert (await gateway.http.get("/readyz")).json() == {"ok": True, "ledger": "writes", "lanes": "up",
                                                          "draining": True, "audit": "signs"}


async def test_the_metrics_are_those_of_the_ledger_and_of_past_events(gateway: Gateway) -> None:
    await gateway.execute()
    await gateway.desk.add_approval("apr_1")
    await gateway.desk.add_session()
    for number, state in enumerate(("pending", "dead", "delivered")):
        delivery = Delivery(id=f"dlv_{number}", tenant_id="default", channel="hook", approval_id="apr_1",
                            state=state, created_at=iso(NOW))  # type: ignore[arg-type]
        record = DeliveryRecord(delivery=delivery, due_ms=NOW if state == "pending" else None)
        await gateway.desk.ledger.commit(WriteBatch([Put(record)]))
    async with gateway.as_role("viewer") as viewer:
        assert (await viewer.post("/v1/commands", json={})).status_code == 403
    async with gateway.sse("/v1/events") as stream:
        assert stream.answer.status_code == 200
        found = await figures(gateway)
    assert found["interlock_commands", "queued"] == 1
    assert found["interlock_approvals", "pending"] == 1
    assert found["interlock_sessions", ""] == 1
    assert (found["interlock_deliveries", "pending"], found["interlock_deliveries", "dead"]) == (1, 1)
    assert ("interlock_deliveries", "delivered") not in found
    assert (found["interlock_lanes", ""], found["interlock_lane_inbox_jobs", ""],
            found["interlock_lane_inbox_fullest_jobs", ""]) == (2, 5, 3)
    assert (found["interlock_viewers", ""], found["interlock_streams", "sse"],
            found["interlock_streams", "websocket"]) == (1, 1, 0)
    assert found["interlock_runners_online", ""] == 1
    assert found["interlock_requests_refused_total", "Forbidden"] == 1
    assert found["interlock_http_requests_total", "POST 2xx"] == 1
    assert found["interlock_http_requests_total", "POST 4xx"] == 1
    assert found["interlock_ready", ""] == 1
    assert found["interlock_build_info", "0.1.0"] == 1
    assert found["process_resident_memory_bytes", ""] > 0
    assert found["process_open_fds", ""] > 0


@pytest.mark.req("K-1")
async def test_only_the_owner_tenant_reads_the_metrics(gateway: Gateway) -> None:
    for role, status in (("operator", 200), ("auditor", 200), ("admin", 200), ("viewer", 403), ("approver", 403)):
        async with gateway.as_role(role) as reader:
            assert (await reader.get("/metrics")).status_code == status
    async with gateway.as_role("admin", "other") as stranger:
        assert (await stranger.get("/metrics")).status_code == 403
    async with httpx2.AsyncClient(base_url=gateway.base) as anonymous:
        assert (await anonymous.get("/metrics")).status_code == 401


@pytest.mark.parametrize(("open_to", "status"), [(["127.0.0.0/8"], 200), (["10.0.0.0/8"], 401)])
async def test_an_open_network_needs_no_credential(open_to: list[str], status: int) -> None:
    async with running(30, open_to) as gateway, httpx2.AsyncClient(base_url=gateway.base) as anonymous:
        answer = await anonymous.get("/metrics", headers={"Accept": "application/openmetrics-text"})
        assert answer.status_code == status
        if status == 200:
            assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
            assert answer.text.endswith("# EOF\n")


async def test_no_name_chosen_by_a_person_is_a_label(gateway: Gateway) -> None:
    await gateway.execute(reason="canary-1")
    await gateway.http.request("PROPFIND", "/v1/canary-2")
    text = (await gateway.http.get("/metrics")).text
    assert "canary" not in text
    assert 'method="other"' in text
    assert gateway.desk.metrics.labels() <= {"code", "door", "implementation", "kind", "le", "major", "method", "minor",
                                             "patchlevel", "state", "status", "type", "version"}
