"""Objects that have moved: new ones go to the new store, earlier ones are found, aged and dropped where they are."""

from __future__ import annotations

import pytest

from interlock.backends.memory.objects import MemoryObjects
from interlock.backends.objects.relocation import MovedObjects
from interlock.ports.objects import ObjectMissing

pytestmark = pytest.mark.anyio


class Stores:
    """Two stores on one clock, and what joins them."""

    def __init__(self) -> None:
        self.now_ms = 1_000
        self.now, self.before = (MemoryObjects(now_ms=lambda: self.now_ms) for _ in range(2))
        self.moved = MovedObjects(self.now, self.before)

    async def read(self, sha256: str) -> bytes:
        return b"".join([piece async for piece in self.moved.read(sha256)])


@pytest.mark.req("E-5")
async def test_new_objects_go_to_the_current_store_and_old_ones_are_still_read() -> None:
    stores = Stores()
    old = await stores.before.put([b"old"])
    new = await stores.moved.put([b"new"])

    assert await stores.now.names() == [new.sha256]
    assert (await stores.read(old.sha256), await stores.read(new.sha256)) == (b"old", b"new")
    assert (await stores.moved.size(old.sha256), await stores.moved.size("0" * 64)) == (3, None)
    assert await stores.moved.names() == sorted((old.sha256, new.sha256))


async def test_a_drop_removes_an_object_from_both_stores() -> None:
    stores = Stores()
    twice = await stores.before.put([b"x"])
    await stores.now.put([b"x"])

    await stores.moved.drop(twice.sha256)

    assert await stores.moved.names() == []
    with pytest.raises(ObjectMissing):
        await stores.read(twice.sha256)


async def test_a_repeated_object_has_the_age_of_its_newest_copy() -> None:
    stores = Stores()
    old, twice = await stores.before.put([b"old"]), await stores.before.put([b"twice"])
    stores.now_ms = 5_000
    await stores.now.put([b"twice"])

    assert await stores.moved.old(4_000) == [old.sha256]
    assert not await stores.moved.drop_old(twice.sha256, 4_000)
    assert await stores.moved.drop_old(old.sha256, 4_000)
    assert await stores.moved.names() == [twice.sha256]
