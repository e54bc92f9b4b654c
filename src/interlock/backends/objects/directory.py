"""Objects as files: `<root>/ab/abcd…`, written aside, flushed, then named."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import tempfile
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from threading import Lock
from typing import BinaryIO

from interlock.durable_files import sync_directory
from interlock.ports.objects import ObjectDamaged, ObjectMissing, ObjectsError, ObjectTooLarge, StoredObject
from interlock.protocol.limits import MAX_OBJECT_BYTES, OBJECT_READ_BYTES

_NAME = re.compile(r"[0-9a-f]{64}")
_DRAFT = "draft-"


class DirectoryObjects:
    """The objects of a directory; see `ports.objects.Objects`. One process owns the directory: incomplete files are
    deleted at its start.

    Files have mode 0600, directories 0700. Disk work is done in threads.
    """

    def __init__(self, root: Path, *, limit_bytes: int = MAX_OBJECT_BYTES) -> None:
        """Open the directory. Raises ObjectsError if it cannot be used."""
        self._root = root
        self._limit_bytes = limit_bytes
        self._naming = Lock()
        try:
            root.mkdir(parents=True, exist_ok=True, mode=0o700)
            for draft in root.glob(_DRAFT + "*"):
                draft.unlink()  # Its writer died before it was reported as stored.
        except OSError as error:
            raise ObjectsError(f"The objects in {root} cannot be used: {error.strerror}. Check who owns the "
                               "directory and that the disk has room.") from error

    async def put(self, parts: Iterable[bytes]) -> StoredObject:
        """Write aside, flush, name, flush the names."""
        return await asyncio.to_thread(self._put, parts)

    def _put(self, parts: Iterable[bytes]) -> StoredObject:
        try:
            fd, name = tempfile.mkstemp(prefix=_DRAFT, dir=self._root)
            try:
                kept = self._write(fd, parts)
                self._publish(Path(name), kept.sha256)
            finally:
                Path(name).unlink(missing_ok=True)
        except OSError as error:
            raise ObjectsError(f"An object cannot be written to {self._root}: {error.strerror}.") from error
        return kept

    def _write(self, fd: int, parts: Iterable[bytes]) -> StoredObject:
        digest, size = hashlib.sha256(), 0
        with os.fdopen(fd, "wb") as file:
            for part in parts:
                size += len(part)
                if size > self._limit_bytes:
                    raise ObjectTooLarge(f"An object has at most {self._limit_bytes} bytes.")
                digest.update(part)
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        return StoredObject(digest.hexdigest(), size)

    def _publish(self, draft: Path, sha256: str) -> None:
        place = self._place(sha256)
        place.parent.mkdir(exist_ok=True, mode=0o700)
        with self._naming:
            draft.replace(place)
        # The name, and the directory that may be new, are durable before this returns.
        for directory in (place.parent, self._root):
            sync_directory(directory)

    async def read(self, sha256: str) -> AsyncIterator[bytes]:
        """Read in pieces of OBJECT_READ_BYTES."""
        try:
            file = await asyncio.to_thread(self._open, sha256)
        except (FileNotFoundError, ValueError):
            raise ObjectMissing(f"There is no object {sha256}.") from None
        except OSError as error:
            raise ObjectsError(f"The object {sha256} cannot be read: {error.strerror}.") from error
        digest = hashlib.sha256()
        with file:
            while piece := await asyncio.to_thread(file.read, OBJECT_READ_BYTES):
                digest.update(piece)
                if file.tell() >= os.fstat(file.fileno()).st_size and digest.hexdigest() != sha256:
                    break  # The last piece of a damaged object is not yielded.
                yield piece
        if digest.hexdigest() != sha256:
            raise ObjectDamaged(f"The object {sha256} is damaged: its bytes are not those that were kept.")

    async def size(self, sha256: str) -> int | None:
        """Look at the file."""
        try:
            return (await asyncio.to_thread(self._place(sha256).stat)).st_size
        except (FileNotFoundError, ValueError):
            return None

    async def drop(self, sha256: str) -> None:
        """Remove the file."""
        try:
            await asyncio.to_thread(self._place(sha256).unlink, missing_ok=True)
        except ValueError:
            return
        except OSError as error:
            raise ObjectsError(f"The object {sha256} cannot be removed: {error.strerror}.") from error

    async def old(self, before_ms: int) -> list[str]:
        """Return objects by the times of their files: each put creates a new one."""
        return await asyncio.to_thread(lambda: [path.name for path in self._root.glob("??/*")
                                                if _NAME.fullmatch(path.name) and _put_ms(path) < before_ms])

    async def drop_old(self, sha256: str, before_ms: int) -> bool:
        """Remove the file, unless it was named again."""
        try:
            return await asyncio.to_thread(self._drop_old, self._place(sha256), before_ms)
        except OSError as error:
            raise ObjectsError(f"The object {sha256} cannot be removed: {error.strerror}.") from error

    def _drop_old(self, place: Path, before_ms: int) -> bool:
        with self._naming:
            if _put_ms(place) >= before_ms:
                return False
            place.unlink()
            return True

    async def names(self) -> list[str]:
        """List the files."""
        return await asyncio.to_thread(lambda: [path.name for path in self._root.glob("??/*")
                                                if _NAME.fullmatch(path.name)])

    def _open(self, sha256: str) -> BinaryIO:
        return self._place(sha256).open("rb")

    def _place(self, sha256: str) -> Path:
        """Return an object's path. Raises ValueError for a name that could lead elsewhere."""
        if not _NAME.fullmatch(sha256):
            raise ValueError(sha256)
        return self._root / sha256[:2] / sha256


def _put_ms(path: Path) -> float:
    """Return when it was put; a missing one counts as never old."""
    try:
        return path.stat().st_mtime_ns / 1_000_000
    except FileNotFoundError:
        return float("inf")
