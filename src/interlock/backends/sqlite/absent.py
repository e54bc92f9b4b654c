"""A filter of keys that the ledger certainly does not have: nearly every command has a key of its own.

A Bloom filter: an added key is never reported absent; of the others, one in hundreds is looked up in vain.
"""

from __future__ import annotations

KEYS = 1_000_000
"""Keys that one part holds at that rate; then another one is added."""
BIT_NUMBER = 24
"""Bits of a bit's number: a part takes 2 MB."""
PROBES = 4


class Absent:
    """The filter. One thread adds; any may query."""

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
        """Return whether the key was certainly never added."""
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
    # The two halves of one hash generate as many as needed.
    whole, mask = hash(key), (1 << BIT_NUMBER) - 1
    start, step = whole & mask, whole >> 32 | 1
    return [(start + probe * step) & mask for probe in range(PROBES)]
