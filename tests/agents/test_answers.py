"""The choices that a person's words name."""

from __future__ import annotations

import pytest

from interlock.agents.answers import picked, picked_several

LABELS = ["Red", "blue, cold", "2"]


@pytest.mark.req("C-8")
@pytest.mark.parametrize(("text", "index"), [
    ("red", 0), (" RED\n", 0), ("1", 0), ("blue, cold", 1), ("2", 2), ("3", 2), ("4", None), ("0", None), ("", None),
    ("redd", None), ("-1", None), ("²", None),
])  # fmt: skip
def test_a_single_choice_is_parsed(text: str, index: int | None) -> None:
    assert picked(text, LABELS) == index


@pytest.mark.req("C-8")
@pytest.mark.parametrize(("text", "found", "rest"), [
    ("blue, cold", [1], []), ("red; 2", [0, 2], []), ("1, 1, red", [0], []), ('["blue, cold", "red"]', [1, 0], []),
    ("red, green", [0], ["green"]), ("", [], []), (" , ", [], []), ("[1]", [], ["[1]"]),
])  # fmt: skip
def test_several_choices_are_parsed(text: str, found: list[int], rest: list[str]) -> None:
    assert picked_several(text, LABELS) == (found, rest)
