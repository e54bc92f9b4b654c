"""Keys: the owner's is made once and private; a key is known by its hash only, and a revoked one is refused."""

import stat
from pathlib import Path

import msgspec
import pytest

from interlock.backends.memory.ledger import MemoryLedger
from interlock.gateway.credentials import (
    CACHE_KEYS,
    CACHE_MS,
    OWNER_FILE,
    Credentials,
    digest,
    ensure_owner_key,
    new_key,
    read_owner_key,
)
from interlock.ports.ledger import Batch, PutKey
from interlock.protocol.problems import Problem
from interlock.protocol.records import KeyRecord
from interlock.protocol.resources import Actor

pytestmark = pytest.mark.anyio


class StillClock:
    def __init__(self) -> None:
        self.at = 1_000_000

    def now_ms(self) -> int:
        return self.at

    def monotonic_ms(self) -> int:
        return self.at


def entropy(count: int) -> bytes:
    return bytes(range(count))


@pytest.mark.req("K-2")
async def test_the_first_start_makes_a_private_owner_key_and_later_ones_keep_it(tmp_path: Path) -> None:
    ledger, clock = MemoryLedger(), StillClock()
    assert read_owner_key(tmp_path) is None
    made = await ensure_owner_key(tmp_path, ledger, clock, entropy)
    key = read_owner_key(tmp_path)
    assert key is not None
    assert key.startswith("ilk_")
    assert made.key_sha256 == digest(key)
    assert stat.S_IMODE((tmp_path / OWNER_FILE).stat().st_mode) == 0o600
    assert key not in repr(made)
    assert await ensure_owner_key(tmp_path, ledger, clock, entropy) == made
    assert (await ensure_owner_key(tmp_path, MemoryLedger(), clock, entropy)).key_sha256 == made.key_sha256
    who = await Credentials(ledger, clock).principal(key)
    assert (who.role, who.tenant_id, who.actor) == ("owner", "default", Actor(type="user", id="owner"))


@pytest.mark.req("K-2")
async def test_a_draft_that_a_crash_left_is_written_anew(tmp_path: Path) -> None:
    (tmp_path / "owner.key.new").write_text("half")
    await ensure_owner_key(tmp_path, MemoryLedger(), StillClock(), entropy)
    assert read_owner_key(tmp_path) == new_key(entropy)
    assert [path.name for path in tmp_path.iterdir()] == [OWNER_FILE]


@pytest.mark.req("K-1")
async def test_a_revoked_key_is_refused_when_its_memory_runs_out() -> None:
    ledger, clock = MemoryLedger(), StillClock()
    record = KeyRecord(key_sha256=digest("ilk_x"), key_id="k", tenant_id="default", role="viewer", created_ms=1,
                       principal=Actor(type="user", id="someone"))
    await ledger.commit(Batch([PutKey(record)]))
    credentials = Credentials(ledger, clock)
    first = await credentials.principal("ilk_x")
    await ledger.commit(Batch([PutKey(msgspec.structs.replace(record, revoked=True))]))
    assert await credentials.principal("ilk_x") is first
    clock.at += CACHE_MS
    with pytest.raises(Problem, match="no longer accepted"):
        await credentials.principal("ilk_x")


@pytest.mark.req("K-1")
async def test_what_is_remembered_is_bounded() -> None:
    ledger, clock = MemoryLedger(), StillClock()
    credentials = Credentials(ledger, clock)
    for number in range(CACHE_KEYS + 10):
        record = KeyRecord(key_sha256=digest(f"ilk_{number}"), key_id=str(number), tenant_id="default", role="viewer",
                           created_ms=1, principal=Actor(type="user", id="someone"))
        await ledger.commit(Batch([PutKey(record)]))
        await credentials.principal(f"ilk_{number}")
    assert len(credentials._known) == CACHE_KEYS
