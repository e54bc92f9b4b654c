"""Read /proc of one process; numbers are reused, so a process is identified by its start time as well (H-16)."""

# Imported by the supervisor, which must start quickly: no pathlib.
# ruff: noqa: PTH115, PTH123
from __future__ import annotations

import errno
import os


def parent_and_start(pid: int) -> tuple[int, int]:
    """Return a process's parent and its start time, in ticks since the host's start. Raises OSError."""
    with open(f"/proc/{pid}/stat", "rb", buffering=0) as stat:
        found = stat.read(2048).rpartition(b")")[2].split()
    return int(found[1]), int(found[19])


def began(pid: int) -> int:
    """Return a process's start time, in ticks since the host's start. Raises OSError."""
    return parent_and_start(pid)[1]


def group_of(tid: int) -> int:
    """Return the process that a thread belongs to. Raises OSError."""
    with open(f"/proc/{tid}/status", "rb", buffering=0) as status:
        for line in status.read(4096).split(b"\n"):
            if line.startswith(b"Tgid:"):
                return int(line[5:])
    raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))


def path_of(pid: int) -> bytes:
    """Return the file that a process runs; a placeholder text if it is gone."""
    try:
        return os.readlink(f"/proc/{pid}/exe".encode())
    except OSError:
        return b"a program that is gone"
