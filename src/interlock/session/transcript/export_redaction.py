"""Redaction of an exported transcript: what people and tools wrote is redacted, and nothing that names or orders (K-4).

Pure. A line in which nothing is redacted is unchanged, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, cast

import msgspec

from interlock.session.transcript.line_json import NO_JSON, value_of

Redact = Callable[[str], str]

STRUCTURE = frozenset({
    "type", "id", "role", "api", "provider", "model", "modelId", "stopReason", "toolCallId", "toolName", "name",
    "parentId", "timestamp", "mimeType", "customType", "firstKeptEntryId", "targetId", "fromId", "parentSession",
    "version", "thinkingSignature", "textSignature",
})
"""Fields of entries, messages and parts that name, order or count: they stay, so that the tree stays valid."""
SPEECH = frozenset({"arguments", "details", "data"})
"""Fields whose members are an agent's or a tool's own words, whatever their names."""


class Leaving(NamedTuple):
    """The lines of an export, and the number of lines in which something was redacted."""

    lines: list[bytes]
    redacted: int


def leaving(lines: Iterable[bytes], redact: Redact) -> Leaving:
    """Redact a file's lines, including the header."""
    before = list(lines)
    after = [_line(line, redact) for line in before]
    return Leaving(after, sum(one != other for one, other in zip(before, after, strict=True)))


def _line(line: bytes, redact: Redact) -> bytes:
    entry = value_of(line)
    if entry is NO_JSON:
        return _text(line, redact)  # A damaged line is text, too.
    after = _value(entry, redact, all_of_it=False)
    return line if after == entry else msgspec.json.encode(after)


def _text(line: bytes, redact: Redact) -> bytes:
    text = line.decode("utf-8", "surrogateescape")
    if not text.isprintable():
        text = line.decode("utf-8", "replace")
    after = redact(text)
    return line if after == text else after.encode("utf-8", "replace")


def _value(value: Any, redact: Redact, *, all_of_it: bool) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [_value(one, redact, all_of_it=all_of_it) for one in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    members = cast("dict[str, Any]", value)
    picture = members.get("type") == "image"
    return {redact(name) if all_of_it else name: _member(name, member, redact, all_of_it=all_of_it, picture=picture)
            for name, member in members.items()}


def _member(name: str, member: Any, redact: Redact, *, all_of_it: bool, picture: bool) -> Any:
    if picture and name == "data":
        return member  # Base64: it contains no text, and a redaction would corrupt it.
    if not all_of_it and name in STRUCTURE:
        return member
    return _value(member, redact, all_of_it=all_of_it or name in SPEECH)
