"""How many records a gateway may leave behind its last checkpoint, and how far apart their times may lie (U-3).

No signature covers these records, so anybody who can write the log could have added them. A gateway signs before the
tail outgrows either bound, so a longer one was not left by a gateway.
"""

from __future__ import annotations

from collections.abc import Sequence

from interlock.protocol.clock import parse_iso
from interlock.protocol.limits import UNSIGNED_RECORDS_MAX, UNSIGNED_SPAN_MS_MAX


def overrun(signed: int, count: int, times: Sequence[str]) -> tuple[int, str] | None:
    """Find the first record that a gateway would not have left unsigned: (its number, a sentence), None if all may be.

    `signed` records are covered by the checkpoint, `count` there are; `times` are the `at` of the records behind it.
    """
    if count - signed > UNSIGNED_RECORDS_MAX:
        return signed + UNSIGNED_RECORDS_MAX + 1, (
            f"{count - signed} records follow record {signed}, the last one that was signed, and a gateway leaves at "
            f"most {UNSIGNED_RECORDS_MAX} unsigned: they were added, or the checkpoints since were removed.")
    span = _too_far_apart(times)
    return None if span is None else (signed + 1 + span[0], span[1])


def _too_far_apart(times: Sequence[str]) -> tuple[int, str] | None:
    """Find the first time that is too far from one before it, or unreadable: (its index, a sentence)."""
    earliest = latest = None
    for index, text in enumerate(times):
        try:
            at_ms = parse_iso(text)
        except (ValueError, OverflowError):
            return index, f"An unsigned record has no readable time ({text[:40]!r}): a gateway did not write it."
        earliest = at_ms if earliest is None else min(earliest, at_ms)
        latest = at_ms if latest is None else max(latest, at_ms)
        if latest - earliest > UNSIGNED_SPAN_MS_MAX:
            return index, (f"The unsigned records up to this one span {(latest - earliest) // 1000} s, and a gateway "
                           f"signs what is older than {UNSIGNED_SPAN_MS_MAX // 1000} s: it could not sign, or they "
                           "were added.")
    return None
