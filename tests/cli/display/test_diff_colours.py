"""Colours inside a diff: by language and by what was added or removed, no character changed (Y-2, H-4)."""

from __future__ import annotations

import io
import json
import re
from contextlib import redirect_stderr
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.cli.approvals.approval_card import rows_of, show
from interlock.cli.display.diff_colours import MAX_CODE_CHARS, diffs_of, language_of, painted, spans_of
from interlock.cli.tasks.screen import Screen
from interlock.command.card.lines import lines
from interlock.command.card.request import ReceivedRequest
from interlock.protocol import payloads as p

pytestmark = pytest.mark.req("Y-2", "H-4")
COLOUR = re.compile("\x1b\\[[0-9;]*m")
OLD = 'LIMIT = 3\n\n\ndef f():\n    """A text\n    that goes on"""\n    return "x"\n'
NEW = OLD.replace("LIMIT = 3", "LIMIT = 40").replace("that goes on", "that went on")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


def edit(path: str = "/w/a.py", old: str = OLD, new: str = NEW) -> ReceivedRequest:
    return ReceivedRequest("Edit", json.dumps({"file_path": path, "old_string": old, "new_string": new}).encode())


def shown(asked: ReceivedRequest, width: int) -> list[str]:
    with redirect_stderr(Terminal()) as stream:
        show(rows_of(lines(asked), width))
    return stream.getvalue().splitlines()


def test_a_line_has_the_colours_of_its_sign_and_of_its_language() -> None:
    rows = shown(edit(), 80)
    assert "    \x1b[1;31m-\x1b[0m\x1b[31mLIMIT = \x1b[0m\x1b[35m3\x1b[0m" in rows
    assert "    \x1b[1;32m+\x1b[0m\x1b[32mLIMIT = \x1b[0m\x1b[35m40\x1b[0m" in rows
    assert "     \x1b[1;34mdef\x1b[0m \x1b[1mf\x1b[0m():" in rows, "what stays has the language's colours alone"


def test_a_string_over_several_lines_is_one_on_each_side() -> None:
    rows = shown(edit(), 80)
    assert '    \x1b[1;31m-\x1b[0m\x1b[36m    that goes on"""\x1b[0m' in rows
    assert '    \x1b[1;32m+\x1b[0m\x1b[36m    that went on"""\x1b[0m' in rows


@pytest.mark.parametrize("width", [40, 80, 200])
def test_rows_fit_and_read_the_same_without_colours(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = edit(new=NEW + f"    x = {'[1, 2, 3], ' * 12}\n")
    rows = [COLOUR.sub("", row) for row in shown(asked, width)]
    assert max(map(len, rows)) <= width
    monkeypatch.setenv("NO_COLOR", "1")
    assert shown(asked, width) == rows


def test_a_continuation_row_is_marked_as_added() -> None:
    rows = shown(edit(new=OLD + f'x = "{"word " * 20}"\n'), 40)
    assert any(row.startswith("\x1b[1;32m  ↪ \x1b[0m") for row in rows)


@pytest.mark.parametrize(("path", "language"), [
    ("/w/a.py", "python"), ("src/x.TS", "typescript"), ("Makefile", "make"), ("a/Dockerfile", "docker"),
    ("notes.txt", None), ("noname", None), ("b/a.rs, c.py", "rust"),
])
def test_the_language_follows_from_the_name(path: str, language: str | None) -> None:
    assert language_of(path) == language


@pytest.mark.parametrize("new", ["x" * 600, "x = 1\n" * MAX_CODE_CHARS])
def test_text_too_long_to_lex_keeps_its_signs(new: str) -> None:
    found = lines(edit(old="", new=new))
    spans = spans_of(found)
    assert {span.code for own in spans for span in own} == {"1;32", "32"}


def test_fields_after_a_diff_are_not_coloured_as_code() -> None:
    asked = ReceivedRequest("Edit",
                            json.dumps({"file_path": "/w/a.py", "old_string": "a", "new_string": "b", "class": "x"}
                                               ).encode())
    found = lines(asked)
    assert found[-1].text.startswith("class")
    assert spans_of(found)[-1] == ()
    assert found[-1] not in diffs_of(found)


@given(old=st.text(max_size=200), new=st.text(max_size=200), suffix=st.sampled_from(["py", "js", "html", "toml", "x"]))
def test_no_character_is_changed_or_hidden(old: str, new: str, suffix: str) -> None:
    found = lines(edit(f"/w/a.{suffix}", old.replace("\ud800", ""), new))
    for line, spans in zip(found, spans_of(found), strict=True):
        assert COLOUR.sub("", painted(line.text, spans)) == line.text
        assert all(one.end <= two.start for one, two in pairwise(spans))


def run(screen: Screen, *, held: bool, status: p.ToolStatus = "ok", new: str = NEW) -> str:
    """What a person sees of one edit, without colours."""
    with redirect_stderr(Terminal()) as stream:
        say_edit(screen, held=held, status=status, raw=edit(new=new).input)
    return COLOUR.sub("", stream.getvalue())


def say_edit(screen: Screen, *, held: bool, status: p.ToolStatus, raw: bytes) -> None:
    screen.frame("tool.invoke.request", p.ToolRequest(
        turn_id="t", invocation_id="i", tool_name="Edit", input=msgspec.Raw(raw), title="Edit a.py"))
    if held:
        screen.frame("agent.interaction.request", p.InteractionRequest(
            interaction_id="x", interaction_type="PERMISSION", title="Edit a.py",
            context=p.InteractionContext(tool_name="Edit", input=msgspec.Raw(raw), invocation_id="i")))
    screen.frame("tool.invoke.result", p.ToolResult(
        invocation_id="i", status=status, output_type="text", output="", duration_ms=1))


def test_the_stream_shows_a_tools_change_folded() -> None:
    text = run(Screen("claude"), held=False, new=OLD + "y = 1\n" * 30)
    assert "    +y = 1" in text
    assert "… and 25 more lines of the change" in text


@pytest.mark.parametrize(("held", "status"), [(True, "ok"), (False, "error"), (False, "denied")])
def test_a_change_that_was_shown_or_did_not_happen_is_not_shown_again(
    held: bool, status: p.ToolStatus
) -> None:
    assert "LIMIT" not in run(Screen("claude"), held=held, status=status).partition("\n")[2]
