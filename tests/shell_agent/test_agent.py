"""The agent program `shell`, driven over real pipes with the official SDK: each test reads as the conversation."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lazily import lazily
from shell_agent.shell_conversation import conversation

acp, schema, turns = lazily("acp"), lazily("acp.schema"), lazily("interlock.shell_agent.turn")

pytestmark = [pytest.mark.anyio, pytest.mark.req("A-7")]


async def test_an_allowed_command_runs_and_its_output_streams(tmp_path: Path) -> None:
    async with conversation(tmp_path) as talk:
        answer = talk.prompt("echo hello")
        question = await talk.question()
        assert question.command == "echo hello"
        assert question.options == ["allow_once", "reject_once"]
        question.answer("allow")
        assert (await answer).model_dump(by_alias=True, exclude_none=True) == {
            "stopReason": "end_turn",
            "_meta": {"interlock": {"exit_code": 0}},
        }
        assert talk.story() == [
            ("call", "echo hello", "pending"),
            ("in_progress",),
            ("stdout", "hello\n"),
            ("completed", "succeeded"),
            ("says", "ran 1 command"),
        ]
        assert talk.results() == [{"exit_code": 0, "signal": None, "stdout_bytes": 6, "stderr_bytes": 0}]
        call = talk.peer.updates[0]
        assert call["kind"] == "execute"
        assert call["rawInput"] == {"command": "echo hello"}
        assert call["_meta"] == {"interlock": {"toolName": "shell"}}


@pytest.mark.req("A-7")
async def test_a_command_without_output_says_that_it_has_none(tmp_path: Path) -> None:
    async with conversation(tmp_path) as talk:
        answer = talk.prompt("true")
        await talk.allow()
        await answer
        assert talk.pieces() == [{"channel": "stdout", "text": ""}]
        assert talk.results() == [{"exit_code": 0, "signal": None, "stdout_bytes": 0, "stderr_bytes": 0}]


async def test_nothing_runs_before_the_yes(tmp_path: Path) -> None:
    async with conversation(tmp_path) as talk:
        answer = talk.prompt("touch made")
        question = await talk.question()
        assert not (tmp_path / "made").exists()
        assert talk.story() == [("call", "touch made", "pending")]
        question.answer("allow")
        await answer
        assert (tmp_path / "made").exists()


@pytest.mark.req("Y-5")
async def test_a_denied_command_says_who_denied_it_and_why(tmp_path: Path) -> None:
    async with conversation(tmp_path) as talk:
        answer = talk.prompt("touch one")
        (await talk.question()).answer("reject", "denied by user:ann: not today")
        await answer
        assert talk.story()[-2:] == [("failed", "denied by user:ann: not today"),
                                     ("says", "command 1 of 1 was not allowed: touch one")]


@pytest.mark.parametrize("option", ["reject", "allow_once", ""])
async def test_everything_but_the_one_yes_is_a_no(tmp_path: Path, option: str) -> None:
    async with conversation(tmp_path) as talk:
        answer = talk.prompt("touch made")
        (await talk.question()).answer(option)
        await answer
        assert not (tmp_path / "made").exists()


async def test_an_error_in_the_answer_is_a_no(tmp_path: Path) -> None:
    async with conversation(tmp_path) as talk:
        answer = talk.prompt("touch made")
        (await talk.question()).answered.set_exception(acp.RequestError(-32603, "the gateway fell over"))
        assert (await answer).stop_reason == "end_turn"
        assert not (tmp_path / "made").exists()


async def test_output_arrives_while_the_command_still_runs(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    async with conversation(tmp_path) as talk:
        answer = talk.prompt("echo first; cat go; echo third")
        await talk.allow()
        await talk.printed("first\n")
        await asyncio.to_thread((tmp_path / "go").write_text, "second\n")
        await answer
        assert talk.output("stdout") == "first\nsecond\nthird\n"


async def test_a_cancel_in_mid_command_ends_it_and_the_turn(tmp_path: Path) -> None:
    async with conversation(tmp_path) as talk:
        answer = talk.prompt("echo up; sleep 300 & wait\ntouch never")
        await talk.allow()
        await talk.printed("up")
        await talk.cancel()
        assert (await answer).stop_reason == "cancelled"
        assert talk.story()[-1] == ("failed", "canceled; it was ended by signal 15 (SIGTERM)")
        assert not (tmp_path / "never").exists()


async def test_a_command_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    async with conversation(tmp_path) as talk:
        answer = talk.prompt("trap '' TERM; echo up; while :; do sleep 1; done")
        await talk.allow()
        await talk.printed("up")
        await talk.cancel()
        assert (await answer).stop_reason == "cancelled"
        assert talk.story()[-1] == ("failed", "canceled; it was ended by signal 9 (SIGKILL)")


async def test_a_cancel_while_it_asks_ends_the_turn_and_a_late_yes_changes_nothing(tmp_path: Path) -> None:
    async with conversation(tmp_path) as talk:
        answer = talk.prompt("touch made")
        question = await talk.question()
        await talk.cancel()
        assert (await answer).stop_reason == "cancelled"
        question.answer("allow")
        again = talk.prompt("echo still here")
        await talk.allow()
        await again
        assert not (tmp_path / "made").exists()
        assert talk.output("stdout") == "still here\n"


async def test_a_question_answered_with_cancelled_ends_the_turn(tmp_path: Path) -> None:
    async with conversation(tmp_path) as talk:
        answer = talk.prompt("touch made\ntouch too")
        (await talk.question()).answer(None)
        assert (await answer).stop_reason == "cancelled"
        assert talk.story()[-1] == ("failed", "canceled before it ran")
        assert list(tmp_path.iterdir()) == []


async def test_a_cancel_outside_a_turn_changes_nothing(tmp_path: Path) -> None:
    async with conversation(tmp_path) as talk:
        await talk.cancel()
        answer = talk.prompt("true")
        await talk.allow()
        assert (await answer).stop_reason == "end_turn"


async def test_five_megabytes_come_whole_and_memory_stays_flat(tmp_path: Path) -> None:
    async with conversation(tmp_path) as talk:
        before = peak_memory_kib(talk.process.pid)
        answer = talk.prompt("seq -f '%015.0f' 312500; echo done >&2")
        await talk.allow()
        await answer
        assert talk.output("stdout") == "".join(f"{number:015d}\n" for number in range(1, 312_501))
        assert talk.results()[0]["stdout_bytes"] == 5_000_000
        assert max(len(piece["text"]) for piece in talk.pieces()) <= 32 * 1024
        assert peak_memory_kib(talk.process.pid) - before < 4_096


async def test_a_prompt_of_many_kilobytes_is_one_line_that_it_can_read(tmp_path: Path) -> None:
    async with conversation(tmp_path) as talk:
        answer = talk.prompt("# " + "x" * 3_000_000 + "\necho read")
        await talk.allow()
        await answer
        assert talk.output("stdout") == "read\n"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("# nothing\n\n", "The prompt contains no command"), ("echo a\0b", "Line 1 of the prompt contains a NUL")],
)
async def test_a_prompt_that_cannot_run_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    async with conversation(tmp_path) as talk:
        with pytest.raises(acp.RequestError, match=sentence):
            await talk.prompt(text)
        assert talk.story() == []


async def test_a_second_prompt_in_a_running_turn_is_refused(tmp_path: Path) -> None:
    async with conversation(tmp_path) as talk:
        first = talk.prompt("true")
        question = await talk.question()
        with pytest.raises(acp.RequestError, match="is running a prompt: wait for its end, or cancel it"):
            await talk.prompt("false")
        question.answer("allow")
        assert (await first).stop_reason == "end_turn"


async def test_sessions_have_their_own_workspaces_and_run_beside_each_other(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    async with conversation(tmp_path) as talk:
        first = talk.prompt("pwd")
        waiting = await talk.question()
        await talk.open(tmp_path / "other")
        second = talk.prompt("pwd")
        await talk.allow()
        await second
        waiting.answer("allow")
        await first
        assert talk.output("stdout") == f"{tmp_path}/other\n{tmp_path}\n"


@pytest.mark.parametrize(
    ("workspace", "sentence"), [("relative", "not an absolute path"), ("/no/such/place", "not a directory")]
)
async def test_a_workspace_that_is_none_is_refused(tmp_path: Path, workspace: str, sentence: str) -> None:
    async with conversation(tmp_path) as talk:
        with pytest.raises(acp.RequestError, match=sentence):
            await talk.agent.new_session(cwd=workspace, mcp_servers=[])


async def test_an_unknown_session_is_refused(tmp_path: Path) -> None:
    async with conversation(tmp_path) as talk:
        with pytest.raises(acp.RequestError, match="There is no session 'other'"):
            await talk.agent.prompt(session_id="other", prompt=[schema.TextContentBlock(type="text", text="true")])


def test_the_program_starts_without_the_sdk() -> None:
    code = "import sys, interlock.shell_agent.serve; sys.exit('acp' in sys.modules or 'pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def peak_memory_kib(pid: int | None) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])
