"""The changes of a person in a text of `sessions.json`, at any age of the text (N-1)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.session.store.entry import SessionFields
from interlock.session.store.store_view import EntryEdit, SessionFacts, view_entry
from interlock.session.store.view_marks import marked, marked_differences, revision_of

pytestmark = [pytest.mark.req("N-1")]
KEY = "agent:shell:dm:ann"
WORDS = st.sampled_from(["label", "subject", "room", "modelOverride", "theirs"])
VALUES = st.one_of(st.none(), st.sampled_from(["a", "b", "c"]))
FIELDS = st.dictionaries(WORDS, VALUES)


def entry(updated_ms: int = 1, **fields: Any) -> dict[str, Any]:
    shown = view_entry(SessionFields(compaction_count=updated_ms),
                       SessionFacts("S1", updated_ms, 3, 5, 900, "/s/S1.jsonl"))
    return {**shown, **{name: value for name, value in fields.items() if value is not None}}


def loaded(revision: int = 10, updated_ms: int = 1, **fields: Any) -> dict[str, Any]:
    return json.loads(json.dumps({KEY: marked(KEY, entry(updated_ms, **fields), revision)}))


@given(FIELDS, FIELDS, FIELDS)
def test_exactly_the_persons_changes_are_found_despite_later_ones(
    before: dict[str, Any], edited: dict[str, Any], since: dict[str, Any],
) -> None:
    text = loaded(10, 1, **before)
    for name, value in edited.items():
        text[KEY].pop(name, None)
        if value is not None:
            text[KEY][name] = value
    now = loaded(20, 2, **{**before, **since})
    wanted = {name: value for name, value in edited.items() if value != before.get(name)}
    found = marked_differences([now], text)
    assert found.refused == []
    assert found.edits == ([EntryEdit(KEY, "S1", wanted)] if wanted else [])


def test_a_value_of_an_earlier_text_of_the_same_version_is_not_applied_again() -> None:
    first = loaded()
    first[KEY]["label"] = "mine"
    second = json.loads(json.dumps(first))
    second[KEY]["subject"] = "s"
    assert marked_differences([first], second).edits == [EntryEdit(KEY, "S1", {"subject": "s"})]


def test_a_deletion_in_the_last_text_is_exact_and_in_an_older_one_carries_its_instant() -> None:
    other = {"agent:shell:main": marked("agent:shell:main", entry(), 10)}
    text = loaded(10)
    assert marked_differences([{**text, **other}], text).edits == [
        EntryEdit("agent:shell:main", "S1", {}, deleted=True)]
    newer = {KEY: loaded(20)[KEY], "agent:shell:main": marked("agent:shell:main", entry(), 20)}
    assert marked_differences([newer], text).edits == [
        EntryEdit("agent:shell:main", "S1", {}, deleted=True, as_of_ms=10)]
    mixed = {**text, "agent:shell:x": marked("agent:shell:x", entry(), 20)}
    found = marked_differences([{**newer, "agent:shell:x": mixed["agent:shell:x"]}], mixed)
    assert found.edits == []
    assert "several versions" in found.refused[0]


@pytest.mark.parametrize(("change", "sentence"), [
    ({"inputTokens": 9}, "what the gateway counts itself was changed"),
    ({"sessionId": "S2"}, "what the gateway counts itself was changed"),
    ({"interlock": None}, "what it was written from"),
    ({"interlock": {"revision": "x"}}, "what it was written from"),
    ({"label": 7}, "label: a text that is not empty"),
    ({"archivedAt": 1}, "what the gateway counts itself was changed"),
])
def test_an_invalid_edit_is_refused_in_one_sentence(change: dict[str, Any], sentence: str) -> None:
    text = loaded()
    last = loaded()
    text[KEY].update(change)
    found = marked_differences([last], text)
    assert found.edits == []
    assert len(found.refused) == 1
    assert sentence in found.refused[0]


def test_an_entry_under_another_key_is_not_a_session() -> None:
    text = loaded()
    text["agent:shell:copy"] = {**text[KEY], "label": "x"}
    found = marked_differences([loaded()], text)
    assert (found.edits, len(found.refused)) == ([], 1)
    assert "there is no such session" in found.refused[0]


def test_a_bare_file_name_is_the_same_file() -> None:
    text = loaded()
    text[KEY]["sessionFile"] = "S1.jsonl"
    assert marked_differences([loaded()], text) == ([], [])


def test_an_empty_text_deletes_nothing_and_odd_entries_change_nothing() -> None:
    assert "nothing was deleted" in marked_differences([loaded()], {}).refused[0]
    assert marked_differences([], {}).refused == []
    found = marked_differences([loaded()], {KEY: [1], "other": 3})
    assert (found.edits, len(found.refused)) == ([], 2)
    assert revision_of({KEY: [1]}) is None
