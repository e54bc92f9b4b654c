"""Tables at terminals of any width: which columns stay, what is shortened, and what is never cut (Y-8)."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from rich.cells import cell_len

from interlock.cli.display.columns import Layout, cut_end, cut_middle, fitted, unique_beginnings
from interlock.cli.display.terminal import print_table, table

pytestmark = pytest.mark.req("Y-8")
HEADER = ("APPROVAL", "STATE", "AGENT", "TOOL", "WHAT", "BY")
LAYOUT = Layout(text=("WHAT",), extra=("TOOL",), drop=("AGENT", "STATE", "BY"))
FIRST, SECOND = "apr_01M84Q0APY7DHTVEAA20TMK8N5", "apr_01M84Q0ZZZ7DHTVEAA20TMK8N5"
ROWS = [[FIRST, "waiting for you", "claude", "Bash", "$ 漢字漢字漢字漢字 && make release-candidate --with everything",
         "4 min"],
        [SECOND, "denied", "claude", "Edit", "src/interlock/cli/display/terminal.py +3 -1", "ann"]]


@pytest.mark.parametrize("width", [20, 30, 40, 60, 80, 120, 200])
def test_no_row_is_wider_than_the_terminal_and_each_has_its_id(width: int) -> None:
    lines = table(ROWS, HEADER, LAYOUT, width).splitlines()
    assert len(lines) == 3
    assert max(map(cell_len, lines)) <= width
    shown = [line.split()[0] for line in lines[1:]]
    assert FIRST.startswith(shown[0])
    assert SECOND.startswith(shown[1])
    assert shown[0] != shown[1]


def test_the_least_important_column_is_dropped_first_and_text_shortened() -> None:
    assert fitted(ROWS, HEADER, 200, LAYOUT)[0] == list(HEADER)
    assert fitted(ROWS, HEADER, 70, LAYOUT)[0] == ["APPROVAL", "STATE", "AGENT", "WHAT", "BY"]
    assert fitted(ROWS, HEADER, 40, LAYOUT)[0] == ["APPROVAL", "WHAT"]
    what = fitted(ROWS, HEADER, 70, LAYOUT)[1][3]
    assert what.endswith("…")
    assert what.startswith("$ 漢字")


def test_a_pipe_gets_every_column_in_full() -> None:
    assert all(cell in table(ROWS, HEADER, LAYOUT) for row in ROWS for cell in row)
    assert "x" * 500 in table([["x" * 500]], ("TEXT",)), "nothing is shortened"


def test_an_id_wider_than_the_terminal_is_not_cut() -> None:
    name = "the-name-of-a-tenant-that-is-longer-than-the-terminal"
    assert fitted([[name, "good"]], ("TENANT", "STATE"), 30) == [["TENANT"], [name]]


def test_ids_are_as_long_as_they_need_to_be_distinct() -> None:
    assert unique_beginnings([FIRST, SECOND]) == {FIRST: "apr_01M84Q0A", SECOND: "apr_01M84Q0Z"}
    near = "apr_01M84Q0APY7DHTVEAA20TMK8N6"
    assert unique_beginnings([FIRST, near]) == {FIRST: FIRST, near: near}
    assert unique_beginnings([]) == {}


def test_a_column_without_a_value_is_left_out_if_it_is_an_extra_one() -> None:
    assert fitted([["a", "-", "-"]], ("ID", "COST", "LABEL"), 80, Layout(extra=("COST",))) == [["ID", "LABEL"],
                                                                                              ["a", "-"]]


@pytest.mark.parametrize("width", range(2, 14))
def test_a_shortened_text_has_no_more_cells_than_allowed(width: int) -> None:
    for text in ("agent:own:main", "김철수님의대화", "a김b철c수d님e의"):
        for cut in (cut_end(text, width), cut_middle(text, width)):
            assert cell_len(cut) <= width
            assert (cut == text) is (cell_len(text) <= width)
            assert cut == text or "…" in cut


@contextmanager
def screen(columns: int) -> Iterator[int]:
    """Standard output is a terminal with this many columns; yields the descriptor that reads what it shows."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    before, sys.stdout = sys.stdout, os.fdopen(theirs, "w", encoding="utf-8")
    try:
        yield ours
    finally:
        sys.stdout.close()
        sys.stdout = before
        os.close(ours)


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_the_width_is_read_from_the_terminal_itself(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "17")
    monkeypatch.setenv("NO_COLOR", "1")
    with screen(columns) as shown:
        print_table(ROWS, HEADER, LAYOUT)
        lines = os.read(shown, 65_536).decode().split("\r\n")
    assert lines[:3] == table(ROWS, HEADER, LAYOUT, columns).split("\n")


def test_a_pipe_is_not_cut_to_the_columns_of_the_environment(
        monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    print_table(ROWS, HEADER, LAYOUT)
    assert FIRST in (out := capsys.readouterr().out)
    assert ROWS[0][4] in out
