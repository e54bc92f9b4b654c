"""The agent program `shell`, driven over real pipes with the official SDK: each test reads as the conversation."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.shell_agent import main
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


async def test_nothing_runs_before_the_yes(tmp_path: Path) -> None:
    async with conversation(tmp_path) as talk:
        answer = talk.prompt("touch made")
        question = await talk.question()
        assert not (tmp_path / "made").exists()
        assert talk.story() == [("call", "touch made", "pending")]
        question.answer("allow")
        await answer
        assert (tmp_path / "made").exists()


async def test_lines_run_one_after_another_each_with_its_own_yes(tmp_path: Path) -> None:
    async with conversation(tmp_path) as talk:
        answer = talk.prompt("# write, then read\necho one > f; \\\n  echo two >> f\n\ncat f\n")
        assert (await talk.allow()).command == "echo one > f;   echo two >> f"
        assert (await talk.allow()).command == "cat f"
        await answer
        assert talk.output("stdout") == "one\ntwo\n"
        assert talk.says() == ["ran 2 commands"]


async def test_a_denied_command_does_not_run_nor_does_the_rest(tmp_path: Path) -> None:
    async with conversation(tmp_path) as talk:
        answer = talk.prompt("touch one\ntouch two\ntouch three")
        await talk.allow()
        (await talk.question()).answer("reject")
        response = await answer
        assert response.stop_reason == "end_turn"
        assert response.field_meta is None
        assert talk.story()[-2:] == [
            ("failed", "not allowed"),
            ("says", "command 2 of 3 was not allowed, and 1 more was not run: touch two"),
        ]
        assert [path.name for path in tmp_path.iterdir()] == ["one"]


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


async def test_it_stops_at_the_first_failure_and_answers_with_an_error(tmp_path: Path) -> None:
    async with conversation(tmp_path) as talk:
        answer = talk.prompt("true\necho no >&2; exit 7\ntouch never")
        await talk.allow()
        await talk.allow()
        with pytest.raises(acp.RequestError) as failure:
            await answer
        sentence = "command 2 of 3 failed with exit status 7, and 1 more was not run: echo no >&2; exit 7"
        assert str(failure.value) == sentence
        assert failure.value.code == turns.COMMAND_FAILED
        assert failure.value.data == {"interlock": {"exit_code": 7}}
        assert talk.says() == [sentence]
        assert talk.output("stderr") == "no\n"
        assert not (tmp_path / "never").exists()


async def test_a_command_killed_by_a_signal_fails_as_a_shell_would_say(tmp_path: Path) -> None:
    async with conversation(tmp_path) as talk:
        answer = talk.prompt("kill -9 $$")
        await talk.allow()
        with pytest.raises(acp.RequestError, match=r"was ended by signal 9 \(SIGKILL\)") as failure:
            await answer
        assert failure.value.data == {"interlock": {"exit_code": 137}}
        assert talk.results() == [{"exit_code": None, "signal": 9, "stdout_bytes": 0, "stderr_bytes": 0}]


async def test_a_command_that_cannot_start_fails_with_its_reason(tmp_path: Path) -> None:
    async with conversation(tmp_path) as talk:
        answer = talk.prompt("true " + "x" * 300_000)
        await talk.allow()
        with pytest.raises(acp.RequestError, match="could not be started") as failure:
            await answer
        assert failure.value.data == {"interlock": {"exit_code": 126}}
        assert len(str(failure.value)) < 400


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


@pytest.mark.parametrize("how", ["end of input", "signal"])
async def test_it_ends_with_its_running_command(tmp_path: Path, how: str) -> None:
    async with conversation(tmp_path) as talk:
        answer = talk.prompt("echo $$ > pid; echo up; exec sleep 300")
        await talk.allow()
        await talk.printed("up")
        if how == "signal":
            talk.process.terminate()
        else:
            assert talk.process.stdin is not None
            talk.process.stdin.close()
        assert await talk.process.wait() == (0 if how == "end of input" else -signal.SIGTERM)
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / "pid").read_text()), 0)
        answer.cancel()


async def test_it_ends_though_nobody_reads_its_output(tmp_path: Path) -> None:
    """The command floods, the peer stops reading and hangs up: no send of the agent's may hold it back."""
    process = subprocess.Popen(
        [sys.executable, "-m", "interlock.shell_agent"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        lines = iter(process.stdout.readline, b"")

        def call(number: int, method: str, params: dict[str, object]) -> None:
            assert process.stdin is not None
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            process.stdin.write(json.dumps(message).encode() + b"\n")

        call(1, "session/new", {"cwd": str(tmp_path), "mcpServers": []})
        session_id = json.loads(next(lines))["result"]["sessionId"]
        prompt = [{"type": "text", "text": "echo $$ > pid; exec yes"}]
        call(2, "session/prompt", {"sessionId": session_id, "prompt": prompt})
        question = next(message for line in lines if "options" in (message := json.loads(line)).get("params", {}))
        yes = {"outcome": {"outcome": "selected", "optionId": "allow"}}
        process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": question["id"], "result": yes}).encode() + b"\n")
        assert any(b'"y\\ny\\n' in line for line in lines)
        process.stdin.close()
        assert await asyncio.to_thread(process.wait, 10) == 0
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / "pid").read_text()), 0)


def test_wrong_use_is_told_in_a_sentence(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "Agent Client Protocol" in capfd.readouterr().out
    assert main(["--fast"]) == 2
    assert "takes no arguments, but got '--fast'" in capfd.readouterr().err


def test_input_that_is_no_pipe_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "interlock.shell_agent"], stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: standard input and output must be pipes")


def test_input_that_is_not_acp_is_told_without_a_traceback() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "interlock.shell_agent"], input="hello\n[1]\n", capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr == "error: line 1 of the input is not a JSON-RPC message\n"
    assert "Traceback" not in done.stderr


def test_the_program_starts_without_the_sdk() -> None:
    code = "import sys, interlock.shell_agent.serve; sys.exit('acp' in sys.modules or 'pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def peak_memory_kib(pid: int | None) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])
