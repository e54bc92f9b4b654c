"""Calling for a person: the bell, a notice if the terminal is known to show it, or nothing (Y-6)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cli.approvals.test_approval_card import read
from cli.display.test_terminal import Terminal
from cli.scripted import Script, link_to
from interlock.cli.approvals.approval_prompt import ApprovalPrompt
from interlock.cli.display.bell import ring, signal_of

pytestmark = pytest.mark.req("Y-6")


@pytest.mark.parametrize(("environment", "written"), [
    ({"TERM": "xterm-256color"}, "\a"), ({"TERM": "dumb"}, ""), ({}, ""),
    ({"TERM": "xterm-256color", "INTERLOCK_BELL": "off"}, ""), ({"TERM": "xterm", "INTERLOCK_BELL": "on"}, "\a"),
    ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, "\x1b]9;it waits\x1b\\\a"),
    ({"TERM": "xterm-kitty"}, "\x1b]9;it waits\x1b\\\a"),
    ({"TERM": "foot"}, "\x1b]777;notify;Interlock;it waits\x1b\\\a"),
    ({"TERM": "screen-256color", "TMUX": "/tmp/x", "TERM_PROGRAM": "iTerm.app"}, "\a"),
])
def test_the_bell_is_written(environment: dict[str, str], written: str) -> None:
    assert signal_of("it waits", environment) == written


def test_a_pipe_gets_no_bell(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("INTERLOCK_BELL", raising=False)
    ring("it waits")
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(sys, "stderr", screen := Terminal())
    ring("it waits")
    assert screen.getvalue().endswith("\a")


@pytest.mark.anyio
async def test_an_approval_that_waits_for_a_vote_rings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("INTERLOCK_BELL", raising=False)
    monkeypatch.setattr(sys, "stderr", screen := Terminal())
    async with link_to(Script({}), tmp_path) as link:
        assert not await ApprovalPrompt(link, "elsewhere", None).answer(read())
    assert screen.getvalue().count("\a") == 1
    assert "waiting for you" in screen.getvalue()
