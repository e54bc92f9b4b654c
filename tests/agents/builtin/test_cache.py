"""The builtin agent's cache of its conversation (B-1): it accepts what follows, or reports what it lacks."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.agents.builtin.cache import Cache, ContextUnknown

pytestmark = pytest.mark.req("B-1")


def entries(*ids: str) -> list[dict[str, Any]]:
    return [{"id": one, "message": {"role": "user", "content": one}} for one in ids]


def sent(*ids: str, base: str | None = None, **more: Any) -> dict[str, Any]:
    return {"base": base, "entries": entries(*ids), "leaf": ids[-1] if ids else base, **more}


THREE = Cache().following(sent("a", "b", "c"))


def test_the_cache_is_empty_before_the_first_context() -> None:
    assert (Cache().leaf, Cache().messages, Cache().up_to(None), Cache().up_to("a")) == (None, [], 0, None)


def test_entries_after_a_known_entry_are_appended_to_it() -> None:
    assert [entry.id for entry in THREE.following(sent("d", base="c")).entries] == ["a", "b", "c", "d"]
    assert [entry.id for entry in THREE.following(sent("x", base="a")).entries] == ["a", "x"], "another branch"
    assert THREE.following(sent("n")).messages == [{"role": "user", "content": "n"}], "all anew"
    assert THREE.following(sent(base="b")).leaf == "b"
    assert THREE.leaf == "c"


@pytest.mark.parametrize(("context", "sentence"), [
    (sent("d", base="z"), "continues from the entry z, which is not here"), ({**sent("d", base="c"), "leaf": "e"},
    "ends with d"),
    ({"entries": []}, None), ({}, "cannot be read"), ({"entries": [{"id": 7}]}, "cannot be read"),
    ({"entries": "all", "leaf": None}, "cannot be read"), ({**sent("d", base="c"), "pruning": 7}, "cannot be read"),
])
def test_a_context_that_does_not_fit_gives_one_sentence_and_changes_nothing(
        context: dict[str, Any], sentence: str | None) -> None:
    if sentence is None:
        assert THREE.following(context).leaf is None
        return
    with pytest.raises(ContextUnknown, match=sentence):
        THREE.following(context)


@pytest.mark.req("Z-7")
def test_each_context_carries_the_limit_of_results() -> None:
    pruned = Cache().following(sent("a", pruning={"enabled": False}))
    assert not pruned.pruning.enabled
    assert pruned.following(sent("b", base="a")).pruning.enabled
