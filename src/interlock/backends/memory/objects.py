"""Objects in a dict: not durable, otherwise as on a disk."""

from __future__ import annotations

import hashlib
import time
from collections.abc import AsyncIterator, Callable, Iterable

from interlock.ports.objects import ObjectMissing, ObjectTooLarge, StoredObject
from interlock.protocol.limits import MAX_OBJECT_BYTES, OBJECT_READ_BYTES


class MemoryObjects:
    """See `ports.objects.Objects`."""

    def __init__(self, *, limit_bytes: int = MAX_OBJECT_BYTES,
                 now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._now_ms = now_ms
        self._limit_bytes = limit_bytes
        self._objects: dict[str, bytes] = {}
        self._put_ms: dict[str, int] = {}

    async def put(self, parts: Iterable[bytes]) -> StoredObject:
        """Keep them."""
        whole = bytearray()
        for part in parts:
            whole += part
            if len(whole) > self._limit_bytes:
                raise ObjectTooLarge(f"An object has at most {self._limit_bytes} bytes.")
        kept = StoredObject(hashlib.sha256(whole).hexdigest(), len(whole))
        self._objects[kept.sha256] = bytes(whole)
        self._put_ms[kept.sha256] = self._now_ms()
        return kept

    async def read(self, sha256: str) -> AsyncIterator[bytes]:
        """Yield it in pieces, as a disk does."""
        whole = self._objects.get(sha256)
        if whole is None:
            raise ObjectMissing(f"There is no object {sha256}.")
        for at in range(0, len(whole), OBJECT_READ_BYTES):
            yield whole[at : at + OBJECT_READ_BYTES]

    async def size(self, sha256: str) -> int | None:
        """Count."""
        whole = self._objects.get(sha256)
        return None if whole is None else len(whole)

    async def drop(self, sha256: str) -> None:
        """Forget."""
        self._objects.pop(sha256, None)

    async def old(self, before_ms: int) -> list[str]:
        """List those."""
        return [name for name in self._objects if self._put_ms[name] < before_ms]

    async def drop_old(self, sha256: str, before_ms: int) -> bool:
        """Forget one of those."""
        return self._put_ms.get(sha256, before_ms) < before_ms and self._objects.pop(sha256, None) is not None

    async def names(self) -> list[str]:
        """List."""
        return list(self._objects)
