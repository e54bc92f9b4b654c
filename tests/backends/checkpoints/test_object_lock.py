"""Checkpoints in a store that does not allow deleting them, with a real S3 server (U-3)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from interlock.backends.bucket import Bucket
from interlock.backends.checkpoints.files import CheckpointFiles
from interlock.backends.checkpoints.object_lock import Both, LockedCheckpoints
from interlock.backends.memory.clock import ManualClock
from interlock.command.audit.audit import checkpoint_line
from interlock.command.audit.note import origin_of, sign_checkpoint
from lazily import lazily

boto3, moto = lazily("boto3"), lazily("moto.server")

pytestmark = pytest.mark.req("U-3")
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = moto.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def store(endpoint: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> tuple[Bucket, Any]:
    """A bucket of the test's own, with an object lock."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    place = Bucket(f"b{abs(hash(request.node.name)):x}"[:40], "log", endpoint, "eu-north-1")
    client = boto3.client("s3", endpoint_url=endpoint, region_name="eu-north-1")
    client.create_bucket(Bucket=place.name, ObjectLockEnabledForBucket=True,
                         CreateBucketConfiguration={"LocationConstraint": "eu-north-1"})
    return place, client


def line(size: int, root: str = "ab", tenant: str = "default") -> bytes:
    return checkpoint_line(sign_checkpoint(KEY, origin_of("gw_1", tenant), size, bytes.fromhex(root * 32)))


def test_stored_checkpoints_are_returned_in_order_and_by_tenant(store: tuple[Bucket, Any]) -> None:
    sink = LockedCheckpoints(store[0], ManualClock())
    for size in (9, 10, 256):
        sink.append("default", line(size))
    sink.append("a/b", line(1, tenant="a/b"))
    assert sink.lines("default") == [line(9), line(10), line(256)]
    assert sink.tenants() == ["a/b", "default"]
    assert sink.lines("nobody") == []


def test_the_store_locks_each_for_its_days_against_deletion(store: tuple[Bucket, Any]) -> None:
    place, client = store
    LockedCheckpoints(place, ManualClock(), 7).append("default", line(1))
    (kept,) = client.list_object_versions(Bucket=place.name)["Versions"]
    lock = client.head_object(Bucket=place.name, Key=kept["Key"], VersionId=kept["VersionId"])
    assert lock["ObjectLockMode"] == "COMPLIANCE"
    assert lock["ObjectLockRetainUntilDate"].timestamp() * 1000 == ManualClock().now_ms() + 7 * 86_400_000
    with pytest.raises(ClientError, match="AccessDenied"):
        client.delete_object(Bucket=place.name, Key=kept["Key"], VersionId=kept["VersionId"])


def test_a_repeated_checkpoint_is_stored_once_and_a_different_one_refused(store: tuple[Bucket, Any]) -> None:
    sink = LockedCheckpoints(store[0], ManualClock())
    sink.append("default", line(5))
    sink.append("default", line(5))
    with pytest.raises(OSError, match="another checkpoint"):
        sink.append("default", line(5, "cd"))
    assert sink.lines("default") == [line(5)]


@pytest.mark.req("U-3")
def test_the_newest_of_each_copy_is_named_and_the_bucket_listed_only_beyond_them(
    store: tuple[Bucket, Any], tmp_path: Path
) -> None:
    locked, near = LockedCheckpoints(store[0], ManualClock()), CheckpointFiles(tmp_path)
    both = Both(locked, near)
    assert both.newest("default", -1) == []
    for size in (0, 9, 256):
        both.append("default", line(size))
    assert locked.newest("default", -1) == [line(256)]
    assert locked.newest("default", 9) == [line(256)]
    assert locked.newest("default", 256) == []
    assert both.newest("default", 9) == [line(256)], "the bucket has no later one than the file"
    older = near.path("default").read_bytes().splitlines(keepends=True)[:2]
    near.path("default").write_bytes(b"".join(older))
    assert both.newest("default", 9) == [line(9), line(256)], "and cannot be rolled back with it"
    near.path("default").unlink()
    assert both.newest("default", -1) == [line(256)]


def test_a_missing_bucket_is_reported_in_one_sentence(store: tuple[Bucket, Any]) -> None:
    sink = LockedCheckpoints(store[0]._replace(name="nowhere"), ManualClock())
    with pytest.raises(OSError, match="bucket nowhere did not take or give a checkpoint: NoSuchBucket"):
        sink.append("default", line(1))
    with pytest.raises(OSError, match="NoSuchBucket"):
        sink.lines("default")


def test_the_store_has_every_checkpoint_of_the_file_and_replaces_a_lost_file(
    store: tuple[Bucket, Any], tmp_path: Path
) -> None:
    near = CheckpointFiles(tmp_path)
    with pytest.raises(OSError, match="nowhere"):
        Both(LockedCheckpoints(store[0]._replace(name="nowhere"), ManualClock()), near).append("default", line(1))
    assert near.lines("default") == []
    both = Both(LockedCheckpoints(store[0], ManualClock()), near)
    both.append("default", line(1))
    assert near.lines("default") == both.lines("default") == [line(1)]
    near.path("default").unlink()
    assert both.lines("default") == [line(1)]
    assert both.tenants() == ["default"]
