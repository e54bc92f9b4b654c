"""Changes of policy and signing keys are recorded in the audit log; a shared ledger has one signing key (U-1)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from interlock.backends.memory.clock import ManualClock
from interlock.backends.memory.ledger import MemoryLedger
from interlock.backends.sqlite.ledger import open_ledger
from interlock.gateway.audit.settings_audit import note_key
from interlock.gateway.audit.signing_key import KeyUnusable
from interlock.ports.ledger import Ledger

pytestmark = [pytest.mark.anyio, pytest.mark.req("U-1", "C-4")]
CLOCK = ManualClock(1_800_000_000_000)
PATH = Path("/state/gateway.key")


@pytest.fixture
def keys() -> list[Ed25519PublicKey]:
    return [Ed25519PrivateKey.generate().public_key() for _ in range(2)]


@pytest.fixture
async def file_ledger(tmp_path: Path) -> AsyncIterator[Ledger]:
    ledger = await open_ledger(tmp_path / "ledger.db", CLOCK)
    yield ledger
    await ledger.close()


async def note(ledger: Ledger, key: Ed25519PublicKey, *, may_change: bool = False) -> None:
    await note_key(ledger, CLOCK, "default", key, PATH, may_change=may_change)


async def rotations(ledger: Ledger) -> int:
    records = [msgspec.json.decode(record.body) for record in await ledger.audit("default", 0, 100)]
    return sum(record["action"] == "key_rotate" for record in records)


async def test_a_shared_ledger_accepts_its_first_key_and_refuses_another_with_a_remedy(
    keys: list[Ed25519PublicKey]
) -> None:
    ledger = MemoryLedger()
    await note(ledger, keys[0])
    await note(ledger, keys[0])
    with pytest.raises(KeyUnusable) as refused:
        await note(ledger, keys[1])
    for words in (str(PATH), "cluster-keys", "stop them", "--new-signing-key"):
        assert words in str(refused.value)
    assert await rotations(ledger) == 1, "what was refused is not noted as a rotation"
    await note(ledger, keys[0])


async def test_a_requested_rotation_is_recorded_once_and_then_refuses_the_old_key(
    keys: list[Ed25519PublicKey]
) -> None:
    ledger = MemoryLedger()
    await note(ledger, keys[0])
    for _ in range(2):
        await note(ledger, keys[1], may_change=True)
    assert await rotations(ledger) == 2
    await note(ledger, keys[1])
    with pytest.raises(KeyUnusable):
        await note(ledger, keys[0])


async def test_of_gateways_that_start_together_with_different_keys_one_continues(
    file_ledger: Ledger, keys: list[Ed25519PublicKey]
) -> None:
    outcomes = await asyncio.gather(*(note(file_ledger, key) for key in keys), return_exceptions=True)
    assert sorted(type(outcome) for outcome in outcomes if outcome) == [KeyUnusable]
    assert await rotations(file_ledger) == 1
