"""A start for which no file descriptor is free is refused in one sentence, and no other failure is taken for that."""

from __future__ import annotations

import errno

import pytest

from interlock.runner.process.descriptors import is_shortage, shortage


@pytest.mark.parametrize(("number", "short"), [
    (errno.EMFILE, True), (errno.ENFILE, True), (errno.ENOENT, False), (errno.ENOMEM, False), (None, False),
])
def test_only_the_two_descriptor_limits_are_a_shortage(number: int | None, short: bool) -> None:
    error = OSError() if number is None else OSError(number, "text")

    assert is_shortage(error) is short


def test_the_sentence_names_the_program_and_both_remedies() -> None:
    sentence = shortage("goose")

    assert sentence.startswith("goose was not started: ")
    assert "Close sessions" in sentence
    assert "ulimit -n" in sentence
