"""Notifications of single tasks: at least once for each change, bounded in number and in attempts (O-9)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from interlock.channels.task_push import TaskPushSender
from interlock.gateway.a2a import task_pushes
from interlock.gateway.a2a.task_pushes import TASK_PUSHES_MAX, TaskPushes
from interlock.gateway.access.credentials import CredentialState
from interlock.ports.ledger import Put, PutCommand, WriteBatch
from interlock.ports.outbound_http import OutboundResponse, Outgoing
from interlock.protocol.problems import Problem
from interlock.protocol.records import TaskPush
from small_gateway.running import Gateway, running

pytestmark = [pytest.mark.anyio, pytest.mark.req("O-9")]
ANN = {"id": "user:ann", "role": "operator"}
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


class Receiver(Outgoing):
    """Answers each request with the next of `answers`, and then with 204."""

    def __init__(self, *answers: int) -> None:
        self.answers = list(answers)
        self.got: list[tuple[str, dict[str, Any]]] = []
        self.arrived = asyncio.Event()

    def check(self, url: str) -> None:
        return

    async def send(self, method: str, url: str, *, headers: Any, body: bytes | None = None, max_bytes: int,
                   timeout_s: float) -> OutboundResponse:
        self.got.append((headers["webhook-id"], msgspec.json.decode(body or b"")["statusUpdate"]))
        self.arrived.set()
        return OutboundResponse(self.answers.pop(0) if self.answers else 204, b"")

    @property
    def states(self) -> list[str]:
        return [update["status"]["state"].removeprefix("TASK_STATE_") for _, update in self.got]


@pytest.fixture
async def gateway(anyio_backend: str) -> AsyncIterator[Gateway]:
    async with running(30.0) as there:
        yield there


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_pushes, "RETRY_S", (0.0, 0.0))


def pushes_of(gateway: Gateway, receiver: Receiver) -> TaskPushes:
    desk = gateway.desk
    return TaskPushes(desk.ledger, desk.viewers, desk, TaskPushSender(KEY, receiver),
                      gateway.access.credentials.state_of)


def push_of(task: str, name: str = "mine") -> TaskPush:
    return TaskPush(config_id=name, task_id=task, url="https://client.example/", origin="https://desk.example",
                    key_id="default-operator", token="its-token")


async def begun(gateway: Gateway, receiver: Receiver) -> tuple[TaskPushes, Any]:
    """A task that is followed."""
    pushes = pushes_of(gateway, receiver)
    command = await command_of(gateway, await gateway.execute())
    await pushes.put(ANN, command, push_of(command.id))
    pushes.start()
    return pushes, command


async def command_of(gateway: Gateway, command_id: str) -> Any:
    record = await gateway.desk.ledger.command(command_id, "default")
    assert record is not None
    return record.command


async def turned(gateway: Gateway, command_id: str, state: Any) -> None:
    """Have a command change its state."""
    record = await gateway.desk.ledger.command(command_id, "default")
    assert record is not None
    changed = msgspec.structs.replace(record, command=msgspec.structs.replace(record.command, state=state))
    await gateway.desk.commit([PutCommand(changed), gateway.desk.status(command_id, event="state", state=state)])


async def suspend(gateway: Gateway, *, suspended: bool) -> None:
    tenant = await gateway.desk.ledger.tenant("default")
    assert tenant is not None
    await gateway.desk.ledger.commit(WriteBatch([Put(msgspec.structs.replace(tenant, suspended=suspended))]))


async def kept(gateway: Gateway, command_id: str, state: str) -> Any:
    """Wait until the config is kept in a state."""
    async with asyncio.timeout(20):
        while (row := await gateway.desk.ledger.delivery(f"psh_{command_id}_0", "default")).delivery.state != state:  # type: ignore[union-attr]
            await asyncio.sleep(0.01)
    return row


async def test_each_change_is_pushed_once_and_the_config_ends_with_its_task(gateway: Gateway) -> None:
    receiver = Receiver()
    pushes, command = await begun(gateway, receiver)
    for state in ("queued", "running", "pausing", "paused", "succeeded"):
        receiver.arrived.clear()
        await turned(gateway, command.id, state)
        if state in ("queued", "running", "succeeded"):
            await asyncio.wait_for(receiver.arrived.wait(), 20)
    row = await kept(gateway, command.id, "delivered")
    await pushes.stop()
    assert receiver.states == ["SUBMITTED", "WORKING", "COMPLETED"]
    assert len({message_id for message_id, _ in receiver.got}) == 3
    assert (row.push.token, row.push.cursor) == ("", await gateway.desk.ledger.head("default", f"c/{command.id}"))
    assert await pushes.listed("default", command.id) == []


async def test_a_failed_push_is_retried_under_its_id_and_then_dead(gateway: Gateway) -> None:
    receiver = Receiver(500, 503)
    pushes, command = await begun(gateway, receiver)
    await turned(gateway, command.id, "running")
    async with asyncio.timeout(20):
        while len(receiver.got) < 3:
            receiver.arrived.clear()
            await receiver.arrived.wait()
    assert len({message_id for message_id, _ in receiver.got}) == 1
    receiver.answers = [500] * 10
    await turned(gateway, command.id, "succeeded")
    row = await kept(gateway, command.id, "dead")
    await pushes.stop()
    assert len(receiver.got) == 6
    assert row.delivery.why == "the receiver answered with status 500"
    assert (await gateway.http.get("/v1/webhooks/deliveries")).json()["deliveries"] == []
    retried = await gateway.post(f"/v1/webhooks/deliveries/psh_{command.id}_0/retry", {})
    assert retried.json()["code"] == "NotFound"


async def test_the_next_gateway_pushes_only_later_changes(gateway: Gateway) -> None:
    receiver = Receiver()
    pushes, command = await begun(gateway, receiver)
    await turned(gateway, command.id, "running")
    await asyncio.wait_for(receiver.arrived.wait(), 20)
    async with asyncio.timeout(20):
        while not (await gateway.desk.ledger.delivery(f"psh_{command.id}_0", "default")).push.notified:  # type: ignore[union-attr]
            await asyncio.sleep(0.01)
    await pushes.stop()
    await turned(gateway, command.id, "succeeded")
    later = pushes_of(gateway, receiver)
    later.start()
    await kept(gateway, command.id, "delivered")
    await later.stop()
    assert receiver.states == ["WORKING", "COMPLETED"]


async def test_no_push_is_sent_after_the_key_that_set_it_is_revoked(gateway: Gateway) -> None:
    receiver = Receiver()
    pushes = pushes_of(gateway, receiver)
    command = await command_of(gateway, await gateway.execute())
    await pushes.put(ANN, command, push_of(command.id))
    assert (await gateway.post("/v1/keys/default-operator/revoke", key="ilk_default_admin")).status_code == 200
    pushes.start()
    await turned(gateway, command.id, "running")
    row = await kept(gateway, command.id, "moot")
    await pushes.stop()
    assert receiver.got == []
    assert (row.delivery.why, row.push.token) == ("the key that set it is revoked or has expired", "")


async def test_pushes_of_a_suspended_tenant_wait_until_it_is_restored(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_pushes, "SUSPENDED_LOOK_S", 0.0)
    held = asyncio.Event()
    state_of = gateway.access.credentials.state_of

    async def observed(tenant_id: str, key_id: str) -> CredentialState:
        state = await state_of(tenant_id, key_id)
        if state == "suspended":
            held.set()
        return state

    monkeypatch.setattr(gateway.access.credentials, "state_of", observed)
    receiver = Receiver()
    pushes = pushes_of(gateway, receiver)
    command = await command_of(gateway, await gateway.execute())
    await pushes.put(ANN, command, push_of(command.id))
    await suspend(gateway, suspended=True)
    pushes.start()
    await turned(gateway, command.id, "running")
    await asyncio.wait_for(held.wait(), 20)
    assert receiver.got == []
    await suspend(gateway, suspended=False)
    await asyncio.wait_for(receiver.arrived.wait(), 20)
    await pushes.stop()
    assert receiver.states == ["WORKING"]


async def test_push_configs_are_bounded_and_a_deleted_one_gets_no_pushes(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver = Receiver()
    pushes, command = await begun(gateway, receiver)
    for number in range(1, TASK_PUSHES_MAX):
        await pushes.put(ANN, command, push_of(command.id, f"c{number}"))
    with pytest.raises(Problem, match="has 4 push notification configs"):
        await pushes.put(ANN, command, push_of(command.id, "more"))
    await pushes.put(ANN, command, push_of(command.id, "c1"))
    assert [one.config_id for one in await pushes.listed("default", command.id)] == ["mine", "c1", "c2", "c3"]
    assert await pushes.listed("other", command.id) == []

    monkeypatch.setattr(task_pushes, "TENANT_PUSHES_MAX", TASK_PUSHES_MAX)
    another = await command_of(gateway, await gateway.execute())
    with pytest.raises(Problem, match="This tenant has"):
        await pushes.put(ANN, another, push_of(another.id))

    for name in ("mine", "c1", "c2", "c3"):
        assert await pushes.delete(ANN, command, name)
    assert not await pushes.delete(ANN, command, "mine")
    receiver.got.clear()
    await turned(gateway, command.id, "succeeded")
    await pushes.stop()
    assert receiver.got == []
