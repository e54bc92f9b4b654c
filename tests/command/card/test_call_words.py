"""The words beside a tool's name (Y-1)."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.command.card.call_words import call_words

pytestmark = pytest.mark.req("Y-1")
COLOUR: dict[str, Any] = {"question": "Which colour?", "options": [{"label": "red"}]}


@pytest.mark.parametrize(("value", "title", "words"), [
    ({"command": "ls"}, "List", "ls"),
    ({"command": ""}, "List", "List"),
    ({"command": 1}, None, ""),
    ({"questions": [COLOUR, {"question": "How many?"}]}, "AskUserQuestion", "Which colour? How many?"),
    ({"questions": [COLOUR]}, None, "Which colour?"),
    (COLOUR, "AskUserQuestion", "Which colour?"),
    ({"questions": [COLOUR]}, "Choose a colour", "Choose a colour"),
    ({"questions": "none", "question": 3}, "AskUserQuestion", ""),
    ({"questions": ["text", 3]}, "AskUserQuestion", ""),
    ({}, " AskUserQuestion\n", ""),
    ("ls", "AskUserQuestion", ""),
])
def test_the_words_never_repeat_the_tools_name(value: Any, title: str | None, words: str) -> None:
    assert call_words("AskUserQuestion", value, title) == words
