"""The entry of a session's key (I-3, I-4): fields a person may set, the next session keeps, a prompt carries."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.session.store.entry import (
    COUNTED,
    EDITABLE,
    MAX_UNKNOWN_BYTES,
    MAX_UNKNOWN_FIELDS,
    TEXT_MAX_CHARS,
    BadField,
    SessionFields,
    carried_over,
    is_known,
    lacking,
    patched,
    prompt_overrides,
    refusing,
    shown,
    verbosity,
    with_unknown,
)

pytestmark = pytest.mark.req("I-4")
HELD = SessionFields(model_override="m-1", thinking_level="high", label="night")
OFFERS = {"model_switch": True, "prompt_options": True, "modes": ["plan"]}


def test_a_field_is_set_trimmed_and_cleared_and_each_change_is_named() -> None:
    entry, changes = patched(HELD, {"label": " day ", "modelOverride": None, "thinkingLevel": "high"})
    assert (entry.label, entry.model_override, entry.thinking_level) == ("day", None, "high")
    assert changes == [("label", "night", "day"), ("modelOverride", "m-1", None)]


def test_an_edit_without_a_change_returns_the_same_entry() -> None:
    entry, changes = patched(HELD, {"label": "night", "subject": None})
    assert entry is HELD
    assert changes == []


@pytest.mark.parametrize(("name", "value", "sentence"), [
    ("colour", "red", "cannot be set; known: "), ("compactionCount", "7", "cannot be set"),
    ("archivedAt", "7", "cannot be set"), ("refused", "x", "cannot be set"), ("model_override", "x", "cannot be set"),
    ("label", "", "a text that is not empty"), ("label", "  ", "a text that is not empty"), ("label", 7, "a text"),
    ("label", ["x"], "a text"), ("label", "x" * (TEXT_MAX_CHARS + 1), "at most 500 characters"),
    ("label", "a\nb", "on one line"), ("label", "a\x1b[2J", "on one line"), ("label", "a\u202eb", "on one line"),
    ("sendPolicy", "never", "allow or deny"),
])
def test_a_wrong_field_is_named_with_one_sentence_and_nothing_is_set(name: str, value: Any, sentence: str) -> None:
    with pytest.raises(BadField, match=sentence) as caught:
        patched(HELD, {"subject": "ok", name: value})
    assert caught.value.name == name
    assert HELD.subject is None


def test_counters_are_known_fields_and_not_editable() -> None:
    assert all(is_known(name) and name not in EDITABLE for name in COUNTED)
    assert is_known("archivedAt")
    assert not is_known("refused")
    assert not is_known("unheardOf")


@pytest.mark.req("I-3")
def test_the_next_session_keeps_settings_and_resets_counters() -> None:
    old = SessionFields(label="night", send_policy="deny", refused=("modelOverride",), unknown={"x": 1}, archived_at=5,
                        session_started_at=1, last_interaction_at=2, compaction_count=3, memory_flush_at=4,
                        memory_flush_compaction_count=3)
    assert carried_over(old) == SessionFields(label="night", send_policy="deny", refused=("modelOverride",),
                                              unknown={"x": 1})


def test_a_prompt_carries_the_overrides_that_the_agent_offers() -> None:
    assert prompt_overrides(HELD, OFFERS) == ("m-1", None, {"thinking": "high"}, ("modelOverride", "thinkingLevel"))
    assert prompt_overrides(HELD, {}).names == ("modelOverride", "thinkingLevel"), "an agent that does not say is asked"
    assert prompt_overrides(SessionFields(), OFFERS) == (None, None, {}, ())


@pytest.mark.parametrize(("features", "missing"), [
    ({"model_switch": False}, ("modelOverride",)), ({"prompt_options": False}, ("thinkingLevel",)),
    ({"model_switch": False, "prompt_options": False}, ("modelOverride", "thinkingLevel")), (OFFERS, ()),
])
def test_an_unsupported_override_is_not_sent_and_named_once(
        features: dict[str, Any], missing: tuple[str, ...]) -> None:
    assert lacking(HELD, features) == missing
    assert set(prompt_overrides(HELD, features).names) == {"modelOverride", "thinkingLevel"} - set(missing)
    assert lacking(refusing(HELD, missing), features) == ()


@pytest.mark.req("J-14")
@pytest.mark.parametrize(("features", "mode"), [
    ({"modes": [], "plan_mode": False}, None), ({"modes": [], "plan_mode": True}, "plan"),
    ({"modes": ["plan"]}, "plan"), ({}, "plan"),
])
def test_a_mode_is_requested_unless_the_agent_reports_none(features: dict[str, Any], mode: str | None) -> None:
    assert prompt_overrides(SessionFields(mode_override="plan"), features).mode == mode


def test_a_refused_override_is_retried_when_it_changes() -> None:
    refused = refusing(refusing(HELD, ["modelOverride"]), ["modelOverride", "thinkingLevel"])
    assert refused.refused == ("modelOverride", "thinkingLevel")
    assert prompt_overrides(refused, OFFERS).names == ()
    assert patched(refused, {"modelOverride": "m-1"})[0].refused == ("modelOverride", "thinkingLevel")
    again, _ = patched(refused, {"modelOverride": "m-2"})
    assert again.refused == ("thinkingLevel",)
    assert prompt_overrides(again, OFFERS).model == "m-2"


def test_unknown_fields_are_kept_and_removed_by_null() -> None:
    entry = with_unknown(SessionFields(unknown={"a": 1, "b": [2]}), {"a": None, "c": {"d": 1.5}})
    assert entry.unknown == {"b": [2], "c": {"d": 1.5}}
    assert shown(entry) == {"b": [2], "c": {"d": 1.5}}


@pytest.mark.parametrize("fields", [
    {"x": "y" * MAX_UNKNOWN_BYTES}, {f"f{number}": 1 for number in range(MAX_UNKNOWN_FIELDS + 1)},
    {"x": "\ud800"}, {"x": 10**5000}, {"x": float("nan")}, {"x": float("inf")}, {"x": {1: 2}},
])
def test_a_value_that_is_not_preserved_or_too_large_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(BadField) as caught:
        with_unknown(SessionFields(), fields)
    assert caught.value.name == next(iter(fields))


def test_settings_are_shown_by_their_names_in_the_store() -> None:
    entry = refusing(SessionFields(model_override="m", compaction_count=2, unknown={"theirs": 1}), ["modelOverride"])
    assert shown(entry) == {"modelOverride": "m", "compactionCount": 2, "theirs": 1}


@pytest.mark.parametrize(("level", "read"), [("full", "full"), ("OFF", "off"), ("loud", "on"), ("", "on"), (None, "on"),
                                             (7, "on")])
def test_an_unknown_level_is_replaced_by_the_default(level: object, read: str) -> None:
    assert verbosity(level, "on") == read
