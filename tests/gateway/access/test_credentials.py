"""Keys: the owner's is made once and private; a key is known by its hash only, and a revoked one is refused."""

import asyncio
import gc
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock.backends.memory.clock import START_MS, ManualClock
from interlock.backends.memory.ledger import MemoryLedger
from interlock.gateway.access.credentials import (
    AHEAD_MS,
    CACHE_KEYS,
    CACHE_MS,
    OWNER_FILE,
    REFUSED_KEYS,
    Credentials,
    digest,
    ensure_owner_key,
    read_owner_key,
)
from interlock.ports import trips
from interlock.ports.ledger import Put, WriteBatch
from interlock.protocol.problems import Problem
from interlock.protocol.records import KeyRecord, TenantRecord
from interlock.protocol.resources import Actor

pytestmark = pytest.mark.anyio


def entropy(count: int) -> bytes:
    return bytes(range(count))


@pytest.mark.req("K-2")
async def test_the_first_start_makes_a_private_owner_key_and_later_ones_keep_it(tmp_path: Path) -> None:
    ledger, clock = MemoryLedger(), ManualClock()
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


@pytest.mark.req("K-1")
async def test_a_revoked_key_is_refused_when_its_cache_entry_expires() -> None:
    ledger, clock = MemoryLedger(), ManualClock()
    record = KeyRecord(key_sha256=digest("ilk_x"), key_id="k", tenant_id="default", role="viewer", created_ms=1,
                       principal=Actor(type="user", id="someone"))
    await ledger.commit(WriteBatch([Put(record)]))
    credentials = Credentials(ledger, clock)
    first = await credentials.principal("ilk_x")
    await ledger.commit(WriteBatch([Put(msgspec.structs.replace(record, revoked=True))]))
    assert await credentials.principal("ilk_x") is first
    clock.advance(CACHE_MS)
    with pytest.raises(Problem, match="no longer accepted"):
        await credentials.principal("ilk_x")


@pytest.mark.req("K-1")
async def test_the_cache_of_keys_is_bounded() -> None:
    ledger, clock = MemoryLedger(), ManualClock()
    credentials = Credentials(ledger, clock)
    for number in range(CACHE_KEYS + 10):
        record = KeyRecord(key_sha256=digest(f"ilk_{number}"), key_id=str(number), tenant_id="default", role="viewer",
                           created_ms=1, principal=Actor(type="user", id="someone"))
        await ledger.commit(WriteBatch([Put(record)]))
        await credentials.principal(f"ilk_{number}")
    assert len(credentials._known) == CACHE_KEYS


class Counting(MemoryLedger):
    """A ledger that counts how often a key is looked up."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0

    async def key(self, key_sha256: str) -> KeyRecord | None:
        self.looks += 1
        return await super().key(key_sha256)


class Slow(Counting):
    """A ledger whose reads of keys return what they read only once `go` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.go = asyncio.Event()

    async def key(self, key_sha256: str) -> KeyRecord | None:
        found = await super().key(key_sha256)
        await self.go.wait()
        return found


SLOW_KEY = KeyRecord(key_sha256=digest("ilk_x"), key_id="k", tenant_id="default", role="viewer", created_ms=1,
                     last_used_ms=1_000_000, principal=Actor(type="user", id="someone"))


@pytest.mark.req("K-1")
async def test_concurrent_requests_share_one_key_lookup_that_survives_a_cancelled_one() -> None:
    ledger = Slow()
    await ledger.commit(WriteBatch([Put(SLOW_KEY)]))
    credentials = Credentials(ledger, ManualClock())
    requests = [asyncio.create_task(credentials.principal("ilk_x")) for _ in range(64)]
    while not ledger.looks:
        await asyncio.sleep(0)
    requests[0].cancel()
    ledger.go.set()
    first, *others = await asyncio.gather(*requests, return_exceptions=True)
    assert isinstance(first, asyncio.CancelledError)
    assert len({id(one) for one in others}) == 1
    assert others[0] is await credentials.principal("ilk_x")
    assert ledger.looks == 1


@pytest.mark.req("K-1")
async def test_a_refusal_without_a_waiting_request_is_not_logged_as_lost() -> None:
    ledger, lost = Slow(), list[dict[str, Any]]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: lost.append(context))
    credentials = Credentials(ledger, ManualClock())
    request = asyncio.create_task(credentials.principal("ilk_unknown"))
    while not ledger.looks:
        await asyncio.sleep(0)
    request.cancel()
    ledger.go.set()
    while credentials._looking:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    del request  # Its frame refers to the lookup.
    gc.collect()
    assert lost == []


@pytest.mark.req("K-1")
async def test_a_key_that_is_revoked_while_it_is_looked_up_is_refused_at_once() -> None:
    ledger = Slow()
    await ledger.commit(WriteBatch([Put(SLOW_KEY)]))
    credentials = Credentials(ledger, ManualClock())
    before = asyncio.create_task(credentials.principal("ilk_x"))
    while not ledger.looks:
        await asyncio.sleep(0)
    await ledger.commit(WriteBatch([Put(msgspec.structs.replace(SLOW_KEY, revoked=True))]))
    credentials.forget()
    meanwhile = asyncio.create_task(credentials.principal("ilk_x"))
    while ledger.looks < 2:
        await asyncio.sleep(0)
    ledger.go.set()
    assert (await before).role == "viewer"
    for refused in (meanwhile, credentials.principal("ilk_x")):
        with pytest.raises(Problem, match="no longer accepted"):
            await refused
    assert credentials.known("ilk_x", 1_000_000) is None


@pytest.mark.req("K-1")
async def test_a_key_in_use_is_looked_up_before_it_has_to_be_so_that_no_request_waits() -> None:
    ledger, clock = Slow(), ManualClock()
    ledger.go.set()
    await ledger.commit(WriteBatch([Put(SLOW_KEY)]))
    credentials = Credentials(ledger, clock)
    first = await credentials.principal("ilk_x")
    clock.advance(CACHE_MS - AHEAD_MS - 1)
    assert credentials.known("ilk_x", clock.at_ms) is first
    assert not credentials._looking, "it is looked up no more often than necessary"

    ledger.go.clear()
    clock.advance(1)
    counted = trips.CURRENT.set(spent := trips.Trips())
    requests = [credentials.known("ilk_x", clock.at_ms) for _ in range(64)]
    trips.CURRENT.reset(counted)
    (lookup,) = credentials._looking.values()
    assert requests == [first] * 64
    ledger.go.set()
    await lookup

    assert ledger.looks == 2
    assert spent == trips.Trips(), "the requests waited for none of it"
    clock.advance(AHEAD_MS)
    assert credentials.known("ilk_x", clock.at_ms) == first, "the lookup counts from its begin"
    clock.advance(CACHE_MS - AHEAD_MS)
    assert credentials.known("ilk_x", clock.at_ms) is None


@pytest.mark.req("K-1")
async def test_a_key_that_is_found_revoked_ahead_is_refused_at_once() -> None:
    ledger, clock = Counting(), ManualClock()
    await ledger.commit(WriteBatch([Put(SLOW_KEY)]))
    credentials = Credentials(ledger, clock)
    await credentials.principal("ilk_x")
    await ledger.commit(WriteBatch([Put(msgspec.structs.replace(SLOW_KEY, revoked=True))]))
    clock.advance(CACHE_MS - AHEAD_MS)
    assert credentials.known("ilk_x", clock.at_ms) is not None
    await asyncio.wait(credentials._looking.values())

    assert credentials.known("ilk_x", clock.at_ms) is None
    with pytest.raises(Problem, match="no longer accepted"):
        await credentials.principal("ilk_x")


@pytest.mark.req("K-1", "K-3")
async def test_a_repeated_bad_key_is_looked_up_only_at_intervals() -> None:
    ledger, clock = Counting(), ManualClock()
    credentials = Credentials(ledger, clock)
    for _ in range(100):
        with pytest.raises(Problem, match="not known"):
            await credentials.principal("ilk_bad")
    assert ledger.looks == 1
    clock.advance(CACHE_MS)
    # It was good all along, and only not yet in this copy of the ledger.
    await ledger.commit(WriteBatch([Put(KeyRecord(
        key_sha256=digest("ilk_bad"), key_id="k", tenant_id="default", role="viewer", created_ms=1,
        principal=Actor(type="user", id="someone")))]))
    assert (await credentials.principal("ilk_bad")).key_id == "k"
    for number in range(REFUSED_KEYS + 10):
        with pytest.raises(Problem, match="not known"):
            await credentials.principal(f"ilk_{number}")
    assert len(credentials._refused) == REFUSED_KEYS


@pytest.mark.req("K-1", "K-2")
async def test_the_old_owner_key_is_refused_after_its_file_is_recreated(tmp_path: Path) -> None:
    ledger, clock = MemoryLedger(), ManualClock()
    old = await ensure_owner_key(tmp_path, ledger, clock, entropy)
    old_key = (tmp_path / OWNER_FILE).read_text().strip()
    (tmp_path / OWNER_FILE).write_text("ilk_another\n")
    fresh = await ensure_owner_key(tmp_path, ledger, clock, lambda count: bytes(reversed(range(count))))
    credentials = Credentials(ledger, clock)
    with pytest.raises(Problem, match="no longer accepted"):
        await credentials.principal(old_key)
    assert (await credentials.principal("ilk_another")).key_id == fresh.key_id
    records = [msgspec.json.decode(record.body) for record in await ledger.audit("default", 0, 10)]
    steps = [(one["action"], one["meta"]["step"], one["meta"].get("key_id"), one["meta"].get("revoked"))
             for one in records]
    assert steps == [
        ("policy_change", "tenant_made", None, None), ("key_rotate", "owner_file", old.key_id, []),
        ("key_rotate", "owner_file", fresh.key_id, [old.key_id]), ("revoke", "owner_file", old.key_id, None),
    ]
    # The file put back is the old key still: it stays refused.
    (tmp_path / OWNER_FILE).write_text(old_key + "\n")
    assert (await ensure_owner_key(tmp_path, ledger, clock, entropy)).revoked


@pytest.mark.req("K-1")
async def test_the_last_use_of_a_key_is_written_once_a_minute() -> None:
    ledger, clock = MemoryLedger(), ManualClock()
    await ledger.commit(WriteBatch([Put(KeyRecord(
        key_sha256=digest("ilk_x"), key_id="k", tenant_id="default", role="viewer", created_ms=1,
        principal=Actor(type="user", id="someone")))]))
    credentials, seen = Credentials(ledger, clock), []
    for _ in range(4):
        await credentials.principal("ilk_x")
        record = await ledger.key_by_id("k")
        assert record is not None
        seen.append(record.last_used_ms)
        clock.advance(30_000)
    assert seen == [START_MS, START_MS, START_MS + 60_000, START_MS + 60_000]


@pytest.mark.req("K-1")
async def test_a_key_is_valid_until_it_expires() -> None:
    ledger, clock = MemoryLedger(), ManualClock()
    await ledger.commit(WriteBatch([Put(KeyRecord(
        key_sha256=digest("ilk_x"), key_id="k", tenant_id="default", role="viewer", created_ms=1,
        expires_ms=clock.at_ms + CACHE_MS, principal=Actor(type="user", id="someone")))]))
    credentials = Credentials(ledger, clock)
    assert (await credentials.principal("ilk_x")).key_id == "k"
    clock.advance(CACHE_MS)
    with pytest.raises(Problem, match="no longer accepted"):
        await credentials.principal("ilk_x")


@pytest.mark.req("K-1", "O-9")
async def test_work_continues_while_the_key_that_began_it_is_accepted() -> None:
    ledger, clock = MemoryLedger(), ManualClock()
    key = KeyRecord(key_sha256=digest("ilk_x"), key_id="k", tenant_id="default", role="viewer", created_ms=1,
                    expires_ms=clock.at_ms + 1, principal=Actor(type="user", id="someone"))
    await ledger.commit(WriteBatch([Put(TenantRecord(tenant_id="default", name="", created_ms=0)), Put(key)]))
    credentials = Credentials(ledger, clock)
    assert await credentials.state_of("default", "k") == "valid"
    clock.advance(1)
    assert await credentials.state_of("default", "k") == "ended", "it has expired"
    await ledger.commit(WriteBatch([Put(msgspec.structs.replace(key, expires_ms=None, revoked=True))]))
    assert await credentials.state_of("default", "k") == "ended", "it is revoked"
    assert await credentials.state_of("default", "another") == "ended", "its row is removed"


@pytest.mark.req("K-1", "O-9")
@pytest.mark.parametrize("key_id", ["", "oidc:corp"])
async def test_a_credential_without_a_row_is_valid_while_its_tenant_is_not_suspended(key_id: str) -> None:
    ledger = MemoryLedger()
    tenant = TenantRecord(tenant_id="default", name="", created_ms=0)
    await ledger.commit(WriteBatch([Put(tenant)]))
    credentials = Credentials(ledger, ManualClock())
    assert await credentials.state_of("default", key_id) == "valid"
    await ledger.commit(WriteBatch([Put(msgspec.structs.replace(tenant, suspended=True))]))
    credentials.look_again()
    assert await credentials.state_of("default", key_id) == "suspended"
