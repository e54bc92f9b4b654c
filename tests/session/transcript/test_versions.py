"""Versions 1 and 2 are read as their converted form (X-2)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.session.context.context import context
from interlock.session.transcript.tree import read_tree
from interlock.session.transcript.versions import upgraded

pytestmark = pytest.mark.req("X-2")
AT = "2025-11-01T00:00:00.000Z"


def turn(text: str, role: str = "user") -> dict[str, Any]:
    return {"type": "message", "timestamp": AT, "message": {"role": role, "content": text, "timestamp": 1}}


def lines(*values: dict[str, Any]) -> list[bytes]:
    return [msgspec.json.encode(value) for value in values]


def test_version_1_is_a_list_that_becomes_a_chain() -> None:
    old = lines({"type": "session", "id": "S", "timestamp": AT, "cwd": "/w", "provider": "p"}, turn("a"), turn("b"),
                {"type": "compaction", "timestamp": AT, "summary": "sum", "firstKeptEntryIndex": 2, "tokensBefore": 5},
                turn("c"))
    found = read_tree(old)
    assert found.version == 1
    assert [node.parent_id for node in found.nodes] == [None, *(node.id for node in found.nodes[:-1])]
    assert [one.get("content") or one["summary"] for one in context(found).messages] == ["sum", "b", "c"]
    assert "firstKeptEntryIndex" not in found.entry(2)
    assert read_tree(old).at == found.at, "ids are the same every time the file is read"
    again = read_tree(upgraded(old))
    assert (again.version, again.at) == (3, found.at)
    assert (again.header or {})["provider"] == "p"


def test_a_line_that_is_not_an_entry_still_counts_in_version_1() -> None:
    old = lines({"type": "session", "id": "S", "timestamp": AT, "cwd": "/w"}, turn("a"))
    old += [b"{torn", *lines(turn("b"), {"type": "compaction", "timestamp": AT, "summary": "sum",
                                         "firstKeptEntryIndex": 2, "tokensBefore": 5})]
    assert [one.get("content") or one["summary"] for one in context(read_tree(old)).messages] == ["sum", "b"]
    assert [one.text for one in read_tree(old).damaged] == [b"{torn"]


def test_two_entries_with_equal_text_have_different_ids() -> None:
    old = lines({"type": "session", "id": "S", "timestamp": AT, "cwd": "/w"}, *(turn("a") for _ in range(50)))
    assert len(read_tree(old).at) == 50


def test_version_2_has_the_tree_and_another_name_for_custom() -> None:
    old = lines({"type": "session", "version": 2, "id": "S", "timestamp": AT, "cwd": "/w"},
                {**turn("a", "hookMessage"), "id": "x", "parentId": None}, {**turn("b"), "id": "y", "parentId": "x"})
    found = read_tree(old)
    assert [one["role"] for one in context(found).messages] == ["custom", "user"]
    assert list(found.at) == ["x", "y"]
