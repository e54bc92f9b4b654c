"""The files that a conversation read and changed, so that a summary can list them (Z-3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, cast

MAX_FILES = 500
"""Files of each kind that are listed: the most recently touched ones."""
MAX_PATH_CHARS = 1_000

_READS = frozenset({"read", "read_file", "view", "cat"})
_CHANGES = frozenset({"write", "write_file", "create", "edit", "edit_file", "multiedit", "notebookedit", "str_replace",
                      "apply_patch"})
_PATHS = ("path", "file_path", "filePath", "notebook_path", "abs_path")


class Files(NamedTuple):
    """Paths as passed to the tools, each once, sorted. A changed file is not listed as read."""

    read: list[str]
    modified: list[str]

    @classmethod
    def of_details(cls, details: Any) -> Files:
        """Return the files in a compaction's `details`."""
        fields = cast("dict[str, Any]", details) if isinstance(details, dict) else {}
        return cls(_paths(fields.get("readFiles")), _paths(fields.get("modifiedFiles")))


def files_of(entries: Iterable[Mapping[str, Any]], before: Files) -> Files:
    """Return the files of `message` entries, added to those of the previous compaction. A call that failed or was
    denied touched nothing."""
    touched: dict[str, tuple[str, bool]] = {}
    read, modified = dict.fromkeys(before.read), dict.fromkeys(before.modified)
    for number, entry in enumerate(entries):
        message = _object(entry.get("message"))
        if message.get("role") == "assistant":
            for call_id, path, changes in _calls(message):
                # Ids may be repeated in a long conversation: each call counts separately.
                if call_id in touched:
                    _keep(touched.pop(call_id), read, modified)
                touched[call_id or f"call {number} {len(touched)}"] = path, changes
        elif message.get("role") == "toolResult" and message.get("isError") is True:
            touched.pop(str(message.get("toolCallId")), None)
    for one in touched.values():
        _keep(one, read, modified)
    return Files(sorted([path for path in read if path not in modified][-MAX_FILES:]),
                 sorted(list(modified)[-MAX_FILES:]))


def _keep(one: tuple[str, bool], read: dict[str, None], modified: dict[str, None]) -> None:
    path, changes = one
    kept = modified if changes else read
    kept.pop(path, None)  # The most recently touched ones are at the end.
    kept[path] = None


def _calls(message: Mapping[str, Any]) -> Iterable[tuple[str, str, bool]]:
    content = message.get("content")
    for part in cast("list[Any]", content) if isinstance(content, list) else []:
        call = _object(part)
        if call.get("type") != "toolCall":
            continue
        name, arguments = str(call.get("name", "")).lower(), _object(call.get("arguments"))
        if name not in _READS and name not in _CHANGES:
            continue
        path = next((value for key in _PATHS if isinstance(value := arguments.get(key), str) and value), None)
        if path is not None and len(path) <= MAX_PATH_CHARS:
            yield str(call.get("id") or ""), path, name in _CHANGES


def _paths(value: Any) -> list[str]:
    listed = cast("list[Any]", value) if isinstance(value, list) else []
    return [path for path in listed if isinstance(path, str)][:MAX_FILES]


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
