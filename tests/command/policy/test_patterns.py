"""Stored patterns: RE2 alone, bounded, and what of them is too open for a rule that allows (H-7)."""

from __future__ import annotations

import time

import msgspec
import pytest

from interlock.command.policy.globs import path_glob
from interlock.command.policy.patterns import pattern, reads_as_glob
from interlock.command.policy.policy import Rule


@pytest.mark.req("P-1", "H-7")
def test_a_stored_pattern_cannot_block_a_gateway() -> None:
    began = time.process_time()
    for source in ("(a+)+b", "(a|a)*b", "(a*)*b", "(.*a){20}"):
        assert not pattern(source).covers("a" * 60_000 + "c")
    assert path_glob("**/" * 60 + "x", any_depth=True).fullmatch("a/" * 2_000) is None
    assert time.process_time() - began < 2


@pytest.mark.req("P-1", "H-7")
@pytest.mark.parametrize("source", ["(", "(?=a)b", r"(a)\1", "(a{1000}){1000}", "a" * 1_001, ""])
def test_a_pattern_that_re2_does_not_support_is_refused_in_one_sentence(source: str) -> None:
    for effect in ("allow", "deny"):
        with pytest.raises(msgspec.ValidationError, match="command: "):
            msgspec.convert({"name": "r", "effect": effect, "command": source}, Rule)


@pytest.mark.req("P-1", "H-7")
@pytest.mark.parametrize(("source", "refused"), [
    ("git (status|diff)( .*)?", "."), ("ls.*", "."), ("make [^;]*", "[^;]"), (r"ls\s+-l", r"\s"), (r"ls \S+", r"\S"),
    ("(.)*", "."), (".{3}", "."), (r"x\W+", r"\W"), ("[[:punct:]]+", "[[:punct:]]"), (r"[\s\w]+", r"[\s\w]"),
    ("ls( -[a-zA-Z]+)*|git status", None), ("setup.py", None), (r"make test \| tee log", None), ("[a-z ]+", None),
    (r"\Qa;b\E", None), (r"[\w./-]+", None), (r"\x3b", None),
])
def test_a_repeated_class_that_matches_an_operator_is_refused_if_it_would_allow(
    source: str, refused: str | None
) -> None:
    assert pattern(source).open == refused
    msgspec.convert({"name": "r", "effect": "deny", "command": source}, Rule)
    if refused is None:
        msgspec.convert({"name": "r", "effect": "allow", "command": source}, Rule)
        return
    with pytest.raises(msgspec.ValidationError, match="also matches `; x` and"):
        msgspec.convert({"name": "r", "effect": "allow", "command": source}, Rule)


@pytest.mark.req("P-1", "H-7", "Y-4")
@pytest.mark.parametrize(("words", "sentence"), [
    ("git **", "leaves open what is run"), ("sudo **", "leaves open what sudo runs"), ("python **", "leaves open"),
    ("* status", "leaves open"), ("git status ; ls", "holds an operator"), ("git ** status", "is the last"),
    ("", "from 1"),
    ("git 'status", "quote is not closed"), ("npm run **", "leaves open"), ("bash -c *", "leaves open what bash runs"),
])
def test_words_that_do_not_determine_the_program_are_refused(words: str, sentence: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=sentence):
        msgspec.convert({"name": "r", "effect": "allow", "words": words}, Rule)


@pytest.mark.parametrize(("source", "glob"), [
    ("echo *", True), ("git * status", True), ("ls *.py", True), ("rm -rf build/*", True), ("ls src*", True),
    ("echo .*", False), ("echo [a-z ]*", False), (r"echo\s*", False), (r"x \d*", False), ("(ls )*pwd", False),
    (r"ls \*", False), ("echo", False), ("echo *hello", False),
])
def test_an_expression_that_looks_like_a_glob_of_a_shell_is_recognized(source: str, glob: bool) -> None:
    assert reads_as_glob(source) is glob
