"""An agent's Markdown on a terminal: complete blocks as they stream, nothing lost, no control sequence executed
(Y-6)."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from interlock.cli.display.prose import MAX_PENDING_CHARS, MarkdownStream, rendered

pytestmark = pytest.mark.req("Y-6")
_SGR = re.compile("\x1b\\[[0-9;]*m")
PIECES = st.sampled_from([
    "word ", "two words", "\n", "\n\n", "# ", "- ", "1. ", "> ", "    ", "```", "```py\n", "~~~\n", "**", "`", "[a](b)",
    "| a | b |\n|---|---|\n| 1 | 2 |\n", "&#27;", "\x1b[2J", "\u202e", "<b>", "[r]: x\n", "漢字", "***\n", "\\*",
    "![i](u)",
])
TEXT = st.lists(PIECES, max_size=30).map("".join)


def plain(text: str) -> str:
    return _SGR.sub("", text)


def streamed(text: str, cuts: list[int]) -> list[str]:
    stream = MarkdownStream()
    ends = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    blocks = [block for start, end in pairwise(ends) for block in stream.add(text[start:end])]
    return [*blocks, *stream.reset()]


@given(TEXT, st.lists(st.integers(0, 1_000), max_size=8))
def test_blocks_add_up_to_the_text_at_any_cut(text: str, cuts: list[int]) -> None:
    assert "".join(streamed(text, cuts)) == text
    assert streamed(text, cuts) == streamed(text, []), "how it came makes no difference"


@given(TEXT, st.sampled_from([20, 40, 80, 200]))
def test_agent_output_never_has_control_characters_or_rows_over_the_edge(text: str, columns: int) -> None:
    for block in streamed(text, []):
        shown = plain(rendered(block, columns))
        assert not set(shown) & {"\x1b", "\x07", "\r", "\u202e"}
        assert max(map(cell_len, shown.split("\n"))) <= columns


@given(st.lists(st.sampled_from(["alpha", "beta", "<gamma>", "&#27;", "[delta]: x", "`eps`", "漢字"]), min_size=1),
       st.sampled_from(["\n", "\n\n", " "]))
def test_no_word_is_lost(words: list[str], between: str) -> None:
    shown = plain("".join(rendered(block, 40) for block in streamed(between.join(words), [])))
    assert re.sub(r"[\s`]", "", shown) == re.sub(r"[\s`]", "", "".join(words))


def test_a_block_is_shown_once_it_is_complete_and_not_before() -> None:
    stream = MarkdownStream()
    assert stream.add("# Title\n\nSome **bo") == ["# Title\n\n"]
    assert stream.pending == len("Some **bo")
    assert stream.add("ld**\nmore\n\n") == ["Some **bold**\nmore\n\n"]
    assert stream.add("- one\n\n- two\n\n  of two\n\n") == [], "a list goes on after a blank line"
    assert stream.add("Then\n") == ["- one\n\n- two\n\n  of two\n\n"]
    assert stream.reset() == ["Then\n"]
    assert stream.pending == 0


def test_a_fence_keeps_its_blank_lines_and_continues_after_an_interruption() -> None:
    stream = MarkdownStream()
    assert stream.add("```py\na = 1\n\nb = 2\n") == []
    assert stream.rest() == ["```py\na = 1\n\nb = 2\n"]
    assert stream.pending == 0
    assert stream.add("c = 3\n```\nText\n\nEnd") == ["```py\nc = 3\n```\n", "Text\n\n"], "what follows is code, too"
    assert stream.reset() == ["End"]


def test_a_block_without_an_end_is_written_in_parts() -> None:
    stream = MarkdownStream()
    assert stream.add("x" * (MAX_PENDING_CHARS + 1)) == ["x" * (MAX_PENDING_CHARS + 1)]
    assert stream.reset() == []


def test_prose_is_rendered() -> None:
    text = ("# Done\n\nI changed `run.py`,\nsee [the docs](https://example.org).\n\n1. first\n2. second\n\n"
            "```sh\nmake  test\n```\n\n| file | lines |\n|---|---|\n| a.py | 3 |\n")
    assert plain("".join(rendered(block, 60) for block in streamed(text, []))).split("\n") == [
        "Done", "", "I changed run.py,", "see the docs (https://example.org).", "", " 1 first", " 2 second", "",
        "  make  test", "", " file  lines", " ───────────", " a.py  3", ""]


def test_a_link_shows_its_target_and_html_is_text() -> None:
    shown = rendered("[safe.example](https://evil.example/x) <b>not bold</b> &amp;\n", 80)
    assert "(https://evil.example/x)" in plain(shown)
    assert "<b>not bold</b> &amp;" in plain(shown)
    assert "\x1b]8" not in shown
