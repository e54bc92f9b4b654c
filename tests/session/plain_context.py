"""X-1 in plain words, slow and short: the reference for `interlock.session`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from interlock.protocol.clock import parse_iso


class Plain(NamedTuple):
    """The messages in order, and the model and thinking level that the path ends with."""

    messages: list[dict[str, Any]]
    model: tuple[str, str] | None = None
    """(provider, model)."""
    thinking_level: str = "off"


def plain_context(entries: Sequence[dict[str, Any]]) -> Plain:
    """Build the context of the last entry in file order, which is the leaf (X-1). A cycle or an unresolved parent ends
    the walk (X-4)."""
    path = _path(entries)
    compacted = max((at for at, entry in enumerate(path) if entry["type"] == "compaction"), default=None)
    messages: list[dict[str, Any]] = []
    if compacted is None:
        contributing = path
    else:
        compaction = path[compacted]
        messages.append({"role": "compactionSummary", "summary": compaction.get("summary", ""),
                         "tokensBefore": compaction.get("tokensBefore", 0), "timestamp": _ms(compaction)})
        first = compaction.get("firstKeptEntryId")
        kept_from = next((at for at, entry in enumerate(path[:compacted]) if entry["id"] == first), compacted)
        contributing = [*path[kept_from:compacted], *path[compacted + 1:]]
    messages += [message for entry in contributing if (message := _message(entry)) is not None]
    return Plain(messages, _model(path), _thinking(path))


def _path(entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    known = {entry["id"]: entry for entry in entries}
    path: list[dict[str, Any]] = []
    walked: set[str] = set()
    at: dict[str, Any] | None = entries[-1] if entries else None
    while at is not None and at["id"] not in walked:
        walked.add(at["id"])
        path.append(at)
        parent = at.get("parentId")
        at = known.get(parent) if isinstance(parent, str) else None
    path.reverse()
    return path


def _message(entry: dict[str, Any]) -> dict[str, Any] | None:
    match entry["type"]:
        case "message":
            return _object(entry.get("message")) or None
        case "custom_message":
            return {"role": "custom", "customType": entry.get("customType"), "content": entry.get("content"),
                    "display": entry.get("display"), "details": entry.get("details"), "timestamp": _ms(entry)}
        case "branch_summary" if entry.get("summary"):
            return {"role": "branchSummary", "summary": entry["summary"], "fromId": entry.get("fromId"),
                    "timestamp": _ms(entry)}
        case _:
            return None


def _model(path: Sequence[dict[str, Any]]) -> tuple[str, str] | None:
    for entry in reversed(path):
        if entry["type"] == "model_change":
            return str(entry.get("provider", "")), str(entry.get("modelId", ""))
        message = _object(entry.get("message"))
        if entry["type"] == "message" and message.get("role") == "assistant":
            return str(message.get("provider", "")), str(message.get("model", ""))
    return None


def _thinking(path: Sequence[dict[str, Any]]) -> str:
    changes = [str(entry.get("thinkingLevel")) for entry in path if entry["type"] == "thinking_level_change"]
    return changes[-1] if changes else "off"


def _object(value: Any) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _ms(entry: dict[str, Any]) -> int | None:
    try:
        return parse_iso(str(entry.get("timestamp", "")))
    except ValueError:
        return None
