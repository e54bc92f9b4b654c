"""Opaque cursors: a position in one list or stream, with a check that it belongs there (S-1)."""

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
"""Cached streams, the most recently used ones."""
_NUMBERED = re.compile("([0-9a-f]{8})(0|[1-9][0-9]{0,18})")


def cursor(scope: str, value: str | int) -> str:
    """Return a cursor for `value` (a number or an id) in `scope` (a stream or a list)."""
    text = str(value)
    raw = f"{_check(scope, text)}{text}".encode()
    return binascii.b2a_base64(raw, newline=False).translate(_URL_SAFE).rstrip(b"=").decode()


@lru_cache(STREAMS_KEPT)
def lead(stream: str) -> str:
    """Return the prefix of every cursor of a stream, so that a replay writes thousands of them quickly."""
    return hashlib.sha256(stream.encode()).hexdigest()[:8]


def stream_cursor(stream: str, number: int) -> str:
    """Return the cursor for a position in a stream."""
    return f"{lead(stream)}{number}"


def place(scope: str, text: str, name: str = "since") -> str:
    """Parse a result of `cursor`. Raises Problem InvalidPayload for anything else, including another scope's cursor."""
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode() if len(text) <= CURSOR_MAX_CHARS else ""
    except (binascii.Error, ValueError):
        raw = ""
    check, value = raw[:8], raw[8:]
    # One form only: a cursor that decodes but would be encoded differently was not issued here.
    if not value or check != _check(scope, value) or cursor(scope, value) != text:
        raise Problem("InvalidPayload", "The cursor is malformed, or belongs to another stream.",
                      errors=(Place(name, "not a cursor of this stream"),),
                      hint="Use `next_cursor` or an SSE id as it was returned, or leave it out to begin at the start.")
    return value


def number(stream: str, text: str, name: str = "since") -> int:
    """Parse a result of `stream_cursor`, or of `cursor` for a stream by an earlier version. Raises Problem."""
    found = _NUMBERED.fullmatch(text)
    if found is not None and found[1] == lead(stream):
        return int(found[2])
    return int(place(stream, text, name))


def _check(scope: str, value: str) -> str:
    return hashlib.sha256(f"{scope}\n{value}".encode()).hexdigest()[:8]
