"""One gateway per state directory (N-2): a lock that the kernel releases when its holder dies."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

LOCK_NAME = "gateway.lock"
PROBES_MAX = 200
PROBE_S = 0.005
"""A verb that looks whether the lock is held shares it for an instant: that is waited for, at most so often."""


class AlreadyRunning(Exception):
    """Raised if another gateway uses this state directory."""


class StateLock:
    """The lock, held until `release` or the end of the process. It names its holder's process id for people."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        """Release the lock. May be called again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def lock_state(state: Path) -> StateLock:
    """Acquire the lock of a state directory, without waiting. Raises AlreadyRunning, OSError.

    The file stays when the lock is released: removing it would let two gateways lock two files of the same name.
    """
    path = state / LOCK_NAME
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        lock_exclusively(descriptor)
    except BlockingIOError:
        holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
        os.close(descriptor)
        who = f" (process {holder})" if holder else ""
        raise AlreadyRunning(f"A gateway{who} already works on {state}; stop it, or use another state directory "
                             "(--state).") from None
    except OSError:
        os.close(descriptor)
        raise
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return StateLock(descriptor)


def lock_exclusively(descriptor: int) -> None:
    """Lock a file for this process alone. Raises BlockingIOError if another process has it so, OSError."""
    for _ in range(PROBES_MAX):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # Refused if it is not a probe.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            time.sleep(PROBE_S)
        else:
            return
    raise BlockingIOError
