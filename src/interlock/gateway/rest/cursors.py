"""Opaque cursors: a place in one list or stream, with a check that it belongs there (S-1)."""

from __future__ import annotations

import base64
import binascii
import hashlib

from interlock.protocol.problems import Place, Problem

_URL_SAFE = bytes.maketrans(b"+/", b"-_")
CURSOR_CHARS = 512
"""A longer cursor is malformed."""


def cursor(scope: str, value: str | int) -> str:
    """Write a cursor for `value` (a number or an id) in `scope` (a stream or a list)."""
    text = str(value)
    raw = f"{_check(scope, text)}{text}".encode()
    return binascii.b2a_base64(raw, newline=False).translate(_URL_SAFE).rstrip(b"=").decode()


def place(scope: str, text: str, name: str = "since") -> str:
    """Read what `cursor` wrote. Raises Problem InvalidPayload for anything else, another scope's cursor included."""
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode() if len(text) <= CURSOR_CHARS else ""
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
    """Read a stream's cursor. Raises Problem."""
    return int(place(stream, text, name))


def _check(scope: str, value: str) -> str:
    return hashlib.sha256(f"{scope}\n{value}".encode()).hexdigest()[:8]
