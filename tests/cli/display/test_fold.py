"""A tool's output at the terminal: its first lines, and how many more there are (Y-6)."""

from __future__ import annotations

import pytest

from interlock.cli.display.fold import FOLD_CHARS, FOLD_LINES, KEPT_CHARS, Fold

pytestmark = pytest.mark.req("Y-6")


@pytest.mark.parametrize("step", [1, 7, 100_000])
def test_a_long_read_shows_ten_lines_and_counts_the_rest(step: int) -> None:
    text, fold = "".join(f"line {number}\n" for number in range(1_500)), Fold()
    shown = "".join(fold.add(text[at:at + step]) for at in range(0, len(text), step))
    assert shown == "".join(f"line {number}\n" for number in range(FOLD_LINES))
    assert fold.hidden_lines == 1_500 - FOLD_LINES


def test_short_output_is_shown_in_full() -> None:
    fold = Fold()
    assert fold.add("one\ntwo") == "one\ntwo"
    assert fold.add("\n") == "\n"
    assert fold.hidden_lines == 0


@pytest.mark.parametrize(("text", "hidden"), [("x" * 9_000, 1), ("x" * 9_000 + "\n", 1), ("x" * 9_000 + "\ny", 2)])
def test_a_long_line_is_cut_and_counted_as_hidden(text: str, hidden: int) -> None:
    fold = Fold()
    assert fold.add(text) == "x" * FOLD_CHARS
    assert fold.hidden_lines == hidden


def test_hidden_output_is_kept_up_to_a_limit() -> None:
    fold = Fold()
    shown = fold.add("a\n" * 20)
    assert (shown + fold.unfolded()[0], fold.unfolded()[1]) == ("a\n" * 20, True)
    fold.add("b" * 2 * KEPT_CHARS)
    kept, whole = fold.unfolded()
    assert (len(kept), whole) == (KEPT_CHARS, False)
