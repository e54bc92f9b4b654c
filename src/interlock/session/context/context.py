"""The context that a transcript forms for a model: the path from the leaf to the root, with the last compaction applied
(X-1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import msgspec

from interlock.protocol.clock import parse_iso
from interlock.session.transcript.tree import Tree, read_object


class ModelContext(NamedTuple):
    """The messages in order, each as JSON from the file or made from its entry; and the model and thinking level at the
    end of the path."""

    raw: list[msgspec.Raw]
    model: tuple[str, str] | None = None
    """(provider, model)."""
    thinking_level: str = "off"
    places: Sequence[int] = ()
    """The position of each message's entry in the tree."""

    @property
    def messages(self) -> list[dict[str, Any]]:
        """Return the messages as objects."""
        return [read_object(bytes(raw)) or {} for raw in self.raw]


def context(tree: Tree, leaf: int | None = None) -> ModelContext:
    """Build the context of the leaf, or of the entry at the place `leaf` (X-1)."""
    path = tree.path(tree.leaf if leaf is None else leaf)
    nodes = tree.nodes
    kinds = {nodes[place].type for place in path}
    messages: list[msgspec.Raw] = []
    places: list[int] = []
    contributing: Sequence[int] = path
    if "compaction" in kinds:
        compacted = max(at for at, place in enumerate(path) if nodes[place].type == "compaction")
        compaction = tree.entry(path[compacted])
        messages.append(_raw({"role": "compactionSummary", "summary": compaction.get("summary", ""),
                              "tokensBefore": compaction.get("tokensBefore", 0), "timestamp": _ms(compaction)}))
        places.append(path[compacted])
        first = compaction.get("firstKeptEntryId")
        kept_from = next((at for at, place in enumerate(path[:compacted]) if nodes[place].id == first), compacted)
        contributing = [*path[kept_from:compacted], *path[compacted + 1:]]
    if kinds == {"message"}:
        visible = [place for place in contributing if len(nodes[place].message)]
        messages += [nodes[place].message for place in visible]
        places += visible
    else:
        for place in contributing:
            message = _message(tree, place)
            if message:
                messages.append(message)
                places.append(place)
    level = "off"
    if "thinking_level_change" in kinds:
        level = next(str(tree.entry(place).get("thinkingLevel")) for place in reversed(path)
                     if nodes[place].type == "thinking_level_change")
    return ModelContext(messages, _model(tree, path), level, places)


class Identified(NamedTuple):
    """A message of a context, as JSON, and its entry's id."""

    id: str
    message: msgspec.Raw


def identified(tree: Tree) -> list[Identified]:
    """Return the context of the leaf, each message with its entry's id (X-1). A compaction's summary has its entry's
    id."""
    found = context(tree)
    return [Identified(tree.nodes[place].id, raw) for place, raw in zip(found.places, found.raw, strict=True)]


def _message(tree: Tree, place: int) -> msgspec.Raw | None:
    node = tree.nodes[place]
    if node.type == "message":
        return node.message if node.message and bytes(node.message).lstrip()[:1] == b"{" else None
    if node.type == "custom_message":
        entry = tree.entry(place)
        shown = {"role": "custom", **{name: entry[name] for name in ("customType", "content", "display", "details")
                                      if name in entry}}
        return _raw({**shown, "timestamp": _ms(entry)})
    if node.type == "branch_summary":
        entry = tree.entry(place)
        if entry.get("summary"):
            return _raw({"role": "branchSummary", "summary": entry["summary"], "fromId": entry.get("fromId"),
                         "timestamp": _ms(entry)})
    return None


def _model(tree: Tree, path: Sequence[int]) -> tuple[str, str] | None:
    for place in reversed(path):
        node = tree.nodes[place]
        if node.type == "model_change":
            entry = tree.entry(place)
            return str(entry.get("provider", "")), str(entry.get("modelId", ""))
        if node.type == "message" and b'"assistant"' in bytes(node.message):
            message = _object(tree.entry(place).get("message"))
            if message.get("role") == "assistant":
                return str(message.get("provider", "")), str(message.get("model", ""))
    return None


def _raw(value: dict[str, Any]) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def _object(value: Any) -> dict[str, Any]:
    """Return the value if it is an object, otherwise an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _ms(entry: dict[str, Any]) -> int | None:
    at = entry.get("timestamp")
    if isinstance(at, int | float) and not isinstance(at, bool):
        return int(at)
    try:
        return parse_iso(str(at))
    except ValueError:
        return None
