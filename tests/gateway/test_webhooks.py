"""A tenant's webhooks: pending and failed deliveries, a test without a question, and repetition only of dead ones
(P-8)."""

from __future__ import annotations

from typing import Any

import pytest

from engine.conversation import OWNER, counting_entropy, remember
from interlock.backends.memory.clock import ManualClock
from interlock.backends.memory.ledger import MemoryLedger
from interlock.gateway.webhooks import ConfiguredWebhook, WebhookService
from interlock.ports.channel import NotAsked
from interlock.ports.ledger import Put, WriteBatch
from interlock.protocol.problems import Problem
from interlock.protocol.records import DeliveryRecord
from interlock.protocol.resources import Delivery

pytestmark = [pytest.mark.anyio, pytest.mark.req("P-8")]
TENANT = OWNER.tenant_id


class Way:
    """A channel that records test messages, or refuses them."""

    def __init__(self, fails: str = "") -> None:
        self.tested: list[str] = []
        self._fails = fails

    async def test(self, delivery_id: str, _at_ms: int) -> None:
        if self._fails:
            raise NotAsked(self._fails)
        self.tested.append(delivery_id)


def delivery(name: str, state: Any, id_: str = "dlv_1", **more: Any) -> DeliveryRecord:
    return DeliveryRecord(due_ms=0, delivery=Delivery(
        id=id_, tenant_id=TENANT, channel=name, approval_id="apr_1", state=state, created_at="", **more))


async def service(way: Way, *records: DeliveryRecord) -> WebhookService:
    ledger = MemoryLedger()
    await ledger.commit(WriteBatch([Put(record) for record in records]))
    channel: Any = way
    hooks = {(TENANT, "ops"): ConfiguredWebhook("ops.example", channel),
             ("other", "x"): ConfiguredWebhook("x", channel)}
    return WebhookService(ledger, ManualClock(), counting_entropy(), hooks)


async def test_a_tenants_webhooks_are_listed_with_pending_and_dead_deliveries() -> None:
    made = await service(Way(), delivery("ops", "pending", "dlv_1"), delivery("ops", "dead", "dlv_2"),
                         delivery("ops", "dead", "dlv_3"), delivery("gone", "dead", "dlv_4"))

    assert [(one.name, one.host, one.waiting, one.dead) for one in await made.listing(TENANT)] == [
        ("ops", "ops.example", 1, 2)]
    made.configure({})
    assert await made.listing(TENANT) == []


async def test_a_test_message_is_sent_and_a_refused_one_has_a_reason() -> None:
    way = Way()
    made = await service(way)
    await made.test(TENANT, "ops")
    assert way.tested[0].startswith("dlv_")
    with pytest.raises(Problem, match="There is no webhook x"):
        await made.test(TENANT, "x")
    with pytest.raises(Problem, match="did not take a test message: status 500") as refused:
        await (await service(Way("status 500"))).test(TENANT, "ops")
    assert (refused.value.code, refused.value.hint) == (
        "UpstreamError", "Correct its table in the config, or the service, and test it again.")


async def test_only_a_dead_notification_is_retried_with_its_attempts_reset() -> None:
    made = await service(Way(), delivery("ops", "dead", "dlv_1", attempts=9, why="away"),
                         delivery("ops", "pending", "dlv_2"))
    nudged: list[int] = []
    made.nudge.connect(lambda: nudged.append(1))

    fresh = await made.again(OWNER, "dlv_1")
    assert (fresh.delivery.state, fresh.delivery.attempts, fresh.delivery.why) == ("pending", 0, None)
    await made.retry(fresh, remember(None))
    assert nudged == [1]
    assert {one.id: one.state for one in await made.deliveries(TENANT, None, 9)}["dlv_1"] == "pending"
    for id_, code in (("dlv_2", "Conflict"), ("dlv_9", "NotFound")):
        with pytest.raises(Problem) as refused:
            await made.again(OWNER, id_)
        assert refused.value.code == code
