"""Parsing of a transcript's line as JSON, whatever program wrote it (X-4). Pure.

JavaScript writes half of a surrogate pair as an escape, and nests without limit; both are JSON, and neither can be
decoded and encoded again here. Such a line is read with U+FFFD for the half, and with a mark for what nests too deeply.
The line itself stays as it is.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from interlock.protocol.limits import MAX_JSON_DEPTH

BOM = b"\xef\xbb\xbf"
NO_JSON = object()
"""The value of a line that is not JSON."""
TOO_DEEP = "(nested too deep to be read here)"

_decode = msgspec.json.Decoder().decode
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL)
"""An escape; a group if it is half of a surrogate pair. Two backslashes are one escape."""
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[{]|[\]}]', re.DOTALL)
"""A string, complete or broken off, or a bracket. Each byte is scanned once."""


def value_of(line: bytes) -> Any:
    """Parse a line as JSON; NO_JSON if it is not."""
    try:
        return _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    line = legible(line)
    try:
        return _decode(line)
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        return _decode(_shallow(line))
    except (msgspec.DecodeError, RecursionError):
        return NO_JSON


def legible(line: bytes) -> bytes:
    """Replace what is not text: bytes that are not UTF-8 and halves of surrogate pairs become U+FFFD. A byte order mark
    is removed. A line in which nothing is replaced is the same bytes."""
    line = line.removeprefix(BOM)
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        line = line.decode("utf-8", "replace").encode()
    return _ESCAPE.sub(_whole, line) if has_halves(line) else line


def has_halves(line: bytes) -> bool:
    """Return whether half of a surrogate pair is escaped in the line."""
    if b"\\ud" not in line and b"\\uD" not in line:
        return False
    return any(found[1] is not None for found in _ESCAPE.finditer(line))


def nests_too_deep(line: bytes) -> bool:
    """Return whether a line is read with a mark for what nests too deeply."""
    if line.count(b"[") + line.count(b"{") <= MAX_JSON_DEPTH:
        return False
    try:
        _decode(line)
    except RecursionError:
        return True
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    return False


def _whole(found: re.Match[bytes]) -> bytes:
    return found[0] if found[1] is None else b"\\ufffd"


def _shallow(line: bytes) -> bytes:
    """Replace each value that nests deeper than MAX_JSON_DEPTH by a mark."""
    kept: list[bytes] = []
    depth = at = 0
    for token in _TOKEN.finditer(line):
        if token[0] in (b"{", b"["):
            depth += 1
            if depth == MAX_JSON_DEPTH + 1:
                kept += [line[at:token.start()], b'"', TOO_DEEP.encode(), b'"']
        elif token[0] in (b"}", b"]"):
            if depth == MAX_JSON_DEPTH + 1:
                at = token.end()
            depth -= 1
    return b"".join([*kept, line[at:]]) if depth <= MAX_JSON_DEPTH else line
