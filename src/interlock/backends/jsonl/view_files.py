"""`sessions.json` on disk: written completely, read back if another program wrote it, set aside if it is not a view
(N-1).

Beside the file is a copy of what was last written, which an edited text is compared with: so an edit made while no
gateway ran is also found. Everything here blocks.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from interlock.durable_files import create_file, sync_directory
from interlock.session.store.store_view import VIEW_MAX_BYTES

NAME = "sessions.json"
WRITTEN = ".sessions.json.written"
"""What was last written, or last read: an edited text is compared with it."""
ASIDE_NAMES = 100
"""Texts that may be set aside within one second."""


class ViewUnreadable(Exception):
    """Raised if the file is not a readable text: one sentence without its full stop."""


class FileVersion(NamedTuple):
    """Distinguishes states of a file."""

    inode: int
    size: int
    changed_ns: int


class ViewFile:
    """The view of one agent, in the directory of its sessions."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / NAME
        self._written = directory / WRITTEN
        self._draft = directory / f".{NAME}.new"
        self._copy = directory / f"{WRITTEN}.new"

    def look(self) -> FileVersion | None:
        """Return the current version; None if there is no file. A link itself is examined, not its target."""
        try:
            found = self.path.lstat()
        except OSError:
            return None
        return FileVersion(found.st_ino, found.st_size, found.st_mtime_ns)

    def read(self) -> bytes:
        """Read the file. Raises ViewUnreadable for what is not a plain file, or too large; FileNotFoundError."""
        return _read(self.path)

    def last(self) -> list[bytes]:
        """Return what was written last: one text, two if a crash interrupted the write, none if it is unknown."""
        found: list[bytes] = []
        for path in (self._copy, self._written):
            with suppress(OSError, ViewUnreadable):
                found.append(_read(path))
        return found

    def write(self, pieces: Iterable[bytes], known: FileVersion | None) -> FileVersion | None:
        """Replace the file atomically (temp file, fsync, rename, 0600). Returns None, without a change, if another
        program has written it since it was `known`. Raises OSError."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _fresh(self._draft) as draft, _fresh(self._copy) as copy:
            for piece in pieces:
                draft.write(piece)
                copy.write(piece)
            for file in (draft, copy):
                file.flush()
                os.fsync(file.fileno())
        if self.look() != known:
            self._draft.unlink()
            self._copy.unlink()
            return None
        self._draft.replace(self.path)
        # A crash between the two leaves both copies, and `last` returns both.
        self._copy.replace(self._written)
        sync_directory(self.path.parent)
        return self.look()

    def take(self, text: bytes) -> None:
        """Store an edited text as the known one: its changes are not applied twice. Raises OSError."""
        with _fresh(self._copy) as copy:
            copy.write(text)
            copy.flush()
            os.fsync(copy.fileno())
        self._copy.replace(self._written)
        sync_directory(self.path.parent)

    def set_aside(self, at: str) -> Path:
        """Rename the file, without changing it. Raises OSError."""
        for number in range(ASIDE_NAMES):
            aside = self.path.with_name(f"{NAME}.bad-{at}" + (f"-{number}" if number else ""))
            if not os.path.lexists(aside):
                self.path.rename(aside)
                return aside
        raise FileExistsError(f"{ASIDE_NAMES} texts are set aside of {at} already")


def _fresh(path: Path) -> BinaryIO:
    path.unlink(missing_ok=True)
    return create_file(path)


def _read(path: Path) -> bytes:
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        raise ViewUnreadable("it is a link, and links are not followed")
    if not stat.S_ISREG(found.st_mode):
        raise ViewUnreadable("it is not a regular file")
    if found.st_size > VIEW_MAX_BYTES:
        raise ViewUnreadable(f"it is larger than {VIEW_MAX_BYTES} bytes")
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(fd, "rb") as file:
        return file.read(VIEW_MAX_BYTES + 1)
