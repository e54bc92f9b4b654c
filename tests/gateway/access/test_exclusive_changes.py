"""A credential that one gateway revokes while another rotates it stays revoked (K-1, L-3)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from engine.conversation import OWNER, counting_entropy, remember
from interlock.backends.memory.clock import ManualClock
from interlock.backends.memory.ledger import MemoryLedger
from interlock.gateway.access.credentials import Credentials
from interlock.gateway.access.exclusive_changes import TRIES, ExclusiveChanges
from interlock.gateway.access.keys import KeyStore
from interlock.gateway.access.pairings import Pairings
from interlock.ports.ledger import LaneName, Put, WriteBatch
from interlock.protocol.access import KeyBody
from interlock.protocol.problems import Problem
from interlock.protocol.records import RunnerRecord, TenantRecord
from interlock.protocol.resources import Actor

pytestmark = pytest.mark.anyio


class FarLedger:
    """The ledger as another gateway has it: a commit is under way until `arrived` is set."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger
        self.sent, self.arrived = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    async def commit(self, batch: WriteBatch) -> Any:
        self.sent.set()
        await self.arrived.wait()
        return await self._ledger.commit(batch)


class Gateways:
    """Two gateways on one ledger, with a key and a runner."""

    def __init__(self) -> None:
        self.clock, self.entropy = ManualClock(), counting_entropy()
        self.ledger = MemoryLedger()
        self.far = FarLedger(self.ledger)

    def keys(self, ledger: Any) -> KeyStore:
        return KeyStore(ledger, self.clock, self.entropy, Credentials(ledger, self.clock))

    def pairings(self, ledger: Any) -> Pairings:
        return Pairings(ledger, self.clock, self.entropy, lambda *_: None)

    async def refused(self, rotating: Any, revoke: Any) -> None:
        """Revoke here while a rotation there is about to be committed."""
        under_way = asyncio.ensure_future(rotating)
        await self.far.sent.wait()
        await revoke
        self.far.arrived.set()
        with pytest.raises(Problem, match="is revoked"):
            await under_way


@pytest.mark.req("K-1")
async def test_a_key_that_is_revoked_while_another_gateway_rotates_it_stays_revoked() -> None:
    both = Gateways()
    await both.ledger.commit(WriteBatch([Put(TenantRecord(tenant_id="default", name="", created_ms=0))]))
    here = both.keys(both.ledger)
    made = await here.make(OWNER, KeyBody(principal=Actor(type="user", id="ann"), roles=["admin"]), remember)
    await both.refused(both.keys(both.far).rotate(OWNER, made.key_id, remember),
                       here.revoke(OWNER, made.key_id, remember))
    [key] = await both.ledger.keys("default")
    assert key.revoked


@pytest.mark.req("L-3")
async def test_a_runner_that_is_revoked_while_another_gateway_rotates_its_token_stays_revoked() -> None:
    both = Gateways()
    await both.ledger.commit(WriteBatch([Put(RunnerRecord(
        runner_id="rnr_1", tenant_id="default", token_sha256="0", device_name="", created_ms=0, last_seen_ms=0))]))
    await both.refused(both.pairings(both.far).rotate(OWNER, "rnr_1", remember),
                       both.pairings(both.ledger).revoke(OWNER, "rnr_1", remember))
    [runner] = await both.ledger.runners("default")
    assert runner.revoked


@pytest.mark.req("K-1")
async def test_a_change_that_others_keep_overtaking_is_refused_and_can_be_sent_again() -> None:
    ledger, overtaken = MemoryLedger(), 0

    async def change(lanes: Any) -> None:
        nonlocal overtaken
        overtaken += 1
        await ledger.take(LaneName("", "duty/keys"))
        await ledger.commit(WriteBatch([], lanes))

    with pytest.raises(Problem, match="at the same time") as caught:
        await ExclusiveChanges(ledger, "keys").make(change)
    assert (caught.value.code, caught.value.headers, overtaken) == ("Unavailable", {"Retry-After": "1"}, TRIES)
