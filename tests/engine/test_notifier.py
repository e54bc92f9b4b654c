"""Each approver is notified once per approval, again while delivery fails, and failed deliveries are listed (P-8)."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from engine.conversation import Table
from interlock.engine import notifier as notifier_module
from interlock.engine.bridge.lane_state import Limits
from interlock.engine.notifier import MAX_INPUT_CHARS, RETRY_AFTER_MAX_MS, RETRY_MS, Notifier
from interlock.ports.channel import ApprovalNotice, NoReceiver, NotAsked
from interlock.ports.entities import DELIVERIES
from interlock.ports.ledger import Drop, Put, PutApproval, WriteBatch
from interlock.protocol.records import DeliveryRecord
from interlock.protocol.resources import Delivery

pytestmark = pytest.mark.anyio


class Inbox:
    """A channel that records its notifications, or fails as a test requires."""

    def __init__(self, *failures: NotAsked | NoReceiver) -> None:
        self.asked: list[tuple[str, ApprovalNotice]] = []
        self._failures = list(failures)

    async def ask(self, delivery_id: str, at_ms: int, asking: ApprovalNotice) -> None:
        self.asked.append((delivery_id, asking))
        if self._failures:
            raise self._failures.pop(0)

    async def test(self, delivery_id: str, at_ms: int) -> None:
        raise AssertionError("only a person sends a test message")


WEBHOOKS = Limits(webhooks=(("default", "ops"), ("other", "theirs")))


async def held(table: Table, command: str = "make", limits: Limits = WEBHOOKS) -> str:
    """Hold a tool call for approval at a gateway with two webhooks, one of another tenant."""
    table.engine.configure(table.policy, limits)
    execute = await table.execute()
    session_id = execute.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    await table.asked(session_id, command)
    return table.wire.last("x-interlock.interaction.held").payload.approval_id


def notifier(table: Table, **channels: Inbox) -> Notifier:
    return Notifier(table.ledger, table.clock, {("default", name): inbox for name, inbox in channels.items()},
                    lambda text: text.replace("hunter2", "…"))


async def delivery(table: Table) -> Delivery:
    found = await table.ledger.deliveries("default", None, 10)
    assert len(found) == 1
    return found[0].delivery


@pytest.mark.req("P-8", "P-5", "K-4")
async def test_an_approval_is_sent_once_to_the_tenants_webhooks_with_redacted_input() -> None:
    table, inbox = Table(), Inbox()
    approval_id = await held(table, "login --password hunter2")
    await notifier(table, ops=inbox).drain()
    await notifier(table, ops=inbox).drain()
    (delivery_id, asking), = inbox.asked
    assert asking.approval_id == approval_id
    assert (asking.title, asking.input) == ("$ login --password …", '{"command":"login --password …"}')
    assert ((await delivery(table)).state, (await delivery(table)).id) == ("delivered", delivery_id)
    assert await table.ledger.deliveries("other", None, 10) == []


@pytest.mark.req("P-8")
async def test_a_failed_delivery_is_retried_under_its_id_and_is_finally_dead() -> None:
    table, inbox = Table(), Inbox(*[NotAsked("away")] * (len(RETRY_MS) + 1))
    await held(table)
    asks = notifier(table, ops=inbox)
    for wait_ms in (*RETRY_MS, 0):
        await asks.drain()
        due_ms = await table.ledger.next_delivery_ms()
        assert due_ms is None if not wait_ms else due_ms == table.clock.now_ms() + wait_ms
        await asks.drain()  # Not due yet: nothing goes out.
        table.clock.advance(wait_ms)
    assert len(inbox.asked) == len(RETRY_MS) + 1
    assert len({delivery_id for delivery_id, _ in inbox.asked}) == 1
    dead = await delivery(table)
    assert (dead.state, dead.why, dead.attempts) == ("dead", "away", len(RETRY_MS) + 1)


@pytest.mark.req("P-8", "J-18")
@pytest.mark.parametrize(("asked_ms", "pause_ms"), [(75_000, 75_000), (1_000, RETRY_MS[0]),
                                                    (10**12, RETRY_AFTER_MAX_MS)])
async def test_a_receiver_may_ask_for_a_longer_pause_within_a_limit(asked_ms: int, pause_ms: int) -> None:
    table = Table()
    await held(table)
    await notifier(table, ops=Inbox(NotAsked("busy", retry_after_ms=asked_ms))).drain()
    assert await table.ledger.next_delivery_ms() == table.clock.now_ms() + pause_ms


@pytest.mark.req("J-18")
async def test_browsers_are_a_channel_of_their_own_that_is_moot_without_subscriptions() -> None:
    table, inbox, none = Table(), Inbox(), Inbox(NoReceiver("no browser is subscribed"))
    approval_id = await held(table, limits=Limits(push=True))
    assert (await delivery(table)).channel == "push"
    channels: list[Inbox] = [none, inbox]
    asks = Notifier(table.ledger, table.clock, {}, str, lambda tenant: channels[0] if tenant == "default" else None)
    await asks.drain()
    assert ((await delivery(table)).state, (await delivery(table)).why) == ("moot", "no browser is subscribed")
    channels.pop(0)
    await table.ledger.commit(WriteBatch([Put(DeliveryRecord(
        delivery=msgspec.structs.replace(await delivery(table), state="pending"), due_ms=0))]))
    await asks.drain()
    assert [asking.approval_id for _, asking in inbox.asked] == [approval_id]
    assert (await delivery(table)).state == "delivered"


@pytest.mark.req("P-8")
async def test_a_permanently_refused_delivery_is_dead_immediately() -> None:
    table = Table()
    await held(table)
    await notifier(table, ops=Inbox(NotAsked("an address inside", final=True))).drain()
    assert ((await delivery(table)).state, (await delivery(table)).attempts) == ("dead", 1)


@pytest.mark.req("P-8")
async def test_a_decided_approval_is_not_sent() -> None:
    table, inbox = Table(), Inbox()
    await table.vote(await held(table), "grant")
    await notifier(table, ops=inbox).drain()
    assert (inbox.asked, (await delivery(table)).state) == ([], "moot")


@pytest.mark.req("P-8")
async def test_a_removed_webhooks_deliveries_are_on_the_dead_letter_list() -> None:
    table = Table()
    await held(table)
    await notifier(table).drain()
    assert "no longer names a webhook or notice ops" in ((await delivery(table)).why or "")


@pytest.mark.req("P-8")
async def test_a_long_input_is_cut() -> None:
    table, inbox = Table(), Inbox()
    await held(table, "x" * 2 * MAX_INPUT_CHARS)
    await notifier(table, ops=inbox).drain()
    assert len(inbox.asked[0][1].input) == MAX_INPUT_CHARS + 1


@pytest.mark.req("P-8", "C-4")
async def test_a_nudge_sends_a_delivery_and_a_restart_sends_pending_ones() -> None:
    table, inbox = Table(), Inbox()
    asks = notifier(table, ops=inbox)
    table.engine.lanes.on_delivery.connect(asks.nudge)
    asks.start()
    first = await held(table)
    await _until(lambda: len(inbox.asked) == 1)
    await asks.stop()
    second = await held(table)
    again = notifier(table, ops=inbox)
    again.start()
    await _until(lambda: {asking.approval_id for _, asking in inbox.asked} == {first, second})
    await again.stop()


class Duty:
    """Whether this gateway notifies for all, at each time it asks; the last answer stays."""

    def __init__(self, *answers: bool) -> None:
        self._answers = list(answers)
        self.asked = 0

    async def leads(self) -> bool:
        self.asked += 1
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


@pytest.mark.req("P-8", "C-4")
async def test_a_gateway_without_the_duty_does_not_wait_for_due_deliveries(monkeypatch: pytest.MonkeyPatch
                                                                           ) -> None:
    """It would find a due delivery again and again until the other gateway has sent it."""
    table, duty, looks = Table(), Duty(False), list[int]()
    await held(table)

    async def next_ms() -> int:
        looks.append(0)
        return 0

    monkeypatch.setattr(table.ledger, "next_delivery_ms", next_ms)
    asks = Notifier(table.ledger, table.clock, {}, str, leads=duty.leads)
    asks.start()
    await _until(lambda: duty.asked == 1)
    assert looks == []
    await asks.stop()


@pytest.mark.req("P-8", "C-4")
async def test_a_gateway_that_lost_the_duty_sends_nothing_until_it_regains_it(
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifier_module, "LEAD_LOOK_S", 0.0)
    table, inbox, duty = Table(), Inbox(), Duty(True, False, False, True)
    await held(table)
    asked_at = list[int]()

    class Seen(Inbox):
        async def ask(self, delivery_id: str, at_ms: int, asking: ApprovalNotice) -> None:
            asked_at.append(duty.asked)
            await inbox.ask(delivery_id, at_ms, asking)

    asks = Notifier(table.ledger, table.clock, {("default", "ops"): Seen()}, str, leads=duty.leads)
    asks.start()
    await _until(lambda: inbox.asked)
    assert asked_at == [5], "before it waits and after, it asks whether the duty is its own"
    await asks.stop()


async def _until(true: Any) -> None:
    async with asyncio.timeout(10):
        while not true():
            await asyncio.sleep(0)


@pytest.mark.req("H-5", "P-8")
@pytest.mark.parametrize("change", [
    {"title": "$ ls"}, {"input": msgspec.Raw(b'{"command":"ls"}')}, {"workspace": "/w2"}])
async def test_an_edited_approval_is_not_sent(change: dict[str, Any]) -> None:
    table, inbox = Table(), Inbox()
    approval_id = await held(table, "rm -rf build")
    record = await table.ledger.approval(approval_id, "default")
    assert record is not None
    edited = msgspec.structs.replace(record, approval=msgspec.structs.replace(record.approval, **change))
    await table.ledger.commit(WriteBatch([PutApproval(edited)]))
    await notifier(table, ops=inbox).drain()
    assert inbox.asked == []
    assert ((await delivery(table)).state, "differs from the audit record" in str((await delivery(table)).why)) == (
        "dead", True)


@pytest.mark.req("H-5", "P-8")
async def test_a_delivery_moved_to_another_tenant_is_not_sent() -> None:
    table, theirs = Table(), Inbox()
    await held(table)
    [found] = await table.ledger.deliveries("default", None, 10)
    turned = msgspec.structs.replace(found, delivery=msgspec.structs.replace(found.delivery, tenant_id="other"))
    await table.ledger.commit(WriteBatch([Drop(DELIVERIES, (turned.delivery.id,)), Put(turned)]))
    await Notifier(table.ledger, table.clock, {("other", "ops"): theirs}, str).drain()
    assert theirs.asked == []
