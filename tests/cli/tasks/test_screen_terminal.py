"""A session's frames on a terminal: Markdown by blocks, folded output, a transient status line (Y-6)."""

from __future__ import annotations

import asyncio
import re
import sys

import msgspec
import pytest

from cli.display.test_terminal import Terminal, Watched
from cli.tasks.test_screen import delta, done, result, show, tool_output
from interlock.cli.tasks.screen import Screen
from interlock.cli.tasks.turn_status import status_line, turn_status
from interlock.protocol import payloads as p

pytestmark = pytest.mark.req("Y-6")
ASKED = ("tool.invoke.request", p.ToolRequest(invocation_id="i", turn_id="t", tool_name="Read",
                                              input=msgspec.Raw(b'{"path":"big.txt"}')))
USAGE = ("session.usage", p.Usage(
    token_usage=p.TokenUsage(input_tokens=12_000, output_tokens=345),
    cost_usage=p.Quota(limit=-1, used=0, unit="usd"),
    message_usage=p.MessageQuota(limit=-1, used=0, unit="COUNT"), time_to_reset="2026-11-21T10:00:00.000Z"))
FOLDED = "".join(f"line {number}\n" for number in range(1_500))


def on_terminal(monkeypatch: pytest.MonkeyPatch, terminal: Terminal | None = None) -> Terminal:
    """Make both outputs one terminal of 60 columns. Not a fixture: pytest sets its own outputs after the fixtures."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal = terminal or Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(sys, "stderr", terminal)
    return terminal


def plain(terminal: Terminal) -> str:
    return re.sub("\x1b\\[[0-9;]*[mK]", "", terminal.getvalue())


def test_text_is_rendered_block_by_block_as_it_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = on_terminal(monkeypatch)
    shown = Screen("claude")
    show(shown, delta(0, "# Title\n\nSome **bo"))
    assert plain(screen) == "Title\n\n"
    show(shown, done("# Title\n\nSome **bold** text"))
    assert plain(screen) == "Title\n\nSome bold text\n"
    assert "\x1b[1mbold\x1b[0m" in screen.getvalue()


def test_into_a_pipe_text_is_passed_unchanged(capsys: pytest.CaptureFixture[str]) -> None:
    show(Screen("claude"), delta(0, "# Title\n\nSome **bo"))
    assert capsys.readouterr().out == "# Title\n\nSome **bo"


def test_another_terminal_shows_text_that_this_one_buffered(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = on_terminal(monkeypatch)
    first = Screen("claude")
    show(first, delta(0, "One.\n\nTwo is not en"))
    kept = first.shown()
    second = Screen("claude")
    second.restore(kept)
    show(second, delta(0, "One.\n\nTwo is not ended"), done("One.\n\nTwo is not ended."))
    assert plain(screen) == "One.\n\nTwo is not ended.\n"


def test_buffered_text_is_written_before_a_tool_and_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = on_terminal(monkeypatch)
    shown = Screen("claude")
    show(shown, delta(0, "I will read it"), ASKED, result(""))
    shown.remark("the connection was lost")
    show(shown, delta(14, " now", "b1"))
    shown.end_line()
    assert plain(screen) == 'I will read it\n▸ Read: {"path":"big.txt"}\nthe connection was lost\nnow\n'
    assert shown.shown() == {"b1": 18}


def test_a_long_read_does_not_flood_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = on_terminal(monkeypatch)
    show(Screen("claude"), ASKED, tool_output(0, FOLDED[:5_000]), tool_output(5_000, FOLDED[5_000:]), result(FOLDED))
    lines = plain(screen).splitlines()
    assert lines[1:11] == FOLDED.splitlines()[:10]
    assert [line.strip() for line in lines[11:]] == ["… 1490 more lines (--full)"]


@pytest.mark.parametrize("agent", ["claude", "shell"])
def test_output_is_shown_in_full_on_request_and_as_the_result(
        agent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = on_terminal(monkeypatch)
    show(Screen(agent, fold=agent == "shell"), tool_output(0, FOLDED), result(FOLDED))
    assert plain(screen) == FOLDED


def test_the_key_unfolds_and_folds_again(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = on_terminal(monkeypatch)
    shown = Screen("claude")
    show(shown, ASKED, tool_output(0, FOLDED[:5_000]))
    shown.toggle_fold()
    show(shown, tool_output(5_000, FOLDED[5_000:]), result(FOLDED))
    assert plain(screen).removeprefix('▸ Read: {"path":"big.txt"}\n') == FOLDED
    shown.toggle_fold()
    assert plain(screen).endswith("output is folded again\n")


def test_the_key_shows_the_newest_output_after_its_call_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = on_terminal(monkeypatch)
    shown = Screen("claude")
    show(shown, ASKED, tool_output(0, FOLDED), result(FOLDED))
    shown.toggle_fold()
    head, _, rest = plain(screen).partition("the newest folded output continues:\n")
    assert "".join(head.splitlines(keepends=True)[1:11]) + rest == FOLDED


def test_into_a_pipe_output_is_complete(capsys: pytest.CaptureFixture[str]) -> None:
    show(Screen("claude"), tool_output(0, FOLDED), result(FOLDED))
    assert capsys.readouterr().err == FOLDED


def test_the_status_line_has_seconds_tokens_and_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    on_terminal(monkeypatch)
    shown = Screen("claude")
    assert status_line(shown, 3.2) == "3 s · working"
    show(shown, ASKED, USAGE)
    assert status_line(shown, 75.0) == "75 s · 12,345 tokens · Read"
    show(shown, result(""))
    assert status_line(shown, 120.0) == "2 min · 12,345 tokens · working"


def test_the_status_line_is_hidden_beside_a_question_or_an_unfinished_line(monkeypatch: pytest.MonkeyPatch) -> None:
    on_terminal(monkeypatch)
    shown = Screen("shell")
    assert shown.is_free
    with shown.asking():
        assert not shown.is_free
    show(shown, tool_output(0, "no newline"))
    assert not shown.is_free
    assert not Screen("claude", quiet=True).is_free


@pytest.mark.anyio
async def test_the_status_line_appears_during_work_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Watched("0 s · Read")
    on_terminal(monkeypatch, terminal)
    shown = Screen("claude")
    show(shown, ASKED)
    async with turn_status(shown, 0.001):
        assert await asyncio.to_thread(terminal.seen.wait, 20)
        show(shown, done("Text."))
    before, _, after = terminal.getvalue().rpartition("Text.\n")
    assert before.endswith("\r\x1b[K"), "the text stands on a row of its own"
    assert after == "" or after.endswith("\r\x1b[K")


@pytest.mark.anyio
async def test_a_pipe_gets_no_status_line(capsys: pytest.CaptureFixture[str]) -> None:
    async with turn_status(Screen("claude"), 0.0):
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert capsys.readouterr() == ("", "")
