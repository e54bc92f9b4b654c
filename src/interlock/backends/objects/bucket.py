"""Objects in a bucket of an S3-compatible store, for gateways that share them: `PREFIX/ab/abcd…/COPY`.

Every put writes a copy under a name of its own, then removes the copies that the store reports as older. So removing
old copies never removes one that was put again meanwhile, without a lock shared by several gateways.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from datetime import datetime
from typing import IO, Any, NamedTuple

from interlock.backends.bucket import Bucket, Failure, code_of, connect
from interlock.ports.clock import Entropy
from interlock.ports.objects import ObjectDamaged, ObjectMissing, ObjectsError, ObjectTooLarge, StoredObject
from interlock.protocol.limits import KIB, MAX_OBJECT_BYTES, OBJECT_READ_BYTES

SPOOL_BYTES = 256 * KIB
"""Memory of a put while it counts and hashes; the rest of an object is in a temporary file."""
READ_ATTEMPTS = 3
"""A copy may be removed between the look-up and the read, if its object is put again: then the newer one is read."""
_NAME = re.compile(r"[0-9a-f]{64}")
_MISSING = {"NoSuchKey", "404"}


class _Copy(NamedTuple):
    """A copy; they sort by the store's time of the put."""

    put_at: datetime
    key: str
    size: int


class BucketObjects:
    """The objects of a bucket; see `ports.objects.Objects`. The store is called in threads; `put` returns when the
    store has answered."""

    def __init__(self, bucket: Bucket, entropy: Entropy, *, limit_bytes: int = MAX_OBJECT_BYTES) -> None:
        """Create the store's client, without a request. Raises if botocore's own settings are incomplete."""
        self._bucket = bucket
        self._entropy = entropy
        self._limit_bytes = limit_bytes
        self._store = connect(bucket)

    async def put(self, parts: Iterable[bytes]) -> StoredObject:
        """Count and hash, then send the whole to the store, which checks it against the digest."""
        return await self._ask("cannot be kept", self._put, parts)

    def _put(self, parts: Iterable[bytes]) -> StoredObject:
        with tempfile.SpooledTemporaryFile(SPOOL_BYTES) as whole:
            digest, size = hashlib.sha256(), 0
            for part in parts:
                size += len(part)
                if size > self._limit_bytes:
                    raise ObjectTooLarge(f"An object has at most {self._limit_bytes} bytes.")
                digest.update(part)
                whole.write(part)
            whole.seek(0)
            kept = StoredObject(digest.hexdigest(), size)
            self._hand_over(kept, whole)
        return kept

    def _hand_over(self, kept: StoredObject, whole: IO[bytes]) -> None:
        key = f"{self._folder(kept.sha256)}{self._entropy(16).hex()}"
        self._store.put_object(Bucket=self._bucket.name, Key=key, Body=whole, ContentLength=kept.size,
                               ChecksumAlgorithm="SHA256", ContentType="application/octet-stream")
        copies = self._copies(kept.sha256)
        own = next((copy for copy in copies if copy.key == key), None)
        if own is None:  # Another put of the same bytes has removed it: that one is newer, and exists.
            return
        for copy in copies:
            if copy < own:
                self._remove(copy)

    async def read(self, sha256: str) -> AsyncIterator[bytes]:
        """Read in pieces of OBJECT_READ_BYTES; the last piece of a damaged object is not yielded."""
        size, body = await self._ask("cannot be read", self._open, sha256)
        digest, seen = hashlib.sha256(), 0
        try:
            while piece := await self._ask("cannot be read", body.read, OBJECT_READ_BYTES):
                digest.update(piece)
                seen += len(piece)
                if seen >= size and digest.hexdigest() != sha256:
                    break
                yield piece
        finally:
            body.close()
        if digest.hexdigest() != sha256:
            raise ObjectDamaged(f"The object {sha256} is damaged: its bytes are not those that were kept.")

    def _open(self, sha256: str) -> tuple[int, Any]:
        for _ in range(READ_ATTEMPTS):
            copies = self._copies(sha256)
            if not copies:
                break
            try:
                found = self._store.get_object(Bucket=self._bucket.name, Key=max(copies).key)
            except Failure as error:
                if code_of(error) in _MISSING:
                    continue
                raise
            return int(found["ContentLength"]), found["Body"]
        raise ObjectMissing(f"There is no object {sha256}.")

    async def size(self, sha256: str) -> int | None:
        """Return the size of its copies, which are all equal."""
        copies = await self._ask("cannot be looked at", self._copies, sha256)
        return copies[0].size if copies else None

    async def drop(self, sha256: str) -> None:
        """Remove every copy."""
        await self._ask("cannot be removed", lambda: [self._remove(copy) for copy in self._copies(sha256)])

    async def old(self, before_ms: int) -> list[str]:
        """Return those of which every copy is older, by the store's own clock."""
        def look() -> list[str]:
            newest: dict[str, datetime] = {}
            for name, copy in self._all():
                newest[name] = max(newest.get(name, copy.put_at), copy.put_at)
            return [name for name, put_at in newest.items() if _ms(put_at) < before_ms]

        return await self._ask("cannot be listed", look)

    async def drop_old(self, sha256: str, before_ms: int) -> bool:
        """Remove the copies that are older; one that is put meanwhile is another, and stays."""
        def remove() -> bool:
            copies = self._copies(sha256)
            old = [copy for copy in copies if _ms(copy.put_at) < before_ms]
            for copy in old:
                self._remove(copy)
            return len(old) == len(copies)

        return await self._ask("cannot be removed", remove)

    async def names(self) -> list[str]:
        """List the bucket, page by page."""
        return await self._ask("cannot be listed", lambda: sorted({name for name, _ in self._all()}))

    async def _ask(self, what: str, call: Callable[..., Any], *words: Any) -> Any:
        """Call the store in a thread; its failures become one sentence."""
        try:
            return await asyncio.to_thread(call, *words)
        except ObjectsError:
            raise
        except (*Failure, OSError) as error:
            raise ObjectsError(f"An object {what} in the bucket {self._bucket.name}: {code_of(error) or error}"
                               ) from error

    def _copies(self, sha256: str) -> list[_Copy]:
        if not _NAME.fullmatch(sha256):
            return []  # A name that could lead elsewhere leads nowhere.
        return list(self._list(self._folder(sha256)))

    def _all(self) -> Iterator[tuple[str, _Copy]]:
        root = f"{self._bucket.prefix}/"
        for copy in self._list(root):
            name = copy.key.removeprefix(root).split("/")[1:2]
            if name and _NAME.fullmatch(name[0]):
                yield name[0], copy

    def _list(self, folder: str) -> Iterator[_Copy]:
        pages = self._store.get_paginator("list_objects_v2").paginate(Bucket=self._bucket.name, Prefix=folder)
        for page in pages:
            for entry in page.get("Contents", ()):
                yield _Copy(entry["LastModified"], str(entry["Key"]), int(entry["Size"]))

    def _remove(self, copy: _Copy) -> None:
        self._store.delete_object(Bucket=self._bucket.name, Key=copy.key)

    def _folder(self, sha256: str) -> str:
        return f"{self._bucket.prefix}/{sha256[:2]}/{sha256}/"


def _ms(at: datetime) -> float:
    return at.timestamp() * 1000
