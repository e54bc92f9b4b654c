"""Spellings that people bring from other programs reach the verbs that there are."""

from __future__ import annotations

import pytest

from interlock.cli.dispatch import dispatch, spelled

pytestmark = pytest.mark.req("Y-8")


@pytest.mark.parametrize(("typed", "meant"), [
    ("help", "--help"), ("help run", "run --help"), ("help audit list", "audit list --help"),
    ("open", "console"), ("commands --only running", "tasks --only running"),
    ("open --no-open", "console --no-open"), ("budgets list --json", "budgets --json"),
    ("policy list", "policy"), ("sessions list", "sessions list"), ("run shell help", "run shell help"),
    ("help --json", "help --json"),
])
def test_words_are_read_as_the_verbs_know_them(typed: str, meant: str) -> None:
    assert spelled(typed.split()) == meant.split()


def test_help_names_a_verbs_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["help", "logs"]) == 0
    assert "--follow" in capsys.readouterr().out
