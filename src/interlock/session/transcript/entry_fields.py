"""The fields that an entry of each type requires, as the programs that share the format read them (X-4). Pure.

pi throws when it opens a file with a `message` entry that has no message, or later in a turn, if the content of one is
not a list; what it never reads may be missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

BROKEN = "interlock.broken"
"""`customType` of the entry that a repair stores a broken one in: in the tree, never in context."""

Fits = Callable[[Any], bool]


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _parts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(part, dict) for part in cast("list[Any]", value))


def _content(value: Any) -> bool:
    return isinstance(value, str) or _parts(value)


_ENTRIES: dict[str, dict[str, Fits]] = {
    "custom_message": {"content": _content},
    "compaction": {"summary": _text, "firstKeptEntryId": _text, "tokensBefore": _number},
    "branch_summary": {"summary": _text},
    "model_change": {"provider": _text, "modelId": _text},
    "thinking_level_change": {"thinkingLevel": _text},
    "label": {"targetId": _text},
}
_MESSAGES: dict[str, dict[str, Fits]] = {
    "user": {"content": _content},
    "assistant": {"content": _parts},
    "toolResult": {"content": _parts, "toolCallId": _text, "toolName": _text},
    "custom": {"content": _content},
    "bashExecution": {"command": _text, "output": _text},
}


def broken_field(entry: dict[str, Any]) -> str | None:
    """Return the first field that an entry's type requires and that is missing or of another type, such as
    `message.content`; None for a valid entry, and for one of an unknown type."""
    kind = entry.get("type")
    if kind == "message":
        message = entry.get("message")
        if not isinstance(message, dict):
            return "message"
        fields = cast("dict[str, Any]", message)
        role = fields.get("role")
        if not isinstance(role, str):
            return "message.role"
        return next((f"message.{name}" for name, fits in _MESSAGES.get(role, {}).items()
                     if not fits(fields.get(name))), None)
    if kind == "session_info":
        # pi throws if a name is not a text; a missing name removes the name.
        return "name" if not isinstance(entry.get("name"), str | None) else None
    fields_of_kind = _ENTRIES.get(kind, {}) if isinstance(kind, str) else {}
    return next((name for name, fits in fields_of_kind.items() if not fits(entry.get(name))), None)


def repaired_entry(entry: dict[str, Any]) -> dict[str, Any]:
    """Return a broken entry in a readable form, at its position in the tree. A text instead of a list of parts becomes
    a part; any other is stored whole in a `custom` entry, out of context. A valid entry is returned unchanged."""
    message = entry.get("message")
    if entry.get("type") == "message" and isinstance(message, dict):
        fields = cast("dict[str, Any]", message)
        if fields.get("role") in ("assistant", "toolResult") and isinstance(fields.get("content"), str):
            entry = {**entry, "message": {**fields, "content": [{"type": "text", "text": fields["content"]}]}}
    if broken_field(entry) is None:
        return entry
    place = {name: entry[name] for name in ("id", "parentId", "timestamp") if name in entry}
    return {"type": "custom", **place, "customType": BROKEN, "data": entry}
