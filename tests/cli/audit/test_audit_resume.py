"""Accepting an audit log in its current state: only by its exact size and root, and never without a person (U-3)."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from cli.scripted import Script, answer
from interlock.cli.audit import audit_resume
from interlock.cli.audit.audit_resume import resume
from interlock.cli.verb_error import Trouble
from interlock.protocol.answers import KeptCheckpoint, SigningState

pytestmark = pytest.mark.req("U-3")
ROOT = "ab" * 32


def stalled(reason: str | None = "it was rolled back") -> SigningState:
    return SigningState(unsigned=reason, size=7, root=ROOT, kept=[KeptCheckpoint("file", 9, "cd" * 32)])


@pytest.fixture
def script(scripted: Any) -> Script:
    """The gateway of a log that is stalled."""
    return gateway(scripted, stalled())


def gateway(scripted: Any, state: SigningState) -> Script:
    return scripted({"GET /v1/audit/signing": [answer(msgspec.to_builtins(state))],
                     "POST /v1/audit/resume": [answer({"accepted": 7})]})[0]


def accepted(script: Script) -> list[Any]:
    """The bodies of what was accepted."""
    return [json.loads(one.content) for one in script.asked if one.method == "POST"]


@pytest.mark.parametrize("words", ["7", f"x:{ROOT}", ":", "-1:ab"])
def test_the_acceptance_has_its_form(words: str, script: Script) -> None:
    with pytest.raises(Trouble, match="is not SIZE:ROOT"):
        resume(accept=words)
    assert accepted(script) == []


def test_a_named_head_is_sent_unchanged(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    assert resume(accept=f"7:{ROOT.upper()}", reason="the disk was replaced") == 0
    assert accepted(script) == [{"size": 7, "root": ROOT, "reason": "the disk was replaced"}]
    assert "who accepted the 7 records before" in capsys.readouterr().out


def test_without_a_person_nothing_is_accepted_and_the_command_for_it_is_shown(
        script: Script, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(audit_resume, "is_terminal", lambda _stream: False)
    with pytest.raises(Trouble, match="cannot be undone") as trouble:
        resume()

    assert f"--accept 7:{ROOT}" in trouble.value.remedy
    assert "it was rolled back" in capsys.readouterr().err
    assert accepted(script) == []


@pytest.mark.parametrize(("typed", "status"), [("y", 0), ("yes", 0), ("", 1), ("no", 1)])
def test_a_terminal_user_sees_both_logs_and_decides(
        typed: str, status: int, script: Script, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(audit_resume, "is_terminal", lambda _stream: True)
    monkeypatch.setattr("builtins.input", lambda _prompt: typed)

    assert resume() == status
    assert [(one["size"], one["root"]) for one in accepted(script)] == ([(7, ROOT)] if status == 0 else [])
    shown = capsys.readouterr().err
    assert "cd" * 32 in shown
    assert ROOT in shown


def test_a_log_that_can_be_signed_has_nothing_to_accept(scripted: Any, capsys: pytest.CaptureFixture[str]) -> None:
    script = gateway(scripted, stalled(None))
    assert resume() == 0
    assert "nothing to resume" in capsys.readouterr().out
    assert accepted(script) == []
