"""Objects that have moved to another store: new ones are put there, earlier ones are found in the old one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

from interlock.ports.objects import Objects, StoredObject


class MovedObjects:
    """Objects in two stores; see `ports.objects.Objects`: puts go to `now`; `before` is still read and deleted from."""

    def __init__(self, now: Objects, before: Objects) -> None:
        self._now = now
        self._before = before

    async def put(self, parts: Iterable[bytes]) -> StoredObject:
        """Put into the current store."""
        return await self._now.put(parts)

    async def read(self, sha256: str) -> AsyncIterator[bytes]:
        """Read from the store that has it; the current one is tried first."""
        there = self._now if await self._now.size(sha256) is not None else self._before
        async for piece in there.read(sha256):
            yield piece

    async def size(self, sha256: str) -> int | None:
        """Try the current store, then the previous one."""
        size = await self._now.size(sha256)
        return size if size is not None else await self._before.size(sha256)

    async def drop(self, sha256: str) -> None:
        """Delete it in both."""
        await self._now.drop(sha256)
        await self._before.drop(sha256)

    async def old(self, before_ms: int) -> list[str]:
        """Return what is old wherever it is."""
        now, before = set(await self._now.old(before_ms)), set(await self._before.old(before_ms))
        young = (set(await self._now.names()) - now) | (set(await self._before.names()) - before)
        return sorted((now | before) - young)

    async def drop_old(self, sha256: str, before_ms: int) -> bool:
        """Delete it where it is old; returns whether neither store has it any more."""
        for store in (self._now, self._before):
            if await store.size(sha256) is not None and not await store.drop_old(sha256, before_ms):
                return False
        return True

    async def names(self) -> list[str]:
        """Return what either has."""
        return sorted({*await self._now.names(), *await self._before.names()})
