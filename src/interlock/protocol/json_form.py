"""The form of JSON that is passed on unread. Pure.

`msgspec.Raw` members are skipped, not read: their text may be other bytes than UTF-8, and they may be nested so deeply
that a later reader, whose stack is fuller, fails on them. What enters with such a member is therefore checked as bytes.
"""

from __future__ import annotations

import re
from itertools import accumulate

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
"""A step down, and a step up as a signed byte."""
_OTHERS = bytes(set(range(256)) - set(b"[]{}"))


def fault_of(raw: bytes, max_depth: int) -> str | None:
    """Return what is wrong with well-formed JSON: it is not UTF-8, or is nested deeper than `max_depth` arrays and
    objects. None if nothing is."""
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        return f"is not UTF-8 at byte {error.start}"
    return f"is nested deeper than {max_depth} levels" if _deeper(raw, max_depth) else None


def _deeper(raw: bytes, levels: int) -> bool:
    if raw.count(b"[") + raw.count(b"{") <= levels:
        return False
    steps = _STRING.sub(b"", raw).translate(_STEPS, _OTHERS)
    return max(accumulate(memoryview(steps).cast("b")), default=0) > levels
