"""One suite over every store of objects; and the additional behaviour of the one on disk."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from interlock.backends.bucket import Bucket
from interlock.backends.memory.objects import MemoryObjects
from interlock.backends.objects.bucket import BucketObjects
from interlock.backends.objects.directory import DirectoryObjects
from interlock.backends.objects.relocation import MovedObjects
from interlock.ports.objects import ObjectDamaged, ObjectMissing, Objects, ObjectsError, ObjectTooLarge
from interlock.protocol.limits import OBJECT_READ_BYTES
from lazily import lazily

boto3, moto = lazily("boto3"), lazily("moto.server")

pytestmark = [pytest.mark.anyio, pytest.mark.req("E-5")]
Make = Callable[..., Objects]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """A server of the S3 protocol."""
    server = moto.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(endpoint: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Bucket:
    """A bucket of the test's own."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    bucket = Bucket(f"b{sha(request.node.name.encode())[:40]}", "interlock/objects", endpoint, "us-east-1")
    asked(bucket).create_bucket(Bucket=bucket.name)
    return bucket


def asked(bucket: Bucket) -> Any:
    return boto3.client("s3", endpoint_url=bucket.endpoint, region_name=bucket.region)


@pytest.fixture(params=["memory", "directory", "bucket", "moved"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    if request.param == "memory":
        return MemoryObjects
    if request.param == "moved":
        return lambda **words: MovedObjects(MemoryObjects(**words), DirectoryObjects(tmp_path / "objects"))
    if request.param == "bucket":
        bucket = request.getfixturevalue("bucket")
        return lambda **words: BucketObjects(bucket, os.urandom, **words)
    return lambda **words: DirectoryObjects(tmp_path / "objects", **words)


async def whole(objects: Objects, sha256: str) -> bytes:
    return b"".join([piece async for piece in objects.read(sha256)])


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


async def test_an_object_is_read_back_under_its_digest(make: Make) -> None:
    objects = make()
    kept = await objects.put([b"ab", b"", b"c"])
    assert kept == (sha(b"abc"), 3)
    assert await whole(objects, kept.sha256) == b"abc"
    assert await objects.size(kept.sha256) == 3
    assert await objects.names() == [kept.sha256]


async def test_an_empty_object_is_an_object(make: Make) -> None:
    objects = make()
    kept = await objects.put([])
    assert (kept.size, await whole(objects, kept.sha256), await objects.size(kept.sha256)) == (0, b"", 0)


async def test_a_large_object_is_read_in_pieces(make: Make) -> None:
    objects = make()
    data = os.urandom(2 * OBJECT_READ_BYTES + 1)
    kept = await objects.put(data[at : at + 1000] for at in range(0, len(data), 1000))
    pieces = [piece async for piece in objects.read(kept.sha256)]
    assert max(map(len, pieces)) <= OBJECT_READ_BYTES
    assert b"".join(pieces) == data


async def test_the_same_bytes_put_concurrently_are_one_object(make: Make) -> None:
    objects = make()
    kept = await asyncio.gather(*(objects.put([b"same"]) for _ in range(8)))
    assert set(kept) == {(sha(b"same"), 4)}
    assert await objects.names() == [sha(b"same")]
    assert await whole(objects, sha(b"same")) == b"same"


@pytest.mark.parametrize("name", [sha(b"never"), "", "../../etc/passwd", "AB" * 32])
async def test_a_missing_object_is_reported(make: Make, name: str) -> None:
    objects = make()
    with pytest.raises(ObjectMissing, match="no object"):
        await whole(objects, name)
    assert await objects.size(name) is None
    await objects.drop(name)


async def test_a_dropped_object_is_gone(make: Make) -> None:
    objects = make()
    kept = await objects.put([b"x"])
    await objects.drop(kept.sha256)
    assert await objects.size(kept.sha256) is None
    assert await objects.names() == []


async def test_an_object_has_a_largest_size(make: Make) -> None:
    objects = make(limit_bytes=10)
    assert (await objects.put([b"12345", b"67890"])).size == 10
    with pytest.raises(ObjectTooLarge, match="at most 10 bytes"):
        await objects.put([b"12345", b"67890", b"1"])
    assert await objects.names() == [sha(b"1234567890")]


async def test_an_aborted_put_leaves_nothing(make: Make) -> None:
    def parts() -> Iterator[bytes]:
        yield b"half"
        raise RuntimeError("the sender is gone")

    objects = make()
    with pytest.raises(RuntimeError):
        await objects.put(parts())
    assert await objects.names() == []


async def test_an_old_object_is_deleted_unless_it_was_put_again(make: Make) -> None:
    objects = make()
    kept = await objects.put([b"x"])
    hour_ago, later = time.time_ns() // 1_000_000 - 3_600_000, time.time_ns() // 1_000_000 + 3_600_000
    assert await objects.old(hour_ago) == []
    assert await objects.drop_old(kept.sha256, hour_ago) is False
    assert await objects.old(later) == [kept.sha256]
    assert await objects.drop_old(kept.sha256, later) is True
    assert await objects.names() == []


# --- in a bucket ---
async def test_a_put_during_the_sweep_of_its_older_copy_is_kept(bucket: Bucket) -> None:
    objects, store = BucketObjects(bucket, os.urandom), asked(bucket)
    kept = await objects.put([b"x"])
    # Another gateway wrote a copy of a later second between this one's look and its removal.
    old = [copy["Key"] for copy in store.list_objects_v2(Bucket=bucket.name)["Contents"]]
    await objects.put([b"x"])
    for key in old:
        store.delete_object(Bucket=bucket.name, Key=key)
    assert await whole(objects, kept.sha256) == b"x"


async def test_leftover_copies_are_one_object_and_the_next_put_removes_them(bucket: Bucket) -> None:
    objects, store = BucketObjects(bucket, os.urandom), asked(bucket)
    folder = f"{bucket.prefix}/{sha(b'x')[:2]}/{sha(b'x')}/"
    for copy in range(3):
        store.put_object(Bucket=bucket.name, Key=f"{folder}{copy}", Body=b"x")
    assert await objects.names() == [sha(b"x")]
    assert await objects.size(sha(b"x")) == 1
    await objects.put([b"x"])
    left = store.list_objects_v2(Bucket=bucket.name)["Contents"]
    assert all(copy["LastModified"] >= left[-1]["LastModified"] for copy in left)
    await objects.drop(sha(b"x"))
    assert await objects.size(sha(b"x")) is None


async def test_a_put_keeps_a_copy_that_is_newer_by_the_stores_clock(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects, store = BucketObjects(bucket, os.urandom), asked(bucket)
    newer = f"{bucket.prefix}/{sha(b'x')[:2]}/{sha(b'x')}/newer"
    store.put_object(Bucket=bucket.name, Key=newer, Body=b"x")
    look = objects._list

    def later(folder: str) -> Iterator[Any]:
        for copy in look(folder):
            yield copy._replace(put_at=copy.put_at + timedelta(hours=1)) if copy.key == newer else copy

    monkeypatch.setattr(objects, "_list", later)
    await objects.put([b"x"])
    assert newer in [copy["Key"] for copy in store.list_objects_v2(Bucket=bucket.name)["Contents"]]


@pytest.mark.parametrize("damage", [b"kepT", b"kep", b"", b"kept and more"])
async def test_a_damaged_copy_is_never_returned_as_complete(bucket: Bucket, damage: bytes) -> None:
    store, name = asked(bucket), sha(b"kept")
    store.put_object(Bucket=bucket.name, Key=f"{bucket.prefix}/{name[:2]}/{name}/1", Body=damage)
    with pytest.raises(ObjectDamaged, match="damaged"):
        await whole(BucketObjects(bucket, os.urandom), name)


async def test_a_missing_bucket_is_reported_in_one_sentence(bucket: Bucket) -> None:
    objects = BucketObjects(bucket._replace(name="nowhere"), os.urandom)
    with pytest.raises(ObjectsError, match="in the bucket nowhere: NoSuchBucket"):
        await objects.put([b"x"])


async def test_an_unreachable_store_is_reported_in_one_sentence(bucket: Bucket) -> None:
    objects = BucketObjects(bucket._replace(endpoint="http://127.0.0.1:9"), os.urandom)
    with pytest.raises(ObjectsError, match="cannot be looked at in the bucket"):
        await objects.size(sha(b"x"))


# --- moved ---
async def test_objects_of_the_earlier_store_are_found_and_new_ones_go_to_the_present(tmp_path: Path) -> None:
    before, now = DirectoryObjects(tmp_path), MemoryObjects()
    earlier = await before.put([b"earlier"])
    objects = MovedObjects(now, before)
    kept = await objects.put([b"new"])
    assert await whole(objects, earlier.sha256) == b"earlier"
    assert (await now.names(), await before.names()) == ([kept.sha256], [earlier.sha256])
    again = await objects.put([b"earlier"])
    assert await objects.drop_old(again.sha256, 0) is False
    assert await whole(objects, again.sha256) == b"earlier"


# --- on a disk ---
async def test_objects_survive_a_restart_of_the_store(tmp_path: Path) -> None:
    kept = await DirectoryObjects(tmp_path).put([b"kept"])
    assert await whole(DirectoryObjects(tmp_path), kept.sha256) == b"kept"
    assert {path.stat().st_mode & 0o777 for path in tmp_path.rglob("*") if path.is_file()} == {0o600}


@pytest.mark.parametrize("damage", [b"kepT", b"kep", b"", b"kept and more"])
async def test_a_damaged_object_is_never_returned_as_complete(tmp_path: Path, damage: bytes) -> None:
    objects = DirectoryObjects(tmp_path)
    kept = await objects.put([b"kept"])
    (tmp_path / kept.sha256[:2] / kept.sha256).write_bytes(damage)
    with pytest.raises(ObjectDamaged, match="damaged"):
        await whole(objects, kept.sha256)


async def test_a_half_written_file_of_a_dead_writer_is_swept(tmp_path: Path) -> None:
    program = ("import os, sys; from pathlib import Path; from interlock.backends.objects.directory import "
               "DirectoryObjects as D\ndef parts():\n yield b'half'\n print('half', flush=True)\n sys.stdin.read()\n"
               "D(Path(sys.argv[1]))._put(parts())")
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"half\n"
        writer.send_signal(signal.SIGKILL)
    assert [path.name[:6] for path in tmp_path.iterdir()] == ["draft-"]
    assert await DirectoryObjects(tmp_path).names() == []
    assert list(tmp_path.iterdir()) == []


async def test_an_unusable_directory_is_reported_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ObjectsError, match=r"cannot be used: .*\. Check who owns"):
        DirectoryObjects(tmp_path / "file")
