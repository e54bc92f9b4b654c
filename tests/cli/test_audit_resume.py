"""Accepting an audit log as it is: only in its own words, and never without a person (U-3)."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.cli import audit_resume
from interlock.cli.audit_resume import resume
from interlock.cli.place import Where
from interlock.cli.verb_error import Trouble
from interlock.protocol.answers import KeptCheckpoint, SigningState

pytestmark = pytest.mark.req("U-3")
ROOT = "ab" * 32


def stalled(reason: str | None = "it was rolled back") -> SigningState:
    return SigningState(unsigned=reason, size=7, root=ROOT, kept=[KeptCheckpoint("file", 9, "cd" * 32)])


@pytest.fixture
def accepted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is sent to the gateway, which says that its log is stalled."""
    sent: list[str] = []

    async def state(_where: Where) -> SigningState:
        return stalled()

    async def send(accept: str, _reason: str | None, _where: Where) -> int:
        sent.append(accept)
        return 0

    monkeypatch.setattr(audit_resume, "_state", state)
    monkeypatch.setattr(audit_resume, "_resume", send)
    return sent


@pytest.mark.parametrize("words", ["7", f"x:{ROOT}", ":", "-1:ab"])
def test_what_is_accepted_has_its_form(words: str, accepted: list[str]) -> None:
    with pytest.raises(Trouble, match="is not SIZE:ROOT"):
        resume(accept=words)
    assert accepted == []


def test_what_a_person_names_is_sent_as_it_is(accepted: list[str], tmp_path: Path) -> None:
    assert resume(accept=f"7:{ROOT}", where=Where(state=tmp_path)) == 0
    assert accepted == [f"7:{ROOT}"]


def test_without_a_person_nothing_is_accepted_and_the_words_for_it_are_shown(
        accepted: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(audit_resume, "is_terminal", lambda _stream: False)
    with pytest.raises(Trouble, match="cannot be undone") as trouble:
        resume()

    assert f"--accept 7:{ROOT}" in trouble.value.remedy
    assert "it was rolled back" in capsys.readouterr().err
    assert accepted == []


@pytest.mark.parametrize(("typed", "status"), [("y", 0), ("yes", 0), ("", 1), ("no", 1)])
def test_a_person_at_a_terminal_sees_both_logs_and_decides(
        typed: str, status: int, accepted: list[str], monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(audit_resume, "is_terminal", lambda _stream: True)
    monkeypatch.setattr("builtins.input", lambda _prompt: typed)

    assert resume() == status
    assert accepted == ([f"7:{ROOT}"] if status == 0 else [])
    shown = capsys.readouterr().err
    assert "cd" * 32 in shown
    assert ROOT in shown


def test_a_log_that_can_be_signed_has_nothing_to_accept(monkeypatch: pytest.MonkeyPatch,
                                                        capsys: pytest.CaptureFixture[str]) -> None:
    async def state(_where: Where) -> SigningState:
        return stalled(None)

    monkeypatch.setattr(audit_resume, "_state", state)
    assert resume() == 0
    assert "nothing to resume" in capsys.readouterr().out
