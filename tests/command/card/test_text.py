"""Each character that could deceive a reader is written as its code point; ordinary writing stays (H-4)."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.command.card.text import SPACES_SHOWN, one_line, visible

pytestmark = pytest.mark.req("P-2", "H-4")


@pytest.mark.parametrize(("hostile", "shown"), [
    ("rm \u202exfdp.txt", "rm <U+202E>xfdp.txt"),
    ("a\u200bb\u200dc\ufeffd", "a<U+200B>b<U+200D>c<U+FEFF>d"),
    ("g\u0456t push", "g<U+0456>t push"),
    ("\u0435cho", "<U+0435>cho"),
    ("ρaypal.com", "<U+03C1>aypal.com"),
    ("\uff52\uff4d -rf", "<U+FF52><U+FF4D> -rf"),
    ("\U0001d493\U0001d48e", "<U+1D493><U+1D48E>"),
    ("ls\x1b[2K\x1b[1A", "ls<U+001B>[2K<U+001B>[1A"),
    ("one\rtwo", "one<U+000D>two"),
    ("a\u00a0b\u3000c\u2028d", "a<U+00A0>b<U+3000>c<U+2028>d"),
    ("x\u3164y\u2800z", "x<U+3164>y<U+2800>z"),
    ("etc\u2215passwd\u2044x", "etc<U+2215>passwd<U+2044>x"),
    ("\U000e0072\U000e006d", "<U+E0072><U+E006D>"),
    ("\ud800x", "<U+D800>x"),
    ("a\ufe0fb\u034fc\u180bd", "a<U+FE0F>b<U+034F>c<U+180B>d"),
    ("build\U000e0100\U000e01ef", "build<U+E0100><U+E01EF>"),
    ("ok" + " " * 500 + "; rm -rf ~", "ok<500 spaces>; rm -rf ~"),
])  # fmt: skip
def test_deceptive_characters_are_made_visible(hostile: str, shown: str) -> None:
    assert visible(hostile) == shown


@pytest.mark.parametrize("honest", [
    "git status", "a\tb\nc", "안녕하세요 세계", "日本語のテキスト、漢字", "Zażółć gęślą jaźń", "Привет, мир",
    "Ελληνικά", "שלום", "café № 5 € “x” – …", " " * SPACES_SHOWN + "deep",
])  # fmt: skip
def test_ordinary_text_is_unchanged(honest: str) -> None:
    assert visible(honest) == honest


@given(st.text())
def test_no_hidden_character_is_left(text: str) -> None:
    shown = visible(text).replace("\n", "").replace("\t", "")
    assert not [one for one in shown if unicodedata.category(one) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")]
    assert visible(visible(text)) == visible(text)


@given(st.text(), st.integers(2, 50))
def test_a_line_is_cut_to_one_line_of_its_length(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert len(line) <= limit
    assert "\n" not in line
