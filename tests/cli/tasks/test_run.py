"""Checks of `interlock run` before it sends anything."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from interlock.cli.tasks.run import MAX_WORDS_BYTES, canonical, whole_prompt
from interlock.cli.verb_error import Trouble


@pytest.mark.req("R-2")
def test_a_refused_session_key_is_quoted_shortened() -> None:
    with pytest.raises(Trouble) as refused:
        canonical("k" * 5_000, "goose")
    assert refused.value.sentence.startswith("--session 'kkkk")
    assert len(refused.value.sentence) < 200


@pytest.mark.req("Y-1")
@pytest.mark.parametrize("words", [(), ("sum", "this", "up")])
def test_a_prompt_that_is_too_long_is_reported_without_an_unread_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """Thirty megabytes were reported as 4194305 bytes, since no more is read from a pipe."""
    (tmp_path / "long").write_bytes(b"x" * (MAX_WORDS_BYTES + 2_000))
    descriptor = os.open(tmp_path / "long", os.O_RDONLY)
    with io.TextIOWrapper(open(descriptor, "rb")) as piped:
        monkeypatch.setattr(sys, "stdin", piped)
        with pytest.raises(Trouble) as refused:
            whole_prompt(words, read_stdin=True)
    assert refused.value.sentence == f"The prompt has more than {MAX_WORDS_BYTES} bytes."
