"""A stored file is returned completely, or its reader receives an error."""

from __future__ import annotations

import hashlib

import pytest

from interlock.backends.memory.objects import MemoryObjects
from interlock.gateway.rest.operations.files import whole
from interlock.ports.objects import ObjectDamaged, ObjectMissing
from interlock.protocol.limits import OBJECT_READ_BYTES
from interlock.protocol.records import FileRecord

pytestmark = [pytest.mark.req("E-5"), pytest.mark.anyio]


async def read_until_it_fails(record: FileRecord, objects: MemoryObjects, read: list[bytes]) -> None:
    async for piece in whole(record, objects):
        read.append(piece)  # noqa: PERF401 what was read before the failure counts


async def kept(objects: MemoryObjects, *chunks: bytes, content: bytes | None = None) -> FileRecord:
    stored = [await objects.put([chunk]) for chunk in chunks]
    expected = b"".join(chunks) if content is None else content
    return FileRecord(session_id="s", transfer_id="t1", name="a.bin", media_type="", size=len(expected),
                      sha256=hashlib.sha256(expected).hexdigest(), purpose="", created_ms=0,
                      objects=[one.sha256 for one in stored])


@pytest.mark.parametrize("chunks", [
    (), (b"",), (b"one",), (b"one", b"two", b"one"), (b"x" * (OBJECT_READ_BYTES + 1), b"y")],
                         ids=["nothing", "empty", "one", "a chunk twice", "long"])
async def test_chunks_come_in_their_order(chunks: tuple[bytes, ...]) -> None:
    objects = MemoryObjects()
    record = await kept(objects, *chunks)
    assert b"".join([piece async for piece in whole(record, objects)]) == b"".join(chunks)


async def test_chunks_that_do_not_match_the_file_are_damage() -> None:
    objects = MemoryObjects()
    record = await kept(objects, b"one", b"two", content=b"twoone")
    read: list[bytes] = []
    with pytest.raises(ObjectDamaged, match="t1"):
        await read_until_it_fails(record, objects, read)
    assert read == [b"one", b"two"], "a reader that streams learns before the end that it is not the file"


async def test_a_missing_chunk_ends_the_file_at_its_start() -> None:
    objects, elsewhere = MemoryObjects(), MemoryObjects()
    first = await objects.put([b"one"])
    other = await elsewhere.put([b"two"])
    record = FileRecord(session_id="s", transfer_id="t1", name="a", media_type="", size=6, sha256="", purpose="",
                        created_ms=0, objects=[first.sha256, other.sha256])
    read: list[bytes] = []
    with pytest.raises(ObjectMissing):
        await read_until_it_fails(record, objects, read)
    assert read == [b"one"]
