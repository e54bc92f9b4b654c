"""Files that lanes kept, read back whole (E-5)."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator

from interlock.ports.objects import ObjectDamaged, Objects
from interlock.protocol.records import FileRecord


async def whole(record: FileRecord, objects: Objects) -> AsyncIterator[bytes]:
    """A file in pieces. Raises ObjectMissing or ObjectDamaged before its end, where it is not what was kept."""
    digest = hashlib.sha256()
    for name in record.objects:
        async for piece in objects.read(name):
            digest.update(piece)
            yield piece
    if digest.hexdigest() != record.sha256:
        raise ObjectDamaged(f"The file {record.transfer_id} is damaged.")
