"""The real agents at their own protocols, before any adapter: what adapters may rely on, and what not."""

from __future__ import annotations

import os
import select
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from agents.raw_acp import Message, RawAcp, raw_acp
from agents.third_party import ThirdParty
from interlock.model_stand_in import AFTER_TOOL, RequestKind, chunk_texts

CLAUDE_SECONDS = 60.0
GONE_SECONDS = 10.0


@pytest.fixture
def acp(goose: ThirdParty) -> Generator[RawAcp]:
    """goose, started, before the first message."""
    with raw_acp(goose.argv, goose.process_env, goose.workspace) as conversation:
        yield conversation


def run_claude(claude: ThirdParty, prompt: str) -> subprocess.CompletedProcess[str]:
    """`claude -p PROMPT` to its end."""
    return subprocess.run(
        [*claude.argv, prompt],
        env=claude.process_env,
        cwd=claude.workspace,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=CLAUDE_SECONDS,
        check=False,
    )


def test_goose_streams_its_text_chunk_by_chunk(goose: ThirdParty, acp: RawAcp) -> None:
    answer = acp.prompt(acp.open_session(goose.workspace), "hello [[chunks:3]]")

    assert answer["result"]["stopReason"] == "end_turn"
    assert acp.texts() == list(chunk_texts(3))
    assert answer["result"]["usage"]["totalTokens"] == 120


def test_goose_runs_a_tool_once_it_is_allowed(goose: ThirdParty, acp: RawAcp) -> None:
    acp.decide = "allow_once"
    command = "echo written > allowed.txt; cat allowed.txt"

    answer = acp.prompt(acp.open_session(goose.workspace), f"please [[tool:{command}]]")

    assert answer["result"]["stopReason"] == "end_turn"
    assert (goose.workspace / "allowed.txt").read_text() == "written\n"
    assert [asked["toolCall"]["rawInput"] for asked in acp.asked()] == [{"command": command}]
    assert acp.updates("tool_call")[0]["_meta"]["goose"]["toolCall"]["toolName"] == "shell"
    done = acp.updates("tool_call_update")[-1]
    assert (done["status"], done["rawOutput"]["exit_code"]) == ("completed", 0)
    assert "".join(acp.texts()) == AFTER_TOOL


def test_goose_does_not_run_a_denied_tool(goose: ThirdParty, acp: RawAcp) -> None:
    acp.decide = "reject_once"

    answer = acp.prompt(acp.open_session(goose.workspace), "please [[tool:touch denied.txt]]")

    assert answer["result"]["stopReason"] == "end_turn"
    assert len(acp.asked()) == 1
    assert not (goose.workspace / "denied.txt").exists()
    assert acp.updates("tool_call_update")[-1]["status"] == "failed"


def test_goose_asks_for_every_tool_call_of_a_turn(goose: ThirdParty, acp: RawAcp) -> None:
    acp.decide = "allow_once"

    acp.prompt(acp.open_session(goose.workspace), "[[tool:touch first.txt]] [[tool:touch second.txt]]")

    commands = [asked["toolCall"]["rawInput"]["command"] for asked in acp.asked()]
    assert commands == ["touch first.txt", "touch second.txt"]
    assert (goose.workspace / "second.txt").exists()


def test_goose_ends_a_running_tool_when_it_is_cancelled(goose: ThirdParty, acp: RawAcp) -> None:
    acp.decide = "allow_once"
    session = acp.open_session(goose.workspace)

    prompt = acp.start_prompt(session, "[[tool:echo pid $$; exec sleep 600]]")
    running = acp.read_until(lambda message: "live_output" in str(message))
    tool = int(live_output(running).split()[1])
    tool_end = os.pidfd_open(tool)
    acp.notify("session/cancel", sessionId=session)

    assert acp.answer_of(prompt)["result"]["stopReason"] == "cancelled"
    assert select.select([tool_end], [], [], GONE_SECONDS)[0], "the tool outlived the cancel"
    os.close(tool_end)
    # An adapter has to close the open tool call itself: goose never reports its end.
    assert acp.updates("tool_call_update")[-1]["status"] == "in_progress"


def test_goose_forgets_an_open_question_when_it_is_cancelled_but_not_the_prompt(goose: ThirdParty, acp: RawAcp) -> None:
    acp.decide = None
    session = acp.open_session(goose.workspace)

    prompt = acp.start_prompt(session, "[[tool:touch late.txt]]")
    question = acp.read_until(lambda message: message.get("method") == "session/request_permission")
    acp.notify("session/cancel", sessionId=session)
    # Without this answer goose never ends the turn.
    acp.answer_cancelled(question)

    assert acp.answer_of(prompt)["result"]["stopReason"] == "cancelled"
    assert acp.prompt(session, "again [[chunks:1]]")["result"]["stopReason"] == "end_turn"
    assert acp.texts() == list(chunk_texts(1))
    assert not (goose.workspace / "late.txt").exists()
    # The model receives the cancelled prompt once more, before the new one.
    assert goose.model.recording.turns()[-1].asked.prompt.startswith("[[tool:touch late.txt]]\n\nagain")


def test_goose_answers_a_prompt_with_an_error_when_its_credentials_are_refused(goose: ThirdParty, acp: RawAcp) -> None:
    answer = acp.prompt(acp.open_session(goose.workspace), "[[fail:401]]")

    assert answer["error"] == {"code": -32000, "message": "Authentication required"}


def test_goose_summarizes_when_the_context_overflows(goose: ThirdParty, acp: RawAcp) -> None:
    answer = acp.prompt(acp.open_session(goose.workspace), "[[overflow]]")

    assert answer["result"]["stopReason"] == "end_turn"
    sides = [one.asked.prompt for one in goose.model.recording.all() if one.kind is RequestKind.SIDE]
    assert any("summarize" in prompt for prompt in sides)


def test_goose_keeps_to_its_own_home(goose: ThirdParty, acp: RawAcp) -> None:
    acp.open_session(goose.workspace)

    assert any(Path(goose.env["HOME"]).rglob("sessions.db"))
    assert list(goose.workspace.iterdir()) == []


def test_claude_prints_the_text_and_exits_zero(claude: ThirdParty) -> None:
    ended = run_claude(claude, "hello [[chunks:3]]")

    assert (ended.returncode, ended.stdout.strip(), ended.stderr) == (0, "".join(chunk_texts(3)).strip(), "")


def test_claude_denies_its_own_tools_and_still_exits_zero(claude: ThirdParty) -> None:
    ended = run_claude(claude, "please [[tool:touch denied.txt]]")

    assert (ended.returncode, ended.stdout.strip()) == (0, AFTER_TOOL)
    assert not (claude.workspace / "denied.txt").exists()
    assert [turn.asked.results for turn in claude.model.recording.turns()] == [0, 1]


def test_claude_exits_one_with_the_error_on_stdout(claude: ThirdParty) -> None:
    ended = run_claude(claude, "[[fail:500]]")

    assert ended.returncode == 1
    assert "API Error: 500" in ended.stdout


def live_output(message: Message) -> str:
    """The text of goose's own live output notification."""
    params = message["params"]["update"]["_meta"]["toolNotification"]["params"]
    return "".join(chunk["output"] for chunk in params["chunks"])
