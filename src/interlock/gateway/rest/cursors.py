"""Opaque cursors: a place in one list or stream, with a check that it belongs there (S-1)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from functools import lru_cache

from interlock.protocol.limits import CURSOR_MAX_CHARS
from interlock.protocol.problems import Place, Problem

_URL_SAFE = bytes.maketrans(b"+/", b"-_")
STREAMS_KEPT = 1_024
"""Streams whose cursors were written last."""
_NUMBERED = re.compile("([0-9a-f]{8})(0|[1-9][0-9]{0,18})")


def cursor(scope: str, value: str | int) -> str:
    """Write a cursor for `value` (a number or an id) in `scope` (a stream or a list)."""
    text = str(value)
    raw = f"{_check(scope, text)}{text}".encode()
    return binascii.b2a_base64(raw, newline=False).translate(_URL_SAFE).rstrip(b"=").decode()


@lru_cache(STREAMS_KEPT)
def lead(stream: str) -> str:
    """What stands before the number in every cursor of a stream. So a replay writes thousands of them in no time."""
    return hashlib.sha256(stream.encode()).hexdigest()[:8]


def stream_cursor(stream: str, number: int) -> str:
    """Write the cursor for a place in a stream."""
    return f"{lead(stream)}{number}"


def place(scope: str, text: str, name: str = "since") -> str:
    """Read what `cursor` wrote. Raises Problem InvalidPayload for anything else, another scope's cursor included."""
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode() if len(text) <= CURSOR_MAX_CHARS else ""
    except (binascii.Error, ValueError):
        raw = ""
    check, value = raw[:8], raw[8:]
    # One form only: a cursor that decodes but would be written otherwise was not given out here.
    if not value or check != _check(scope, value) or cursor(scope, value) != text:
        raise Problem("InvalidPayload", "The cursor is malformed, or belongs to another stream.",
                      errors=(Place(name, "not a cursor of this stream"),),
                      hint="Use `next_cursor` or an SSE id as it was given, or leave it out to begin at the start.")
    return value


def number(stream: str, text: str, name: str = "since") -> int:
    """Read what `stream_cursor` wrote, or what `cursor` gave out for a stream in its place before. Raises Problem."""
    found = _NUMBERED.fullmatch(text)
    if found is not None and found[1] == lead(stream):
        return int(found[2])
    return int(place(stream, text, name))


def _check(scope: str, value: str) -> str:
    return hashlib.sha256(f"{scope}\n{value}".encode()).hexdigest()[:8]
