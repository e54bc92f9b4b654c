"""The tokenizer of the extra `tokens`: used if it is installed and works, and never a cause of failure (Z-1)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.app import tokenizer
from interlock.session.context.token_estimate import estimated_tokens
from interlock.session.context.tokens import text_tokens, use_tokenizer

pytestmark = [pytest.mark.req("Z-1")]
TEXT = "안녕하세요, how many tokens?"


@pytest.fixture(autouse=True)
def _again() -> Iterator[None]:
    yield
    use_tokenizer(None)


def begin() -> None:
    late = tokenizer.prepare_tokenizer()
    assert late is not None
    first = text_tokens(TEXT)
    assert estimated_tokens(TEXT) <= first < estimated_tokens(TEXT) + 1, "the estimate serves until it is loaded"
    late.join()


@pytest.mark.parametrize("source", [
    "raise ImportError('built for another machine')",
    "",
    "def batch_count(texts, encoding, threads): raise KeyError(encoding)",
])
def test_a_broken_tokenizer_leaves_the_estimate(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_tokenizer.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "broken_tokenizer", raising=False)
    monkeypatch.setattr(tokenizer, "MODULE", "broken_tokenizer")
    begin()
    assert estimated_tokens(TEXT) <= text_tokens(TEXT) < estimated_tokens(TEXT) + 1


def test_without_a_tokenizer_nothing_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer, "MODULE", "a_module_that_is_nowhere")
    assert tokenizer.prepare_tokenizer() is None


@pytest.mark.req("Y-18")
def test_a_process_that_counts_nothing_does_not_load_the_tokenizer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "unused_tokenizer.py").write_text("def batch_count(texts, encoding, threads): return [1]")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(tokenizer, "MODULE", "unused_tokenizer")
    late = tokenizer.prepare_tokenizer()
    assert late is not None
    assert "unused_tokenizer" not in sys.modules
    text_tokens(TEXT)
    late.join()
    assert "unused_tokenizer" in sys.modules
    assert text_tokens(TEXT) == 1


def test_a_gateway_of_a_cluster_loads_the_tokenizer_before_its_first_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "early_tokenizer.py").write_text("def batch_count(texts, encoding, threads): return [1]")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(tokenizer, "MODULE", "early_tokenizer")
    tokenizer.prepare_tokenizer(at_once=True)
    assert text_tokens(TEXT) == 1


@pytest.mark.needs("toktok")
def test_the_installed_tokenizer_counts() -> None:
    begin()
    assert text_tokens(TEXT) == 7
    assert text_tokens("half a pair \ud83e") > 0
    assert text_tokens("<|endoftext|>") > 1, "what a person writes is text, whatever it looks like"
