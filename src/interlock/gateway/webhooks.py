"""The webhooks of each tenant, their deliveries, and the dead ones (P-8)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from interlock.ports.channel import Channel, NotAsked
from interlock.ports.clock import Clock, Entropy
from interlock.ports.ledger import Ledger, Put, PutIdempotency, WriteBatch
from interlock.ports.signals import Signal
from interlock.protocol.identifiers import ulid
from interlock.protocol.problems import Problem
from interlock.protocol.records import DeliveryRecord, IdempotencyRecord, Principal
from interlock.protocol.resources import Delivery, WayKind, Webhook

COUNTED = 1_000
"""Maximum deliveries of one state that are counted for a webhook."""
DUE_NOW_MS = 0
"""The instant of a delivery that is due at once, on whatever line."""


class ConfiguredWebhook(msgspec.Struct, frozen=True):
    """A webhook of the config: its host, its channel, and its kind."""

    host: str
    channel: Channel
    kind: WayKind = "webhook"


class WebhookService:
    """The service for webhooks. Refusals are `Problem`s."""

    def __init__(self, ledger: Ledger, clock: Clock, entropy: Entropy,
                 hooks: Mapping[tuple[str, str], ConfiguredWebhook]) -> None:
        """`hooks` by tenant and name."""
        self._ledger = ledger
        self._clock = clock
        self._entropy = entropy
        self._hooks = hooks
        self.nudge = Signal[[]]()
        """Sent when a question is to be delivered again."""

    def configure(self, hooks: Mapping[tuple[str, str], ConfiguredWebhook]) -> None:
        """Apply other webhooks, by tenant and name."""
        self._hooks = hooks

    async def listing(self, tenant_id: str) -> list[Webhook]:
        """Return the tenant's webhooks, each with its numbers of waiting and dead deliveries."""
        waiting = await self._ledger.deliveries(tenant_id, "pending", COUNTED)
        dead = await self._ledger.deliveries(tenant_id, "dead", COUNTED)
        return [Webhook(name=name, kind=hook.kind, host=hook.host, waiting=_of(waiting, name), dead=_of(dead, name))
                for (tenant, name), hook in sorted(self._hooks.items()) if tenant == tenant_id]

    async def deliveries(self, tenant_id: str, state: str | None, limit: int) -> list[Delivery]:
        """Return deliveries to approvers, newest first."""
        return [record.delivery for record in await self._ledger.deliveries(tenant_id, state, limit)
                if record.push is None]

    async def test(self, tenant_id: str, name: str) -> None:
        """Send a test message. Raises Problem UpstreamError if it does not arrive."""
        hook = self._hooks.get((tenant_id, name))
        if hook is None:
            raise Problem("NotFound", f"There is no webhook {name}.", hint="List them with `GET /v1/webhooks`.")
        now = self._clock.now_ms()
        try:
            await hook.channel.test("dlv_" + ulid(now, self._entropy(10)), now)
        except NotAsked as error:
            raise Problem("UpstreamError", f"The {hook.kind} {name} did not take a test message: {error}",
                          hint="Correct its table in the config, or the service, and test it again.") from None

    async def retry(self, record: DeliveryRecord, remembered: IdempotencyRecord) -> None:
        """Store a delivery that is to be sent again, and its response."""
        await self._ledger.commit(WriteBatch([Put(record), PutIdempotency(remembered)]))
        self.nudge()

    async def again(self, principal: Principal, delivery_id: str) -> DeliveryRecord:
        """Return a dead delivery prepared to be sent again. Raises Problem NotFound or Conflict."""
        record = await self._ledger.delivery(delivery_id, principal.tenant_id)
        if record is None or record.push is not None:
            raise Problem("NotFound", f"There is no delivery {delivery_id}.",
                          hint="List them with `GET /v1/webhooks/deliveries`.")
        if record.delivery.state != "dead":
            raise Problem("Conflict", f"The delivery {delivery_id} is {record.delivery.state}; only one that never "
                          "arrived is sent again.")
        fresh = msgspec.structs.replace(record.delivery, state="pending", attempts=0, why=None)
        return DeliveryRecord(delivery=fresh, due_ms=DUE_NOW_MS)


def _of(records: list[DeliveryRecord], name: str) -> int:
    return sum(record.delivery.channel == name for record in records)
