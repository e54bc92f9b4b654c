"""Versions 1 and 2 of the format, converted to version 3 (X-2).

Version 1 is a list: entries have no id and no parent, each follows the previous one, and a compaction names the first
kept entry by its position among all lines, including the header. Version 2 has the tree; its `hookMessage` is called
`custom` since. New ids are derived from the text itself, so that one file reads the same every time.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, cast

import msgspec

from interlock.session.transcript.entries import ID_BYTES, VERSION
from interlock.session.transcript.line_json import BOM, value_of

_encode = msgspec.json.Encoder().encode


def version_of(header: dict[str, Any]) -> int:
    """Return the version that a header names; 1 if it names none."""
    version = header.get("version")
    return int(version) if isinstance(version, int | float) and not isinstance(version, bool) else 1


def upgraded(lines: Sequence[bytes]) -> list[bytes]:
    """Convert a file's lines to version 3. A line that is not JSON is kept unchanged, in its position."""
    values = [_object(line) for line in lines]
    whole = [value for value in values if value is not None]
    header = next((value for value in whole if value.get("type") == "session"), None)
    if header is None:
        return list(lines)
    if version_of(header) < 2:
        _as_tree(whole)
    for value in whole:
        message = value.get("message")
        if value.get("type") == "session":
            value["version"] = VERSION
        elif value.get("type") == "message" and isinstance(message, dict):
            fields = cast("dict[str, Any]", message)
            if fields.get("role") == "hookMessage":
                fields["role"] = "custom"
    return [line if value is None else _encode(value) for line, value in zip(lines, values, strict=True)]


def _as_tree(values: Sequence[dict[str, Any]]) -> None:
    """Give version 1's entries ids and parents, and its compactions the id of the first entry they keep."""
    before: str | None = None
    taken: set[str] = set()
    for number, value in enumerate(values):
        if value.get("type") == "session":
            continue
        entry_id = _name(number, value, taken)
        taken.add(entry_id)
        value["id"], value["parentId"], before = entry_id, before, entry_id
    for value in values:
        first = value.pop("firstKeptEntryIndex", None) if value.get("type") == "compaction" else None
        if isinstance(first, int) and 0 <= first < len(values) and values[first].get("type") != "session":
            value["firstKeptEntryId"] = values[first]["id"]


def _name(number: int, value: dict[str, Any], taken: set[str]) -> str:
    text = _encode(value)
    for attempt in range(len(taken) + 1):
        entry_id = blake2b(b"%d %d\n%b" % (number, attempt, text), digest_size=ID_BYTES).hexdigest()
        if entry_id not in taken:
            return entry_id
    raise AssertionError("more names were drawn than are taken")


def _object(line: bytes) -> dict[str, Any] | None:
    value = value_of(line.removeprefix(BOM))
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None
