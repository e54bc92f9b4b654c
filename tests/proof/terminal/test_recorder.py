"""Recordings of the terminal: the content of the screen, as text and as a picture."""

from __future__ import annotations

import os
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from proof.terminal import recorder
from proof.terminal.grid import TerminalGrid


@pytest.mark.parametrize(("written", "text"), [
    ("one\r\ntwo\r\n", "one\ntwo\n"), ("working\r\x1b[Kdone\r\n", "done\n"), ("abc\b\bX\r\n", "aXc\n"),
    ("12345678901", "1234567890\n1\n"), ("a\tb", "a       b\n"), ("\x1b[31mred\x1b[0m", "red\n"),
    ("\x1b]9;notice\x1b\\\a\x1b[?2004hx\x1b[?25l", "x\n"), ("one\r\ntwo\x1b[1A\rO", "One\ntwo\n"),
    ("one\r\ntwo\r\x1b[1A\x1b[J", "\n"), ("漢字漢字漢字", "漢字漢字漢\n字\n"), ("e\u0301", "e\u0301\n"),
])
def test_the_screen_is_right_after_colours_moves_and_erasing(written: str, text: str) -> None:
    grid = TerminalGrid(10)
    grid.feed(written)
    assert grid.text() == text
    assert grid.widest() <= 10


def test_a_picture_has_the_colours_and_loads_nothing() -> None:
    grid = TerminalGrid(40)
    grid.feed("\x1b[1;31ma<b\x1b[0m \x1b[38;2;1;2;3mc\x1b[38;5;196md\x1b[48;5;232me\x1b[7mf")
    picture = grid.svg("interlock <status>")
    assert picture.count("http") == 1  # The name space.
    drawn = "".join(ET.fromstring(picture).itertext())
    assert "a<b" in drawn
    for colour in ("#f2777a", "#010203", "#ff0000", "#080808"):
        assert colour in picture


def test_a_program_is_recorded_at_the_width_of_its_terminal_and_answered(tmp_path: Path) -> None:
    program = "import os; print(os.get_terminal_size().columns); print('hello ' + input('who? '))"
    for columns in (40, 200):
        recorded = recorder.record([sys.executable, "-c", program], columns, os.environ, tmp_path,
                                    [("who? ", "ann\n")])
        assert recorded.grid.text() == f"{columns}\nwho? ann\nhello ann\n"
        assert recorder.keep(recorded, tmp_path, "greeting", "a greeting") is None
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "greeting-200.svg", "greeting-200.txt", "greeting-40.svg", "greeting-40.txt"]


@pytest.mark.long
@pytest.mark.req("Y-8", "G-7")
def test_the_tour_ends_and_its_lists_fit_a_narrow_terminal(tmp_path: Path) -> None:
    assert recorder.tour(tmp_path, [40]) == []
    listed = (tmp_path / "approvals-40.txt").read_text()
    assert "denied" in listed
    assert "allowed (used)" in listed
    for name in ("approvals", "tasks", "sessions", "contexts", "keys"):
        rows = (tmp_path / f"{name}-40.txt").read_text().splitlines()
        assert rows[0].split()[0].isupper(), rows
