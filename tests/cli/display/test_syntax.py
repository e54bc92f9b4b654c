"""Colours inside a command: on visible text only, no character changed, no colours if disabled (Y-2, H-4)."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.cli.display.syntax import highlighted
from interlock.command.card.text import visible

pytestmark = pytest.mark.req("Y-2", "H-4")
COLOUR = re.compile("\x1b\\[[0-9;]*m")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


def test_operators_that_join_commands_are_highlighted() -> None:
    shown = highlighted("    $ git status; rm -r x", "bash", Terminal())
    assert "\x1b[1;35m;\x1b[0m" in shown
    assert COLOUR.sub("", shown) == "    $ git status; rm -r x"


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_no_colour_is_used_if_unwanted(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    assert highlighted("ls; rm x", "bash", Terminal()) == "ls; rm x"


def test_no_colour_is_written_into_a_pipe() -> None:
    assert highlighted("ls; rm x", "bash", io.StringIO()) == "ls; rm x"


@given(text=st.text(alphabet=st.characters(), max_size=80))
def test_no_character_is_changed_or_hidden(text: str) -> None:
    row = visible(text).replace("\n", " ")
    for language in ("bash", "json"):
        assert COLOUR.sub("", highlighted(row, language, Terminal())) == row
