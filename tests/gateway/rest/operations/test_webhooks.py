"""Webhooks over the API: listed by host only, tested, and failed deliveries sent again (P-8, F-1)."""

import pytest

from interlock.gateway.webhooks import ConfiguredWebhook
from interlock.ports.channel import ApprovalNotice, NotAsked
from interlock.ports.ledger import Put, WriteBatch
from interlock.protocol.records import DeliveryRecord
from interlock.protocol.resources import Delivery
from small_gateway.running import Gateway

pytestmark = [pytest.mark.anyio, pytest.mark.req("P-8")]


class Receiver:
    """Accepts test messages, or returns the reason for a failure."""

    def __init__(self, why: str = "") -> None:
        self.why = why
        self.took = 0

    async def ask(self, delivery_id: str, at_ms: int, asking: ApprovalNotice) -> None:
        raise AssertionError("only the notifier sends questions")

    async def test(self, delivery_id: str, at_ms: int) -> None:
        if self.why:
            raise NotAsked(self.why)
        self.took += 1


async def delivery(gateway: Gateway, name: str, state: str, tenant: str = "default") -> None:
    one = Delivery(id=f"dlv_{name}", tenant_id=tenant, channel="ops", approval_id="apr_1", state=state,  # type: ignore[arg-type]
                   created_at="", attempts=10, why="away")
    await gateway.desk.ledger.commit(WriteBatch([Put(DeliveryRecord(delivery=one, due_ms=None))]))


@pytest.mark.req("O-11")
async def test_webhooks_are_listed_by_host_with_pending_and_dead_deliveries(gateway: Gateway) -> None:
    gateway.desk.hooks.update({("default", "ops"): ConfiguredWebhook("hooks.example", Receiver()),
                               ("default", "phone"): ConfiguredWebhook("ntfy.example", Receiver(), "ntfy"),
                               ("other", "theirs"): ConfiguredWebhook("other.example", Receiver())})
    await delivery(gateway, "1", "pending")
    await delivery(gateway, "2", "dead")
    await delivery(gateway, "3", "dead", "other")
    assert (await gateway.http.get("/v1/webhooks")).json() == {
        "webhooks": [{"name": "ops", "host": "hooks.example", "waiting": 1, "dead": 1},
                     {"name": "phone", "kind": "ntfy", "host": "ntfy.example", "waiting": 0, "dead": 0}]}
    async with gateway.as_role("operator") as someone:
        assert (await someone.get("/v1/webhooks")).status_code == 403


@pytest.mark.req("F-1", "M-1")
async def test_a_test_sends_one_message_and_a_failing_receiver_is_an_upstream_error(gateway: Gateway) -> None:
    good = Receiver()
    gateway.desk.hooks.update({("default", "ops"): ConfiguredWebhook("h", good),
                               ("default", "bad"): ConfiguredWebhook("h", Receiver("away"))})
    first = await gateway.post("/v1/webhooks/ops/test", {}, "one-key-for-one-test")
    again = await gateway.post("/v1/webhooks/ops/test", {}, "one-key-for-one-test")
    assert (first.status_code, again.content, good.took) == (200, first.content, 1)
    failed = await gateway.post("/v1/webhooks/bad/test", {})
    assert (failed.status_code, failed.json()["code"]) == (502, "UpstreamError")
    assert "away" in failed.json()["detail"]
    assert (await gateway.post("/v1/webhooks/none/test", {})).status_code == 404


async def test_a_dead_delivery_is_retried_with_its_attempts_reset(gateway: Gateway) -> None:
    await delivery(gateway, "1", "dead")
    await delivery(gateway, "2", "delivered")
    await delivery(gateway, "3", "dead", "other")
    dead = (await gateway.http.get("/v1/webhooks/deliveries", params={"state": "dead"})).json()["deliveries"]
    assert [(one["id"], one["why"]) for one in dead] == [("dlv_1", "away")]
    again = await gateway.post("/v1/webhooks/deliveries/dlv_1/retry", {})
    assert (again.status_code, again.json()["state"]) == (202, "pending")
    due = await gateway.desk.ledger.deliveries_due(gateway.desk.now_ms(), 10)
    assert [(record.delivery.id, record.delivery.attempts) for record in due] == [("dlv_1", 0)]
    assert (await gateway.post("/v1/webhooks/deliveries/dlv_2/retry", {})).status_code == 409
    assert (await gateway.post("/v1/webhooks/deliveries/dlv_3/retry", {})).status_code == 404
