"""Random bytes for ids, read from the system a few kilobytes at a time."""

from __future__ import annotations

from threading import Lock

from interlock.ports.clock import Entropy

POOL_BYTES = 4_096
"""Bytes per read: enough for the ids of some hundred commands."""


class EntropyPool:
    """A source that returns each byte of its own source once, in order, from any thread.

    Each read of the system's randomness releases the interpreter lock, and a busy gateway waits for its ledger's thread
    to get it back. For ids; secrets are read from the system directly.
    """

    def __init__(self, source: Entropy) -> None:
        self._source = source
        self._pool = b""
        self._at = 0
        self._lock = Lock()

    def __call__(self, count: int, /) -> bytes:
        """Return `count` unpredictable bytes."""
        if count > POOL_BYTES:
            return self._source(count)
        with self._lock:
            if self._at + count > len(self._pool):
                self._pool, self._at = self._source(POOL_BYTES), 0
            begin, self._at = self._at, self._at + count
            return self._pool[begin:self._at]
