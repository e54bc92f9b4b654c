"""Spellings of other programs reach the existing verbs."""

from __future__ import annotations

import pytest

from interlock.cli.dispatch import dispatch, spelled
from interlock.cli.exit_status import ExitStatus

pytestmark = pytest.mark.req("Y-8")


@pytest.mark.parametrize(("typed", "meant"), [
    ("help", "--help"), ("help run", "run --help"), ("help audit list", "audit list --help"),
    ("open", "console"), ("commands --only running", "tasks --only running"),
    ("open --no-open", "console --no-open"), ("budgets list --json", "budgets --json"),
    ("policy list", "policy"), ("sessions list --search a", "sessions --search a"),
    ("approvals list", "approvals"), ("tasks list", "tasks"), ("run shell help", "run shell help"),
    ("help --json", "help --json"),
])
def test_spellings_are_read_as_the_verbs_know_them(typed: str, meant: str) -> None:
    assert spelled(typed.split()) == meant.split()


def test_help_names_the_options_of_a_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["help", "logs"]) == 0
    assert "--follow" in capsys.readouterr().out


@pytest.mark.parametrize(("typed", "sentence"), [
    ("bogus", "There is no verb 'bogus'. See: interlock --help"),
    ("audit bogus", "`interlock audit` has no verb 'bogus'. See: interlock audit --help"),
    ("runner bogus", "`interlock runner` has no verb 'bogus'. See: interlock runner --help"),
    ("sesions", "There is no verb 'sesions'. Did you mean `interlock sessions`? See: interlock --help"),
    ("rnu shell", "There is no verb 'rnu'. Did you mean `interlock run`? See: interlock --help"),
    ("--bogus", "There is no option --bogus. See: interlock --help"),
    ("run", "`interlock run` needs AGENT. See: interlock run --help"),
])
def test_an_unknown_verb_is_named_with_the_nearest_one(
    typed: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dispatch(typed.split()) == ExitStatus.USAGE
    assert capsys.readouterr().err == f"error[Usage]: {sentence}\n"
