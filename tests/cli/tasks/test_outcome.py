"""The last lines of a command: a denied call is never lost in a green one (Y-5)."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from rich.cells import cell_len

from cli.tasks.test_follower import AT, command
from interlock.cli.exit_status import ExitStatus
from interlock.cli.tasks.outcome import SHOWN_DENIALS, close_line, exit_of
from interlock.protocol.resources import Command

pytestmark = pytest.mark.req("Y-5")
COLOUR = re.compile("\x1b\\[[0-9;]*m")


def ended(*denials: dict[str, Any], **more: Any) -> Command:
    return msgspec.convert(command(denials=[{"tool_name": "shell", "at": AT, **one} for one in denials], **more),
                           Command)


def lines(ended: Command, capsys: pytest.CaptureFixture[str]) -> list[str]:
    close_line(ended)
    return capsys.readouterr().err.splitlines()


def test_the_last_lines_name_the_denied_call_the_decider_and_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    one = ended({"title": "$ rm list.md", "by": "user:owner", "reason": "I still need it"},
                {"title": "$ curl x", "by": "policy:no network", "rule": "no network"})
    assert lines(one, capsys) == [
        "✗ not run: $ rm list.md · denied by user:owner: I still need it",
        '✗ not run: $ curl x · denied by the policy rule "no network"',
        "succeeded, but 2 calls denied · 0.0 s · cmd_a"]
    assert exit_of(one) == ExitStatus.DONE


def test_a_run_with_a_denied_call_does_not_end_in_green(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.cli.display.terminal.is_terminal", lambda _: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    green = "\x1b[32m"
    assert any(green in line for line in lines(ended(), capsys))
    assert not any(green in line for line in lines(ended({"title": "$ x", "by": "user:a"}), capsys))


def test_a_reason_cannot_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    one = ended({"title": "$ x", "by": "user:a", "reason": "no\x1b[2J\nsucceeded"})
    first, last = lines(one, capsys)
    assert "\x1b" not in first
    assert last.startswith("succeeded, but 1 call denied")


def test_many_denials_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    shown = lines(ended(*[{"title": f"$ x {n}", "by": "user:a"} for n in range(SHOWN_DENIALS + 3)]), capsys)
    assert len(shown) == SHOWN_DENIALS + 2
    assert shown[-2] == "✗ not run: 3 more calls"


def test_a_command_that_failed_after_a_denial_shows_both(capsys: pytest.CaptureFixture[str]) -> None:
    one = ended({"title": "$ x", "by": "user:a"}, state="failed", error={"code": "AgentExited", "message": "It went."})
    first, last = lines(one, capsys)
    assert first == "✗ not run: $ x · denied by user:a"
    assert last.startswith("error[AgentExited]")


def test_a_rejected_prompt_does_not_mention_credentials(capsys: pytest.CaptureFixture[str]) -> None:
    one = ended(state="failed", error={"code": "PromptRefused", "message": "It has 1100 commands, more than 1000."})
    [line] = lines(one, capsys)
    assert line.startswith("error[PromptRefused]: It has 1100 commands, more than 1000 (cmd_a). ")
    assert line.endswith(". Change the prompt, and run it again.")


REASON = "I still need the output of yesterday's run, so copy it to /srv/archive first, and then ask me again. " * 4


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr("interlock.cli.display.terminal.is_terminal", lambda _: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    return monkeypatch


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_the_last_lines_fit_the_terminal_and_keep_every_reason_in_full(
    columns: int, terminal: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal.setattr("interlock.cli.display.terminal._width", lambda _: columns)
    one = ended({"title": "$ rm -rf build", "by": "user:owner", "reason": REASON},
                {"title": "$ curl https://example.org/日本語", "by": "user:ann", "reason": "だめ" * 30})
    shown = [COLOUR.sub("", line) for line in lines(one, capsys)]
    assert max(cell_len(line) for line in shown) <= columns
    starts = [line for line in shown if not line.startswith("  ")]
    assert [line.split()[0] for line in starts] == ["✗", "✗", "succeeded,"]
    assert " ".join(" ".join(shown).split()).count(REASON.strip()) == 1
    rejected = ended(state="rejected", error={"code": "Forbidden", "message": f"user:owner did not allow it: {REASON}"})
    printed = " ".join(COLOUR.sub("", line).strip() for line in lines(rejected, capsys))
    assert REASON.strip().rstrip(".") in printed


def test_sentences_keep_the_terminals_colours_and_only_marks_are_coloured(
    terminal: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal.setattr("interlock.cli.display.terminal._width", lambda _: 80)
    first, last = lines(ended({"title": "$ x", "by": "user:a", "reason": "no"}), capsys)
    assert first == "\x1b[31m✗ not run:\x1b[0m $ x · denied by user:a: no"
    assert last.startswith("\x1b[1msucceeded, but 1 call denied\x1b[0m · ")


def test_a_pipe_gets_one_line_per_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    first, last = lines(ended({"title": "$ x", "by": "user:a", "reason": REASON}), capsys)
    assert first == f"✗ not run: $ x · denied by user:a: {REASON.strip()}"
    assert last.startswith("succeeded, but 1 call denied · ")


@pytest.mark.parametrize(("state", "code", "message", "shown"), [
    ("canceled", "Canceled", "canceled by user:ann", "canceled by user:ann (cmd_a)."),
    ("timed_out", "Timeout", "it did not end within 3 s", "it did not end within 3 s (timed out, cmd_a)."),
    ("failed", "PROCESS_EXIT", "command 1 of 1 failed: make", "command 1 of 1 failed: make (cmd_a)."),
    ("failed", "PROCESS_EXIT", "The agent ended with exit code 3.\nfull disk\nbye",
     "The agent ended with exit code 3 (cmd_a). Its last lines: full disk bye.")])
def test_how_it_ended_is_stated_once(
    state: str, code: str, message: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    [line] = lines(ended(state=state, error={"code": code, "message": message}), capsys)
    assert line.startswith(f"error[{code}]: {shown} ")


TEXT = {"contentType": "text", "value": "partial"}


@pytest.mark.parametrize(("message", "output", "remedy"), [
    ("The agent ended with exit code 3.\nwrong key", [],
     "Its last lines: wrong key. Correct what they name, and run it again."),
    ("The agent ended with exit code 3.", [TEXT], "(cmd_a). Correct what its output names, and run it again."),
    ("The agent ended with exit code 3.", [],
     "(cmd_a). It wrote no reason: run it again, or start the agent by hand in that workspace to see why."),
])
def test_the_remedy_for_an_ended_agent_mentions_only_lines_that_it_wrote(
    message: str, output: list[dict[str, Any]], remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    [line] = lines(ended(state="failed", error={"code": "PROCESS_EXIT", "message": message},
                         result={"ok": False, "output": {"output": output, "session_id": "s"}}), capsys)
    assert line.endswith(remedy)
