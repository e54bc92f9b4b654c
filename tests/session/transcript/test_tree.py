"""A transcript as a tree: held against X-1 in plain words, over random trees and random damage."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.session.context.context import context
from interlock.session.transcript import tree as tree_module
from interlock.session.transcript.tree import read_tree
from session.plain_context import plain_context
from session.trees import AT, HEADER, file_of, lines_of, random_entries

SEEDS = st.integers(0, 2**32)


def without_none(value: Any) -> Any:
    """The plain form writes what an entry lacks as null."""
    return [{name: one for name, one in message.items() if one is not None} for message in value]


@pytest.mark.req("X-1")
@given(SEEDS, st.integers(0, 60), st.sampled_from([0.0, 0.1, 0.5]))
@settings(max_examples=150, deadline=None)
def test_the_context_equals_that_of_the_reference_rules(seed: int, count: int, branching: float) -> None:
    entries = random_entries(random.Random(seed), count, branching)
    found, plain = context(read_tree(lines_of(entries))), plain_context(entries)
    assert without_none(found.messages) == without_none(plain.messages)
    assert (found.model, found.thinking_level) == (plain.model, plain.thinking_level)


@pytest.mark.req("X-1")
@given(SEEDS)
@settings(max_examples=60, deadline=None)
def test_looping_or_missing_parents_end_the_walk(seed: int) -> None:
    dice = random.Random(seed)
    entries = random_entries(dice, 30)
    for _ in range(6):
        dice.choice(entries)["parentId"] = dice.choice([dice.choice(entries)["id"], "nowhere", None])
    assert without_none(context(read_tree(lines_of(entries))).messages) == without_none(plain_context(entries).messages)


@pytest.mark.req("X-7")
def test_runs_of_entries_are_walked_as_entries_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_module, "RUN", 4)
    for seed in range(40):
        entries = random_entries(random.Random(seed), 50, 0.05)
        entries[random.Random(seed).randrange(50)]["parentId"] = entries[seed]["id"]
        found = context(read_tree(lines_of(entries)))
        assert without_none(found.messages) == without_none(plain_context(entries).messages)


@pytest.mark.req("X-4")
@given(SEEDS, st.data())
@settings(max_examples=80, deadline=None)
def test_any_bytes_are_read_and_complete_entries_found(seed: int, data: st.DataObject) -> None:
    entries = random_entries(random.Random(seed), 8)
    lines = lines_of(entries)
    at = data.draw(st.integers(1, len(lines)))
    lines.insert(at, data.draw(st.binary(max_size=40).filter(lambda some: b"\n" not in some)))
    found = read_tree(b"\n".join(lines).split(b"\n"))
    assert [node.id for node in found.nodes] == [entry["id"] for entry in entries]
    context(found)


@pytest.mark.req("X-6")
def test_unknown_types_are_nodes_and_keep_every_field() -> None:
    strange = {"extra": 1, "parentId": "a", "timestamp": AT, "id": "b", "type": "context_edit", "deep": {"x": [None]}}
    parsed = {"id": "a", "message": {"content": "hi", "role": "user"}, "parentId": None, "type": "message"}
    found = read_tree([msgspec.json.encode(HEADER), msgspec.json.encode(parsed), msgspec.json.encode(strange)])
    assert found.entry(1) == strange
    assert [message["content"] for message in context(found).messages] == ["hi"]
    assert found.children() == {None: [0], 0: [1]}


@pytest.mark.req("X-6")
def test_the_last_value_of_a_label_is_used() -> None:
    def label(entry_id: str, parent: str | None, text: str | None) -> dict[str, Any]:
        return {"type": "label", "id": entry_id, "parentId": parent, "timestamp": AT, "targetId": "x", "label": text}

    assert read_tree(lines_of([label("a", None, "one"), label("b", "a", "two")])).labels() == {"x": "two"}
    assert read_tree(lines_of([label("a", None, "one"), label("b", "a", None)])).labels() == {}


@pytest.mark.req("X-4")
def test_of_two_entries_with_one_id_the_last_is_used() -> None:
    first, second = random_entries(random.Random(1), 2, 0)
    again = {**first, "parentId": None, "message": {"role": "user", "content": "again", "timestamp": 1},
             "type": "message"}
    assert context(read_tree(lines_of([first, second, again]))).messages[-1]["content"] == "again"
    assert read_tree(file_of([first, second]).removeprefix(b"").split(b"\n")).damaged == []


@pytest.mark.req("X-4")
def test_a_byte_order_mark_blank_lines_and_bad_text_do_not_hide_an_entry() -> None:
    parsed = b'{"type":"message","id":"a","parentId":null,"message":{"role":"user","content":"\xff!"}}'
    found = read_tree([b"\xef\xbb\xbf" + msgspec.json.encode(HEADER), b"", b" \r", parsed + b"\r"])
    assert found.header == HEADER
    assert context(found).messages == [{"role": "user", "content": "\ufffd!"}]
