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
    async with conversation(tmp_path) as client:
        answer = client.prompt("echo hello")
        question = await client.question()
        assert question.command == "echo hello"
        assert question.options == ["allow_once", "reject_once"]
        question.answer("allow")
        assert (await answer).model_dump(by_alias=True, exclude_none=True) == {
            "stopReason": "end_turn",
            "_meta": {"interlock": {"exit_code": 0}},
        }
        assert client.story() == [
            ("call", "echo hello", "pending"),
            ("in_progress",),
            ("stdout", "hello\n"),
            ("completed", "succeeded"),
            ("says", "ran 1 command"),
        ]
        assert client.results() == [{"exit_code": 0, "signal": None, "stdout_bytes": 6, "stderr_bytes": 0}]
        call = client.peer.updates[0]
        assert call["kind"] == "execute"
        assert call["rawInput"] == {"command": "echo hello"}
        assert call["_meta"] == {"interlock": {"toolName": "shell"}}


@pytest.mark.req("A-7")
async def test_a_command_without_output_reports_it(tmp_path: Path) -> None:
    async with conversation(tmp_path) as client:
        answer = client.prompt("true")
        await client.allow()
        await answer
        assert client.pieces() == [{"channel": "stdout", "text": ""}]
        assert client.results() == [{"exit_code": 0, "signal": None, "stdout_bytes": 0, "stderr_bytes": 0}]


async def test_nothing_runs_before_the_grant(tmp_path: Path) -> None:
    async with conversation(tmp_path) as client:
        answer = client.prompt("touch made")
        question = await client.question()
        assert not (tmp_path / "made").exists()
        assert client.story() == [("call", "touch made", "pending")]
        question.answer("allow")
        await answer
        assert (tmp_path / "made").exists()


@pytest.mark.req("Y-5")
async def test_a_denied_command_names_the_decider_and_the_reason(tmp_path: Path) -> None:
    async with conversation(tmp_path) as client:
        answer = client.prompt("touch one")
        (await client.question()).answer("reject", "denied by user:ann: not today")
        await answer
        assert client.story()[-2:] == [("failed", "denied by user:ann: not today"),
                                       ("says", "command 1 of 1 was not allowed: touch one")]


@pytest.mark.parametrize("option", ["reject", "allow_once", ""])
async def test_every_other_answer_is_a_denial(tmp_path: Path, option: str) -> None:
    async with conversation(tmp_path) as client:
        answer = client.prompt("touch made")
        (await client.question()).answer(option)
        await answer
        assert not (tmp_path / "made").exists()


async def test_an_error_in_the_answer_is_a_denial(tmp_path: Path) -> None:
    async with conversation(tmp_path) as client:
        answer = client.prompt("touch made")
        (await client.question()).answered.set_exception(acp.RequestError(-32603, "the gateway fell over"))
        assert (await answer).stop_reason == "end_turn"
        assert not (tmp_path / "made").exists()


async def test_output_arrives_while_the_command_is_running(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    async with conversation(tmp_path) as client:
        answer = client.prompt("echo first; cat go; echo third")
        await client.allow()
        await client.printed("first\n")
        await asyncio.to_thread((tmp_path / "go").write_text, "second\n")
        await answer
        assert client.output("stdout") == "first\nsecond\nthird\n"


async def test_a_cancel_in_mid_command_ends_it_and_the_turn(tmp_path: Path) -> None:
    async with conversation(tmp_path) as client:
        answer = client.prompt("echo up; sleep 300 & wait\ntouch never")
        await client.allow()
        await client.printed("up")
        await client.cancel()
        assert (await answer).stop_reason == "cancelled"
        assert client.story()[-1] == ("failed", "canceled; it was ended by signal 15 (SIGTERM)")
        assert not (tmp_path / "never").exists()


async def test_a_command_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    async with conversation(tmp_path) as client:
        answer = client.prompt("trap '' TERM; echo up; while :; do sleep 1; done")
        await client.allow()
        await client.printed("up")
        await client.cancel()
        assert (await answer).stop_reason == "cancelled"
        assert client.story()[-1] == ("failed", "canceled; it was ended by signal 9 (SIGKILL)")


async def test_a_cancel_during_a_question_ends_the_turn_and_a_late_grant_changes_nothing(tmp_path: Path) -> None:
    async with conversation(tmp_path) as client:
        answer = client.prompt("touch made")
        question = await client.question()
        await client.cancel()
        assert (await answer).stop_reason == "cancelled"
        question.answer("allow")
        again = client.prompt("echo still here")
        await client.allow()
        await again
        assert not (tmp_path / "made").exists()
        assert client.output("stdout") == "still here\n"


async def test_a_question_answered_with_cancelled_ends_the_turn(tmp_path: Path) -> None:
    async with conversation(tmp_path) as client:
        answer = client.prompt("touch made\ntouch too")
        (await client.question()).answer(None)
        assert (await answer).stop_reason == "cancelled"
        assert client.story()[-1] == ("failed", "canceled before it ran")
        assert list(tmp_path.iterdir()) == []


async def test_a_cancel_outside_a_turn_changes_nothing(tmp_path: Path) -> None:
    async with conversation(tmp_path) as client:
        await client.cancel()
        answer = client.prompt("true")
        await client.allow()
        assert (await answer).stop_reason == "end_turn"


async def test_five_megabytes_arrive_completely_in_constant_memory(tmp_path: Path) -> None:
    async with conversation(tmp_path) as client:
        before = peak_memory_kib(client.process.pid)
        answer = client.prompt("seq -f '%015.0f' 312500; echo done >&2")
        await client.allow()
        await answer
        assert client.output("stdout") == "".join(f"{number:015d}\n" for number in range(1, 312_501))
        assert client.results()[0]["stdout_bytes"] == 5_000_000
        assert max(len(piece["text"]) for piece in client.pieces()) <= 32 * 1024
        assert peak_memory_kib(client.process.pid) - before < 4_096


async def test_a_prompt_of_many_kilobytes_is_one_readable_line(tmp_path: Path) -> None:
    async with conversation(tmp_path) as client:
        answer = client.prompt("# " + "x" * 3_000_000 + "\necho read")
        await client.allow()
        await answer
        assert client.output("stdout") == "read\n"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("# nothing\n\n", "The prompt contains no command"), ("echo a\0b", "Line 1 of the prompt contains a NUL")],
)
async def test_a_prompt_that_cannot_run_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    async with conversation(tmp_path) as client:
        with pytest.raises(acp.RequestError, match=sentence):
            await client.prompt(text)
        assert client.story() == []


async def test_a_second_prompt_in_a_running_turn_is_refused(tmp_path: Path) -> None:
    async with conversation(tmp_path) as client:
        first = client.prompt("true")
        question = await client.question()
        with pytest.raises(acp.RequestError, match="is running a prompt: wait for its end, or cancel it"):
            await client.prompt("false")
        question.answer("allow")
        assert (await first).stop_reason == "end_turn"


async def test_sessions_have_their_own_workspaces_and_run_concurrently(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    async with conversation(tmp_path) as client:
        first = client.prompt("pwd")
        waiting = await client.question()
        await client.open(tmp_path / "other")
        second = client.prompt("pwd")
        await client.allow()
        await second
        waiting.answer("allow")
        await first
        assert client.output("stdout") == f"{tmp_path}/other\n{tmp_path}\n"


@pytest.mark.parametrize(
    ("workspace", "sentence"), [("relative", "not an absolute path"), ("/no/such/place", "not a directory")]
)
async def test_an_invalid_workspace_is_refused(tmp_path: Path, workspace: str, sentence: str) -> None:
    async with conversation(tmp_path) as client:
        with pytest.raises(acp.RequestError, match=sentence):
            await client.agent.new_session(cwd=workspace, mcp_servers=[])


async def test_an_unknown_session_is_refused(tmp_path: Path) -> None:
    async with conversation(tmp_path) as client:
        with pytest.raises(acp.RequestError, match="There is no session 'other'"):
            await client.agent.prompt(session_id="other", prompt=[schema.TextContentBlock(type="text", text="true")])


def test_the_program_starts_without_the_sdk() -> None:
    code = "import sys, interlock.shell_agent.serve; sys.exit('acp' in sys.modules or 'pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def peak_memory_kib(pid: int | None) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])
