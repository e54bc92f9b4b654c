"""The editable view of sessions: a person's changes in it, and refused ones (N-1, I-4)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.session.store.entry import EDITABLE, SessionFields
from interlock.session.store.store_view import (
    BadView,
    EntryEdit,
    SessionFacts,
    differences,
    read_view,
    view_entry,
    written,
)

ENTRY = view_entry(SessionFields(label="work", thinking_level="high", compaction_count=2, session_started_at=5,
                                 unknown={"theirs": {"a": [1, True]}}),
                                 SessionFacts("S1", 1_700_000_000_000, 3, 5, 900))
VIEW = {"agent:shell:dm:ann": ENTRY, "agent:shell:main": {"sessionId": "S2", "updatedAt": 7, "inputTokens": 0,
                                                          "outputTokens": 0, "totalTokens": 0}}


def text(view: Any = VIEW) -> bytes:
    return b"".join(written(view.items()))


def edited(**fields: Any) -> dict[str, Any]:
    """The view after a person has set these fields of the first entry; `...` takes one away."""
    entry = {name: value for name, value in {**ENTRY, **fields}.items() if value is not ...}
    return {**VIEW, "agent:shell:dm:ann": entry}


@pytest.mark.req("N-1", "I-4")
def test_the_view_is_json_with_the_names_of_the_session_store() -> None:
    assert json.loads(text()) == read_view(text()) == VIEW
    assert ENTRY == {
        "sessionId": "S1", "updatedAt": 1_700_000_000_000, "label": "work", "thinkingLevel": "high",
        "compactionCount": 2, "sessionStartedAt": 5, "theirs": {"a": [1, True]}, "inputTokens": 3, "outputTokens": 5,
        "totalTokens": 8, "contextTokens": 900,
    }
    assert text({}) == b"{}\n"
    # As a person reads it: two blanks a level, an entry's fields one below another.
    assert text().splitlines()[:3] == [b"{", b'  "agent:shell:dm:ann": {', b'    "sessionId": "S1",']


@pytest.mark.req("N-1")
def test_only_changed_fields_are_edits() -> None:
    assert differences(VIEW, VIEW) == ([], [])
    found = differences(VIEW, edited(label="play", modelOverride="opus", thinkingLevel=..., theirs=..., mine=[None]))
    assert found.refused == []
    assert found.edits == [EntryEdit("agent:shell:dm:ann", "S1", {
        "label": "play", "modelOverride": "opus", "thinkingLevel": None, "theirs": None, "mine": [None]})]
    # Another order, other white space and a field that is null and was not there change nothing.
    shuffled = {key: dict(reversed(entry.items())) for key, entry in reversed(VIEW.items())}
    assert differences(VIEW, read_view(json.dumps(shuffled, indent=7).encode())) == ([], [])
    assert differences(VIEW, edited(subject=None)) == ([], [])
    assert differences(VIEW, edited(theirs={"a": [1, 1]})).edits[0].wanted == {"theirs": {"a": [1, 1]}}


@pytest.mark.req("N-1")
def test_a_deleted_entry_is_an_edit_and_an_empty_view_is_an_error() -> None:
    assert differences(VIEW, {"agent:shell:main": VIEW["agent:shell:main"]}).edits == [
        EntryEdit("agent:shell:dm:ann", "S1", {}, deleted=True)]
    lost = differences(VIEW, {})
    assert lost.edits == []
    assert "nothing was deleted" in lost.refused[0]


@pytest.mark.req("N-1")
@pytest.mark.parametrize(("fields", "sentence"), [
    ({"label": 7}, "a text that is not empty"), ({"label": ""}, "a text that is not empty"),
    ({"label": "x" * 501}, "at most 500 characters"), ({"label": "a\x1b[31mb"}, "at most 500 characters"),
    ({"sendPolicy": "maybe"}, "allow or deny"), ({"thinkingLevel": {"deep": []}}, "a text that is not empty"),
    ({"sessionId": "S9"}, "the gateway counts it itself"), ({"inputTokens": "many"}, "the gateway counts it itself"),
    ({"compactionCount": 0}, "the gateway counts it itself"), ({"updatedAt": ...}, "the gateway counts it itself"),
    ({"archivedAt": 5}, "`interlock sessions archive`"), ({"mine": "x" * 20_000}, "more than is kept"),
    ({"mine": "\ud800"}, "a value that JSON cannot carry"),
])
def test_a_read_only_field_is_refused_alone_in_one_sentence(fields: dict[str, Any], sentence: str) -> None:
    found = differences(VIEW, edited(**fields, displayName="Ann"))
    assert found.edits == [EntryEdit("agent:shell:dm:ann", "S1", {"displayName": "Ann"})]
    assert len(found.refused) == 1
    assert found.refused[0].startswith(f"agent:shell:dm:ann: {next(iter(fields))}: ")
    assert sentence in found.refused[0]


@pytest.mark.req("N-1")
def test_malformed_entries_and_unknown_keys_are_refused() -> None:
    for entry in (None, 7, "x", [], True):
        found = differences(VIEW, {**VIEW, "agent:shell:main": entry})
        assert (found.edits, len(found.refused)) == ([], 1)
        assert "an entry is an object" in found.refused[0]
    found = differences(VIEW, {**VIEW, "agent:shell:new\x1b[2J" + "y" * 900: {}})
    assert found.edits == []
    assert "there is no such session" in found.refused[0]
    assert found.refused[0].isprintable()
    assert len(found.refused[0]) < 200


@pytest.mark.req("N-1")
@pytest.mark.parametrize(("bad", "sentence"), [
    (b"", "not JSON"), (b"{", "not JSON"), (text()[:-20], "not JSON"), (b"\xff{}", "not UTF-8"),
    (b"[]", "not an object"), (b"null", "not an object"), (b'{"a": NaN}', "NaN is not a number"),
    (b'{"a": {}, "a": {}}', "a occurs twice"), (b'{"a": {"label": "x", "label": "y"}}', "label occurs twice"),
    (b"[" * 100_000, "nested too deeply"), (b'{"a": ' + b"9" * 5000 + b"}", "a number that is too long"),
    (b"\0" * 100, "not JSON"),
])
def test_a_text_that_is_not_a_view_is_refused_in_one_sentence(bad: bytes, sentence: str) -> None:
    with pytest.raises(BadView) as refusal:
        read_view(bad)
    assert sentence in str(refusal.value)
    assert str(refusal.value).isprintable()


ATOM = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
JSON = ATOM | st.lists(ATOM, max_size=2) | st.dictionaries(st.text(max_size=2), ATOM, max_size=2)


@pytest.mark.req("N-1")
@given(st.dictionaries(st.sampled_from([*VIEW, "x", "agent:shell:y"]), JSON | st.dictionaries(
    st.sampled_from([*ENTRY, *EDITABLE, "x"]), JSON, max_size=6), max_size=3))
def test_only_editable_fields_are_ever_applied(after: dict[str, Any]) -> None:
    found = differences(VIEW, after)
    for edit in found.edits:
        assert edit.session_id == VIEW[edit.key]["sessionId"]
        assert not edit.wanted.keys() & {"sessionId", "updatedAt", "inputTokens", "compactionCount", "sessionStartedAt"}
        assert all(after[edit.key].get(name) == value for name, value in edit.wanted.items())
    assert all(line.endswith(".") and line.isprintable() for line in found.refused)
