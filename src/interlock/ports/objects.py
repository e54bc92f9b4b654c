"""Objects: bytes that are too large for a row, kept once under their SHA-256."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import NamedTuple, Protocol


class StoredObject(NamedTuple):
    """An object that is kept: its name, SHA-256 in hex, and its size in bytes."""

    sha256: str
    size: int


class ObjectsError(Exception):
    """The store could not do it, and nothing of the call took effect; the text is one sentence for the user."""


class ObjectMissing(ObjectsError):
    """There is no object of this name."""


class ObjectDamaged(ObjectsError):
    """What is kept under this name is not what was put there."""


class ObjectTooLarge(ObjectsError):
    """More bytes than an object may have (MAX_OBJECT_BYTES)."""


class Objects(Protocol):
    """Guarantees: once `put` returned, the object survives kill -9 and power loss; until then no one sees it. The same
    bytes put twice, also at the same time, are one object. What `read` gives is what was put, or it raises: it is
    checked against its name. Memory does not grow with an object's size beyond its parts.
    """

    async def put(self, parts: Iterable[bytes]) -> StoredObject:
        """Keep the parts, joined. Raises ObjectTooLarge, and ObjectsError where the store cannot take it."""
        ...

    def read(self, sha256: str) -> AsyncIterator[bytes]:
        """Yield an object in pieces, in order. Raises ObjectMissing before the first piece, ObjectDamaged before the
        end: until then what came must not be believed."""
        ...

    async def size(self, sha256: str) -> int | None:
        """Its size in bytes, None where there is none."""
        ...

    async def drop(self, sha256: str) -> None:
        """Forget an object; one that is not there stays so."""
        ...

    async def old(self, before_ms: int) -> list[str]:
        """Objects that were last put before an instant of the wall clock."""
        ...

    async def drop_old(self, sha256: str, before_ms: int) -> bool:
        """Forget an object unless it was put again since; returns whether it did. Raises ObjectsError."""
        ...

    async def names(self) -> list[str]:
        """Every object there is, in no order."""
        ...
