"""Random transcripts: trees with branches, compactions, labels, unknown types, any key order."""

from __future__ import annotations

import random
from typing import Any

import msgspec

AT = "2026-01-01T00:00:00.500Z"
HEADER = {"type": "session", "version": 3, "id": "S", "timestamp": AT, "cwd": "/w"}
KINDS = ("user", "assistant", "toolResult", "custom_message", "custom", "compaction", "branch_summary", "model_change",
         "thinking_level_change", "label", "session_info", "unheard_of")
WEIGHTS = (6, 6, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1)


def random_entries(dice: random.Random, count: int, branching: float = 0.2) -> list[dict[str, Any]]:
    """Make a sound tree of `count` entries."""
    entries: list[dict[str, Any]] = []
    for number in range(count):
        parent = None
        if entries:
            parent = dice.choice(entries)["id"] if dice.random() < branching else entries[-1]["id"]
        kind = dice.choices(KINDS, WEIGHTS)[0]
        entries.append(_entry(dice, kind, f"{number:08x}", parent, [entry["id"] for entry in entries]))
    return entries


def _entry(dice: random.Random, kind: str, entry_id: str, parent: str | None, ids: list[str]) -> dict[str, Any]:
    some = dice.choice([*ids, entry_id])
    text = dice.choice(["hello", "안녕하세요", "a\nb", "\u2028", "\\", "{\"type\":\"x\"}", ""])
    fields: dict[str, dict[str, Any]] = {
        "user": {"message": {"role": "user", "content": text, "timestamp": 1}},
        "assistant": {"message": {"role": "assistant", "content": [{"type": "text", "text": text}], "api": "rawp",
                                  "provider": f"p{entry_id}", "model": "m", "stopReason": "stop", "timestamp": 2}},
        "toolResult": {"message": {"role": "toolResult", "toolCallId": "t", "toolName": "ls", "isError": False,
                                   "content": [{"type": "text", "text": text}], "timestamp": 3}},
        "custom_message": {"customType": "x", "content": text, "display": True},
        "custom": {"customType": "x", "data": {"a": [1, None]}},
        "compaction": {"summary": f"so far {text}", "firstKeptEntryId": some, "tokensBefore": 9},
        "branch_summary": {"fromId": some, "summary": text},
        "model_change": {"provider": "q", "modelId": text},
        "thinking_level_change": {"thinkingLevel": dice.choice(["low", "high"])},
        "label": {"targetId": some, "label": dice.choice(["mark", "other"])},
        "session_info": {"name": text},
        "unheard_of": {"anything": {"deep": [text]}, "message": {"role": "user", "content": "not in context"}},
    }
    kept = "message" if kind in ("user", "assistant", "toolResult") else kind
    entry = {"type": kept, "id": entry_id, "parentId": parent, "timestamp": AT, **fields[kind]}
    names = list(entry)
    dice.shuffle(names)
    return {name: entry[name] for name in names}


def lines_of(entries: list[dict[str, Any]], header: dict[str, Any] | None = HEADER) -> list[bytes]:
    """The lines of a file."""
    return [msgspec.json.encode(one) for one in ([header, *entries] if header is not None else entries)]


def file_of(entries: list[dict[str, Any]]) -> bytes:
    """The bytes of a file."""
    return b"".join(line + b"\n" for line in lines_of(entries))
