"""The question at the terminal while other things are written to the same terminal."""

from __future__ import annotations

import asyncio
import io
import json
import os
import pty
import sys
import time
from pathlib import Path

import msgspec
import pytest

from cli.approvals.test_approval_card import read
from cli.scripted import Script, answer, link_to
from interlock.cli.approvals import approval_prompt
from interlock.cli.approvals.approval_prompt import ApprovalPrompt, TerminalAnswers
from interlock.cli.display.terminal import write
from interlock.cli.tasks.screen import Screen
from interlock.protocol.api.approvals import VOTE
from interlock.protocol.clock import iso
from interlock.protocol.resources import Notice

QUESTION = "Allow it this once? y = yes, n = no: "
DOWN = Notice(code="Detached", message="the link to the runner is down")


class Terminal(io.StringIO):
    """A terminal that lets a test wait for the question's next appearance."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if QUESTION in text:
            self.asked.set()
        return super().write(text)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    return Terminal()


async def ask(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, keyboard: tuple[int, int] | None = None
) -> tuple[asyncio.Task[str | None], int]:
    """Ask on this terminal; returns the question's task, and a descriptor into which the person types."""
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(sys, "stderr", terminal)
    keys, typed = keyboard or os.pipe()
    asking = asyncio.create_task(TerminalAnswers(keys).line(QUESTION))
    await terminal.asked.wait()
    terminal.asked.clear()
    return asking, typed


@pytest.mark.anyio
@pytest.mark.req("G-4", "G-7")
async def test_a_notice_during_a_question_has_its_own_row_and_the_question_is_repeated(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking, typed = await ask(terminal, monkeypatch)
    screen = Screen("goose")
    with screen.asking():
        screen.notice(DOWN)
        await asyncio.wait_for(terminal.asked.wait(), 20)
        os.write(typed, b"y\n")
        assert await asking == "y"
    assert terminal.getvalue() == f"{QUESTION}\nnotice[Detached]: {DOWN.message}\n{QUESTION}"


@pytest.mark.anyio
@pytest.mark.req("G-7")
async def test_a_continuing_text_is_not_cut_by_the_question(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(approval_prompt, "QUIET_S", 3_600.0)
    asking, typed = await ask(terminal, monkeypatch)
    for text in ("one ", "row", "\n"):
        write(terminal, text)
    os.write(typed, b"n\n")
    assert await asking == "n"
    assert terminal.getvalue() == f"{QUESTION}\none row\n"


@pytest.mark.anyio
@pytest.mark.req("G-7")
async def test_a_question_below_an_unfinished_row_has_its_own_row(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking, typed = await ask(terminal, monkeypatch)
    write(terminal, "downloading")
    await asyncio.wait_for(terminal.asked.wait(), 20)
    os.write(typed, b"y\n")
    assert await asking == "y"
    assert terminal.getvalue() == f"{QUESTION}\ndownloading\n{QUESTION}"


@pytest.mark.anyio
@pytest.mark.req("G-7")
async def test_a_withdrawn_question_ends_its_row_once(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking, _ = await ask(terminal, monkeypatch)
    asking.cancel()
    await asyncio.wait([asking])
    approval_prompt.say("approval apr_1 was denied by user:bob")
    assert terminal.getvalue() == f"{QUESTION}\napproval apr_1 was denied by user:bob\n"


@pytest.mark.anyio
@pytest.mark.req("Y-3")
async def test_input_that_was_typed_before_the_question_does_not_answer_it(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    person, keys = pty.openpty()
    os.write(person, b"y\ny")
    asking, _ = await ask(terminal, monkeypatch, (keys, person))
    os.write(person, b"n\n")
    assert await asking == "n"


class Person:
    """Types lines, and nothing after the last one."""

    def __init__(self, *lines: str) -> None:
        self._lines = [*lines]
        self.asked: list[str] = []

    async def line(self, question: str = "") -> str | None:
        self.asked.append(question)
        if not self._lines:
            await asyncio.Event().wait()
        return self._lines.pop(0)


@pytest.mark.anyio
@pytest.mark.req("P-4", "Y-3")
@pytest.mark.parametrize(("left_s", "lines", "reason"), [
    (approval_prompt.REASON_MARGIN_S + 0.05, ["n"], None), (1.0, ["n"], None), (600.0, ["n", "too wide"], "too wide")])
async def test_a_denial_counts_even_if_its_reason_is_not_typed_in_time(
    tmp_path: Path, left_s: float, lines: list[str], reason: str | None
) -> None:
    """It was sent only after the reason, so the approval expired, and was recorded as one that no one answered."""
    approval = msgspec.structs.replace(read(), expires_at=iso(int((time.time() + left_s) * 1_000)))
    script = Script({f"POST {VOTE.at(approval.id)}": [
        answer(json.loads(msgspec.json.encode(msgspec.structs.replace(approval, state="denied"))))]})
    person = Person(*lines)
    async with link_to(script, tmp_path) as link:
        asking = ApprovalPrompt(link, "ask", person).answer(approval)
        assert await asyncio.wait_for(asking, 20)
    sent = json.loads(script.asked[-1].content)
    assert (sent["decision"], sent.get("comment")) == ("deny", reason)
