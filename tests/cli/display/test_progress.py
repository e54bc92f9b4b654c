"""Progress of long operations is shown on a terminal only, and its line is removed at the end (G-7)."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from interlock.cli.display import progress
from interlock.cli.display.progress import agreed, so_far, suspended, waiting_for, working

pytestmark = pytest.mark.req("G-7")


class Lines:
    """What is shown; `seen` is set at the first text, and at each one after `seen` was cleared."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, terminal: bool = True) -> None:
        self.shown: list[str | None] = []
        self.seen = threading.Event()
        monkeypatch.setattr(progress, "transient", self._show)
        monkeypatch.setattr(progress, "is_terminal", lambda _stream: terminal)

    def _show(self, text: str | None) -> None:
        self.shown.append(text)
        if text is not None:
            self.seen.set()


def run(words: Sequence[str], lines: Lines, first_s: float = 0.0, then: Any = None) -> None:
    with working(words, first_s, 0.001):
        if then is not None:
            then()
        elif first_s == 0.0:
            assert lines.seen.wait(30)


def test_long_work_shows_its_verb_and_progress_and_then_clears_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = Lines(monkeypatch)

    def work() -> None:
        assert lines.seen.wait(30)
        so_far("12000 records")
        while not any(text is not None and text.endswith(" · 12000 records") for text in lines.shown):
            lines.seen.clear()
            assert lines.seen.wait(30)

    run(["audit", "verify", "--json", "/x.jsonl"], lines, then=work)

    assert str(lines.shown[0]).startswith("audit verify … 0 s")
    assert lines.shown[-1] is None


def test_what_is_waited_for_is_shown_until_there_are_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = Lines(monkeypatch)

    def work() -> None:
        for set_text, end in ((waiting_for, "the gateway"), (so_far, "3 records")):
            set_text(end)
            while not any(text is not None and text.endswith(f" · {end}") for text in lines.shown):
                lines.seen.clear()
                assert lines.seen.wait(30)

    run(["status"], lines, then=work)


def test_short_work_prints_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = Lines(monkeypatch)
    run(["status"], lines, first_s=3_600.0)

    assert lines.shown == [None]


@pytest.mark.parametrize(("words", "terminal"), [
    (["run", "shell"], True), (["logs", "--follow"], True), (["mcp"], True), (["status"], False)])
def test_verbs_with_their_own_output_and_pipes_get_no_line(
        words: list[str], terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = Lines(monkeypatch, terminal=terminal)
    run(words, lines, then=lambda: None)

    assert lines.shown == []


def test_nothing_is_shown_while_another_program_has_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = Lines(monkeypatch)

    def edit() -> None:
        with suspended():
            before = len([text for text in lines.shown if text is not None])
            assert not lines.seen.wait(0.02) or len([text for text in lines.shown if text is not None]) == before

    run(["config", "edit"], lines, then=edit)


@pytest.mark.parametrize(("typed", "agrees"), [("y", True), (" YES ", True), ("", False), ("no", False)])
def test_a_question_is_answered_without_progress_beside_it(
    typed: str, agrees: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines, answers = Lines(monkeypatch), list[bool]()

    def person(question: str) -> str:
        before = len(lines.shown)
        assert not lines.seen.wait(0.02) or len(lines.shown) == before
        return typed

    monkeypatch.setattr("builtins.input", person)
    run(["audit", "resume"], lines, then=lambda: answers.append(agreed()))
    assert answers == [agrees]


def test_what_an_earlier_verb_waited_for_is_not_shown_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = Lines(monkeypatch)
    waiting_for("the gateway of the earlier verb")
    so_far("figures of the earlier verb")
    run(["status"], lines)
    assert "earlier" not in str(lines.shown[0])
