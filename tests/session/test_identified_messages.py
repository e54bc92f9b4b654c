"""Each message of a context with the id of its entry (X-1): a summary has that of its compaction."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from interlock.session.context.context import context, identified
from interlock.session.transcript.tree import read_tree
from session.trees import AT, lines_of, random_entries

pytestmark = pytest.mark.req("X-1")


def entry(entry_id: str, parent: str | None, **fields: Any) -> dict[str, Any]:
    return {"type": "message", "id": entry_id, "parentId": parent, "timestamp": AT, **fields}


def user(entry_id: str, parent: str | None) -> dict[str, Any]:
    return entry(entry_id, parent, message={"role": "user", "content": entry_id, "timestamp": 1})


def test_a_message_has_its_entrys_id_and_a_summary_its_compactions() -> None:
    tree = read_tree(lines_of([
        user("a", None), user("b", "a"), entry("c", "b", type="custom", customType="x", data={}),
        entry("d", "c", type="compaction", summary="so far", firstKeptEntryId="b", tokensBefore=9), user("e", "d")]))
    found = [(one.id, msgspec.json.decode(one.message)["role"]) for one in identified(tree)]
    assert found == [("d", "compactionSummary"), ("b", "user"), ("e", "user")]


def test_an_empty_transcript_has_no_context() -> None:
    assert identified(read_tree(lines_of([]))) == []


@pytest.mark.parametrize("seed", range(20))
def test_the_messages_are_those_of_the_context_itself(seed: int) -> None:
    tree = read_tree(lines_of(random_entries(random.Random(seed), 40)))
    found = identified(tree)
    assert [msgspec.json.decode(one.message) for one in found] == context(tree).messages
    path = {tree.nodes[place].id for place in tree.path(tree.leaf)}
    assert {one.id for one in found} <= path
