"""Objects: bytes that are too large for a row, stored once under their SHA-256."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import NamedTuple, Protocol


class StoredObject(NamedTuple):
    """A stored object: its name, SHA-256 in hex, and its size in bytes."""

    sha256: str
    size: int


class ObjectsError(Exception):
    """Raised if the store failed, and nothing of the call took effect; the text is one sentence for the user."""


class ObjectMissing(ObjectsError):
    """Raised if there is no object of this name."""


class ObjectDamaged(ObjectsError):
    """Raised if the bytes stored under this name do not match it."""


class ObjectTooLarge(ObjectsError):
    """Raised if an object exceeds MAX_OBJECT_BYTES."""


class Objects(Protocol):
    """Guarantees: once `put` has returned, the object survives kill -9 and power loss; until then it is invisible. The
    same bytes put twice, also at the same time, are one object. `read` returns what was put, or raises: the bytes are
    checked against the name. Memory does not grow with an object's size beyond its parts.
    """

    async def put(self, parts: Iterable[bytes]) -> StoredObject:
        """Store the parts, joined. Raises ObjectTooLarge, and ObjectsError if the store fails."""
        ...

    def read(self, sha256: str) -> AsyncIterator[bytes]:
        """Yield an object in pieces, in order. Raises ObjectMissing before the first piece, ObjectDamaged before the
        end: until then the pieces must not be trusted."""
        ...

    async def size(self, sha256: str) -> int | None:
        """Return its size in bytes; None if it does not exist."""
        ...

    async def drop(self, sha256: str) -> None:
        """Delete an object; does nothing if it does not exist."""
        ...

    async def old(self, before_ms: int) -> list[str]:
        """Return the objects that were last put before an instant of the wall clock."""
        ...

    async def drop_old(self, sha256: str, before_ms: int) -> bool:
        """Delete an object unless it was put again since; returns whether it did. Raises ObjectsError."""
        ...

    async def names(self) -> list[str]:
        """Return the names of all objects, in no particular order."""
        ...
