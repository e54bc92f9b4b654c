"""Objects in memory behave as those on a disk do: named by their content, bounded, read in pieces, dropped by age."""

from __future__ import annotations

import hashlib

import pytest

from interlock.backends.memory.objects import MemoryObjects
from interlock.ports.objects import ObjectMissing, ObjectTooLarge
from interlock.protocol.limits import OBJECT_READ_BYTES

pytestmark = pytest.mark.anyio


async def test_an_object_is_named_by_its_content_and_read_in_pieces() -> None:
    objects, whole = MemoryObjects(), b"x" * (OBJECT_READ_BYTES + 1)

    kept = await objects.put([whole[:10], whole[10:]])
    pieces = [piece async for piece in objects.read(kept.sha256)]

    assert kept.sha256 == hashlib.sha256(whole).hexdigest()
    assert (kept.size, [len(piece) for piece in pieces]) == (len(whole), [OBJECT_READ_BYTES, 1])
    assert await objects.size(kept.sha256) == len(whole)


async def test_an_object_above_the_limit_is_refused_and_not_stored() -> None:
    objects = MemoryObjects(limit_bytes=3)

    with pytest.raises(ObjectTooLarge, match="at most 3 bytes"):
        await objects.put([b"ab", b"cd"])
    assert await objects.names() == []
    assert (await objects.put([b"abc"])).size == 3


async def test_a_missing_object_is_reported_as_missing() -> None:
    objects = MemoryObjects()

    assert await objects.size("0" * 64) is None
    with pytest.raises(ObjectMissing):
        await anext(objects.read("0" * 64))


async def test_only_objects_older_than_the_limit_are_dropped() -> None:
    now = [1_000]
    objects = MemoryObjects(now_ms=lambda: now[0])
    old = await objects.put([b"old"])
    now[0] = 2_000
    young = await objects.put([b"young"])

    assert await objects.old(2_000) == [old.sha256]
    assert await objects.drop_old(old.sha256, 2_000)
    assert not await objects.drop_old(old.sha256, 2_000)
    assert not await objects.drop_old(young.sha256, 2_000)
    await objects.drop(young.sha256)
    assert await objects.names() == []
