"""The fields that readers of the format need (X-4): the first that is missing is named, and a repair loses nothing."""

from __future__ import annotations

import random
from typing import Any

import pytest

from interlock.session.transcript.entry_fields import BROKEN, broken_field, repaired_entry
from session.trees import random_entries

pytestmark = pytest.mark.req("X-4")


def message(**fields: Any) -> dict[str, Any]:
    return {"type": "message", "id": "a", "parentId": "p", "timestamp": "at", "message": fields}


TEXT = [{"type": "text", "text": "hi"}]


@pytest.mark.parametrize(("entry", "field"), [
    ({"type": "message"}, "message"), ({"type": "message", "message": "hi"}, "message"), (message(), "message.role"),
    (message(role=7), "message.role"), (message(role="user"), "message.content"),
    (message(role="user", content=7), "message.content"), (message(role="user", content=["hi"]), "message.content"),
    (message(role="assistant", content="hi"), "message.content"), (message(role="assistant"), "message.content"),
    (message(role="toolResult", content=TEXT, toolName="ls"), "message.toolCallId"),
    (message(role="toolResult", content=TEXT, toolCallId="c"), "message.toolName"),
    (message(role="bashExecution", command="ls"), "message.output"),
    ({"type": "compaction", "summary": "s", "firstKeptEntryId": "k"}, "tokensBefore"),
    ({"type": "compaction", "summary": "s", "firstKeptEntryId": "k", "tokensBefore": True}, "tokensBefore"),
    ({"type": "branch_summary"}, "summary"), ({"type": "model_change", "provider": "p"}, "modelId"),
    ({"type": "label", "label": "x"}, "targetId"), ({"type": "session_info", "name": 7}, "name"),
    ({"type": "custom_message"}, "content"),
])
def test_the_first_missing_field_is_named(entry: dict[str, Any], field: str) -> None:
    assert broken_field(entry) == field


@pytest.mark.parametrize("entry", [
    message(role="user", content="hi"), message(role="user", content=TEXT), message(role="assistant", content=[]),
    message(role="unheard_of"), {"type": "unheard_of"}, {"type": 7}, {}, {"type": "session_info"},
    {"type": "session_info", "name": None}, {"type": "label", "targetId": "a"},
])
def test_a_sound_entry_and_one_of_an_unknown_type_stay_as_they_are(entry: dict[str, Any]) -> None:
    assert broken_field(entry) is None
    assert repaired_entry(entry) is entry


def test_every_entry_that_we_write_is_sound() -> None:
    assert [entry for entry in random_entries(random.Random(1), 200) if broken_field(entry)] == []


@pytest.mark.parametrize("role", ["assistant", "toolResult"])
def test_a_text_instead_of_a_list_becomes_a_part(role: str) -> None:
    fixed = repaired_entry(message(role=role, content="hi", toolCallId="c", toolName="ls"))
    assert fixed["message"]["content"] == TEXT
    assert (fixed["id"], fixed["parentId"]) == ("a", "p")
    assert broken_field(fixed) is None


@pytest.mark.parametrize("entry", [message(role="user", content=7), message(role="toolResult", content="hi"),
                                   {"type": "message", "id": "a", "parentId": "p", "timestamp": "at"}])
def test_any_other_entry_is_kept_unchanged_in_the_tree_and_out_of_context(entry: dict[str, Any]) -> None:
    fixed = repaired_entry(entry)
    assert (fixed["type"], fixed["customType"], fixed["id"], fixed["parentId"]) == ("custom", BROKEN, "a", "p")
    assert fixed["data"]["type"] == "message"
    assert broken_field(fixed) is None
    assert repaired_entry(fixed) is fixed


def test_a_broken_entry_without_a_place_in_the_tree_gets_none() -> None:
    assert repaired_entry({"type": "label"}) == {"type": "custom", "customType": BROKEN, "data": {"type": "label"}}
