"""Output to the terminal: control characters shown, columns straight, nothing parsed as markup."""

from __future__ import annotations

import ast
import io
import sys
import threading
from contextlib import redirect_stderr
from pathlib import Path

import pytest

import interlock
from interlock.cli.display.progress import LASTING, so_far, suspended, working
from interlock.cli.display.terminal import (
    has_colour,
    in_rows,
    notice,
    one_line,
    print_sentence,
    printable,
    result,
    say,
    styled,
    table,
    word_rows,
    write,
)
from interlock.cli.display.values import between, count, milliseconds, span
from interlock.cli.verbs import below, names


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.req("G-7")
@pytest.mark.parametrize(("raw", "shown"), [
    ("\x1b[31mred", "\\x1b[31mred"), ("a\r\nb\n", "a\nb\n"), ("over\rwritten", "over\\rwritten"), ("\x07", "\\x07"),
    ("\x9b2J", "\\x9b2J"), ("tab\tstays", "tab\tstays"), ("\u202egnp.exe", "\\u202egnp.exe"), ("\x00", "\\x00"),
    ("\ud800", "\\ud800"), ("[bold]no markup[/bold]", "[bold]no markup[/bold]"), ("größer 漢字 🙂", "größer 漢字 🙂"),
])
def test_control_characters_are_shown_not_obeyed(raw: str, shown: str) -> None:
    assert printable(raw) == shown


@pytest.mark.req("G-7")
def test_a_pipe_gets_raw_bytes_and_a_terminal_does_not() -> None:
    pipe, terminal = io.StringIO(), Terminal()
    write(pipe, "\x1b[31m\r")
    write(terminal, "\x1b[31m\r")
    assert pipe.getvalue() == "\x1b[31m\r"
    assert terminal.getvalue() == "\\x1b[31m\\r"


PATH = "/home/ann/a-directory-that-is-longer-than-a-row"


@pytest.mark.req("Y-8")
@pytest.mark.parametrize(("line", "rows"), [
    ("fits", ["fits"]), ("", [""]), ("ends in a blank ", ["ends in a blank"]),
    ("There is no task 'cmd_gone'. List them.", ["There is no task", "  'cmd_gone'. List", "  them."]),
    ("  rule: it is asked for", ["  rule: it is", "    asked for"]),
    (f"state  {PATH} (0700).", [f"state  {PATH}", "  (0700)."]),
    ("漢字漢字漢字 漢字漢字漢字", ["漢字漢字漢字", "  漢字漢字漢字"]),
    (PATH, [PATH]),
])
def test_rows_break_only_between_words(line: str, rows: list[str]) -> None:
    assert word_rows(line, 18) == rows


@pytest.mark.req("Y-8")
def test_a_sentence_is_wrapped_on_a_terminal_and_one_line_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("NO_COLOR", "1")
    screen, terminal, pipe = Terminal(), Terminal(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(sys, "stdout", terminal)
    say("error[NotFound]: There is no such task. List them with: interlock tasks")
    print_sentence("ok       state directory: /s \x1b[2J", indent=9)
    monkeypatch.setattr(sys, "stdout", pipe)
    print_sentence("one line, however long it may be in a pipe")
    assert screen.getvalue() == "error[NotFound]: There is no\n  such task. List them with:\n  interlock tasks\n"
    assert terminal.getvalue() == "ok       state directory: /s\n         \\x1b[2J\n"
    assert pipe.getvalue() == "one line, however long it may be in a pipe\n"


@pytest.mark.req("G-7")
@pytest.mark.parametrize("kind", [Terminal, io.StringIO])
def test_a_sentence_is_one_line_without_controls_whatever_it_contains(
        kind: type[io.StringIO], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    stream = kind()
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "stderr", stream)
    foreign = "/srv/a\nok: b\r\nc\x1b[2J\u202egnp"
    shown = "/srv/a\\nok: b\\nc\\x1b[2J\\u202egnp"
    print_sentence(f"ok: {foreign}")
    say(f"kept: {foreign}\n", "bold", foreign)
    notice("failed", foreign, "red")
    assert stream.getvalue() == f"ok: {shown}\nkept: {shown}\nfailed {shown}\n"


@pytest.mark.req("Y-8")
def test_a_question_breaks_between_its_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(sys, "stderr", Terminal())
    question = "Allow it this once? y = yes, s = always in this session, a = always, n = no, ? = as JSON: "
    assert in_rows(question).split("\n") == [
        "Allow it this once? y = yes,", "s = always in this session, a = always,", "n = no, ? = as JSON: "]
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert in_rows(question) == question


@pytest.mark.req("G-7")
def test_text_that_the_encoding_lacks_is_escaped() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, "ascii")
    write(stream, "ä ok")
    assert raw.getvalue() == b"\\xe4 ok"


@pytest.mark.req("G-7")
def test_colour_is_used_only_on_a_terminal_that_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert styled("x", "red", Terminal()) == "\x1b[31mx\x1b[0m"
    assert styled("x", "red", io.StringIO()) == "x"
    monkeypatch.setenv("NO_COLOR", "1")
    assert not has_colour(Terminal())
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not has_colour(Terminal())


@pytest.mark.req("G-7")
def test_a_table_is_plain_and_straight() -> None:
    lines = table([["漢字", "a\nb"], ["x", "\x1b[2J"]], ("ID", "WHAT")).split("\n")
    assert lines == ["ID    WHAT", "漢字  a b", "x     \\x1b[2J"]
    assert one_line("x" * 300).endswith("…")


@pytest.mark.req("G-7")
def test_figures_are_formatted_for_people() -> None:
    assert [milliseconds(text, "--timeout") for text in ("90s", "15m", "2h", "7", "250ms")] == [
        90_000, 900_000, 7_200_000, 7_000, 250]
    assert [span(seconds) for seconds in (0.4, 45, 120, 7_200, 400_000)] == ["0 s", "45 s", "2 min", "2 h", "5 d"]
    assert count(1, "frame") == "1 frame"
    assert count(0, "frame") == "0 frames"
    assert between("2026-11-21T10:00:00.000Z", "2026-11-21T10:00:01.500Z") == "1.5 s"


class Watched(Terminal):
    """Sets an event when the awaited text was written."""

    def __init__(self, wanted: str) -> None:
        super().__init__()
        self._wanted = wanted
        self.seen = threading.Event()

    def write(self, text: str) -> int:
        written = super().write(text)
        if self._wanted in self.getvalue():
            self.seen.set()
        return written


@pytest.mark.req("G-7")
def test_long_work_shows_progress_on_a_terminal_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    screen, out = Watched("12 records"), io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(sys, "stdout", out)
    with working(["audit", "export", "x.ndjson"], first_s=0.0, every_s=0.001):
        so_far("12 records")
        assert screen.seen.wait(20)
        say("a hint")
        result("done")
    shown = screen.getvalue()
    assert "audit export … 0 s · 12 records" in shown
    assert "\r\x1b[Ka hint\n" in shown, "what is printed stands on a line of its own"
    assert shown.endswith(("\r\x1b[K", "a hint\n"))
    assert out.getvalue() == "done\n"


@pytest.mark.req("G-7")
def test_an_editor_uses_the_terminal_exclusively(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    screen = Watched("0 s")
    monkeypatch.setattr(sys, "stderr", screen)
    with working(["sessions", "edit"], first_s=0.0, every_s=0.001):
        assert screen.seen.wait(20)
        with suspended():
            handed_over = screen.getvalue()
            for thread in threading.enumerate():
                if thread.name == "working":
                    thread.join(0.05)
            assert screen.getvalue() == handed_over
        assert handed_over.endswith("\r\x1b[K"), "the line of progress is gone before the editor draws"


@pytest.mark.req("G-7")
@pytest.mark.parametrize(("words", "stream", "term"), [
    (["audit", "verify"], io.StringIO(), "xterm"), (["run", "shell", "ls"], Terminal(), "xterm"),
    (["audit", "verify"], Terminal(), "dumb"), (["audit", "erase", "1"], Terminal(), "xterm"),
])
def test_no_progress_is_shown_in_a_pipe_or_beside_a_verbs_own_output(
        words: list[str], stream: io.StringIO, term: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", term)
    monkeypatch.setattr(sys, "stderr", stream)
    with working(words, first_s=0.0, every_s=0.001):
        for thread in threading.enumerate():
            if thread.name == "working":
                thread.join(0.02)
    assert stream.getvalue() == ""


@pytest.mark.req("G-7")
def test_every_verb_with_progress_exists() -> None:
    known = {verb for first in names() for verb in (first, *(f"{first} {one}" for one in below(first)))}
    assert LASTING - {"__complete"} <= known


@pytest.mark.req("Y-2")
def test_only_the_meaningful_word_of_a_sentence_is_coloured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    with redirect_stderr(Terminal()) as stream:
        say("left open; answer elsewhere", "bold", "left open;")
        say("nothing of it", "red", "absent")
    assert stream.getvalue() == "\x1b[1mleft open;\x1b[0m answer elsewhere\nnothing of it\n"


@pytest.mark.req("Y-2")
def test_no_whole_sentence_has_a_colour_and_nothing_is_yellow() -> None:
    found: list[str] = []
    for path in sorted(Path(interlock.__file__).parent.rglob("*.py")):
        if path.parent.name not in ("cli", "demo"):
            continue
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Constant) and call.value == "yellow":
                found.append(f"{path.name}:{call.lineno} yellow")
            if not isinstance(call, ast.Call) or len(call.args) != 2:
                continue
            name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            style = call.args[1]
            if name in ("say", "remark") and isinstance(style, ast.Constant) and style.value in (
                    "red", "green", "cyan"):
                found.append(f"{path.name}:{call.lineno}")
    assert found == []
