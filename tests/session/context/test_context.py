"""The context that a transcript gives a model (X-1), also for a damaged one (X-4)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.session.context.context import ModelContext, context
from interlock.session.transcript.tree import read_tree

AT = "2026-01-01T00:00:00.500Z"
AT_MS = 1_767_225_600_500


def entry(kind: str, entry_id: str, parent: str | None, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "id": entry_id, "parentId": parent, "timestamp": AT, **fields}


def user(entry_id: str, parent: str | None) -> dict[str, Any]:
    return entry("message", entry_id, parent, message={"role": "user", "content": entry_id, "timestamp": 1})


def context_of(entries: list[dict[str, Any]]) -> ModelContext:
    return context(read_tree(list(map(msgspec.json.encode, entries))))


def contents(entries: list[dict[str, Any]]) -> list[str]:
    return [message.get("content") or message["summary"] for message in context_of(entries).messages]


@pytest.mark.req("X-1")
def test_the_leaf_is_the_last_entry_and_its_branch_is_the_context() -> None:
    tree = [user("a", None), user("b", "a"), user("c", "a"), entry("custom", "d", "c", customType="x", data={})]
    assert contents(tree) == ["a", "c"]
    assert contents(tree[:2]) == ["a", "b"]
    assert context_of([]).messages == []


@pytest.mark.req("X-1")
def test_the_last_compaction_on_the_path_wins() -> None:
    def compaction(entry_id: str, parent: str, first: str) -> dict[str, Any]:
        return entry("compaction", entry_id, parent, summary=f"sum {entry_id}", firstKeptEntryId=first, tokensBefore=9)

    path = [user("a", None), user("b", "a"), compaction("k1", "b", "b"), user("c", "k1"), user("d", "c"),
            compaction("k2", "d", "d"), user("e", "k2")]
    assert contents(path) == ["sum k2", "d", "e"]
    assert contents(path[:4]) == ["sum k1", "b", "c"]
    assert contents([*path[:5], compaction("k2", "d", "nowhere"), path[6]]) == ["sum k2", "e"]
    assert context_of(path).messages[0] == {"role": "compactionSummary", "summary": "sum k2", "tokensBefore": 9,
                                         "timestamp": AT_MS}


@pytest.mark.req("X-1")
def test_messages_custom_messages_and_branch_summaries_contribute() -> None:
    path = [
        user("a", None), entry("model_change", "m", "a", provider="p", modelId="m1"),
        entry("thinking_level_change", "t", "m", thinkingLevel="high"),
        entry("custom_message", "c", "t", customType="x", content="note", display=True),
        entry("branch_summary", "s", "c", fromId="a", summary="elsewhere"),
        entry("branch_summary", "s2", "s", summary=""),
        entry("label", "l", "s2", targetId="a", label="x"), entry("unheard_of", "u", "l", anything=1),
    ]  # fmt: skip
    found = context_of(path)
    assert [message["role"] for message in found.messages] == ["user", "custom", "branchSummary"]
    assert (found.model, found.thinking_level) == (("p", "m1"), "high")
    answer = entry("message", "z", "u", message={"role": "assistant", "content": [], "provider": "q", "model": "m2"})
    assert context_of([*path, answer]).model == ("q", "m2")


@pytest.mark.req("X-4")
def test_a_damaged_tree_ends_the_walk_without_a_hang() -> None:
    assert contents([user("a", "b"), user("b", "a")]) == ["a", "b"]
    assert contents([user("a", "a")]) == ["a"]
    assert contents([user("a", None), user("b", "nowhere"), user("c", "b")]) == ["b", "c"]
    lines = [b'{"type":"session","version":3,"id":"S"}', msgspec.json.encode(user("a", None)), b"\0\0\0", b"[1]",
             b'{"id":"x"}', b'{"type":"message","id":7}', b"\xff", b'{"type":"message","id":"b","parentId":"a"}',
             b'{"type":"mess']
    tree = read_tree(lines)
    assert [node.id for node in tree.nodes] == ["a", "b"]
    assert [one["content"] for one in context(tree).messages] == ["a"]
