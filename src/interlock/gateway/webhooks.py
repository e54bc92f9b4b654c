"""The webhooks of each tenant, what went out through them, and what never arrived (P-8)."""

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
"""Questions of one state that a webhook's line counts at most."""


class ConfiguredWebhook(msgspec.Struct, frozen=True):
    """A way to approvers of the config: the host it goes to, its channel, and what kind it is."""

    host: str
    channel: Channel
    kind: WayKind = "webhook"


class WebhookService:
    """What REST asks of webhooks. Refusals are `Problem`s."""

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
        """Take other webhooks, by tenant and name."""
        self._hooks = hooks

    async def listing(self, tenant_id: str) -> list[Webhook]:
        """The tenant's webhooks, each with how many questions wait and how many never arrived."""
        waiting = await self._ledger.deliveries(tenant_id, "pending", COUNTED)
        dead = await self._ledger.deliveries(tenant_id, "dead", COUNTED)
        return [Webhook(name=name, kind=hook.kind, host=hook.host, waiting=_of(waiting, name), dead=_of(dead, name))
                for (tenant, name), hook in sorted(self._hooks.items()) if tenant == tenant_id]

    async def deliveries(self, tenant_id: str, state: str | None, limit: int) -> list[Delivery]:
        """Questions to approvers, newest first."""
        return [record.delivery for record in await self._ledger.deliveries(tenant_id, state, limit)
                if record.push is None]

    async def test(self, tenant_id: str, name: str) -> None:
        """Send a message that asks nothing. Raises Problem UpstreamError where it does not arrive."""
        hook = self._hooks.get((tenant_id, name))
        if hook is None:
            raise Problem("NotFound", f"There is no webhook {name}.", hint="List them with `GET /v1/webhooks`.")
        now = self._clock.now_ms()
        try:
            await hook.channel.test("dlv_" + ulid(now, self._entropy(10)), now)
        except NotAsked as error:
            raise Problem("UpstreamError", f"The {hook.kind} {name} did not take a test message: {error}",
                          hint="Correct what the config says of it, or the service, and test it again.") from None

    async def retry(self, record: DeliveryRecord, remembered: IdempotencyRecord) -> None:
        """Keep a question that is to be sent again, and its answer."""
        await self._ledger.commit(WriteBatch([Put(record), PutIdempotency(remembered)]))
        self.nudge()

    async def again(self, principal: Principal, delivery_id: str) -> DeliveryRecord:
        """A dead question as it is when it is sent again. Raises Problem NotFound or Conflict."""
        record = await self._ledger.delivery(delivery_id, principal.tenant_id)
        if record is None or record.push is not None:
            raise Problem("NotFound", f"There is no delivery {delivery_id}.",
                          hint="List them with `GET /v1/webhooks/deliveries`.")
        if record.delivery.state != "dead":
            raise Problem("Conflict", f"The delivery {delivery_id} is {record.delivery.state}; only one that never "
                          "arrived is sent again.")
        fresh = msgspec.structs.replace(record.delivery, state="pending", attempts=0, why=None)
        return DeliveryRecord(delivery=fresh, due_ms=self._clock.now_ms())


def _of(records: list[DeliveryRecord], name: str) -> int:
    return sum(record.delivery.channel == name for record in records)
