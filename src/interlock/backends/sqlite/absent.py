"""Knows of most keys at once that the ledger does not have them: nearly every command comes under a key of its own.

A Bloom filter: what was ever added is never called absent; of what was not, one in hundreds is looked up in vain.
"""

from __future__ import annotations

KEYS = 1_000_000
"""Keys that one part holds at that rate; then another one is begun."""
BIT_NUMBER = 24
"""Bits of a bit's number: a part takes 2 MB."""
PROBES = 4


class Absent:
    """One thread adds; any may ask."""

    def __init__(self) -> None:
        self._parts = [_part()]
        self._count = 0

    def add(self, key: str) -> None:
        """Add a key, which is never reported absent again."""
        if self._count >= KEYS:
            self._parts = [*self._parts, _part()]
            self._count = 0
        self._count += 1
        part = self._parts[-1]
        for bit in _bits(key):
            part[bit >> 3] |= 1 << (bit & 7)

    def __contains__(self, key: str) -> bool:
        """Whether the key was certainly never added."""
        bits = _bits(key)
        for part in self._parts:
            for bit in bits:
                if not part[bit >> 3] & (1 << (bit & 7)):
                    break
            else:
                return False
        return True


def _part() -> bytearray:
    return bytearray(1 << (BIT_NUMBER - 3))


def _bits(key: str) -> list[int]:
    # The two halves of one hash make as many as are wanted.
    whole, mask = hash(key), (1 << BIT_NUMBER) - 1
    start, step = whole & mask, whole >> 32 | 1
    return [(start + probe * step) & mask for probe in range(PROBES)]
