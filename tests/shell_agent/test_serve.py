"""The shell agent as a program: it ends with what it runs, and wrong use is one sentence."""

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
from shell_agent.shell_conversation import conversation

pytestmark = [pytest.mark.anyio, pytest.mark.req("A-7")]


@pytest.mark.parametrize("how", ["end of input", "signal"])
async def test_the_agent_ends_with_its_running_command(tmp_path: Path, how: str) -> None:
    async with conversation(tmp_path) as connection:
        answer = connection.prompt("echo $$ > pid; echo up; exec sleep 300")
        await connection.allow()
        await connection.printed("up")
        if how == "signal":
            connection.process.terminate()
        else:
            assert connection.process.stdin is not None
            connection.process.stdin.close()
        assert await connection.process.wait() == (0 if how == "end of input" else -signal.SIGTERM)
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / "pid").read_text()), 0)
        answer.cancel()


async def test_the_agent_ends_even_if_its_output_is_not_read(tmp_path: Path) -> None:
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


def test_wrong_usage_gives_a_sentence(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "Agent Client Protocol" in capfd.readouterr().out
    assert main(["--fast"]) == 2
    assert "takes no arguments, but got '--fast'" in capfd.readouterr().err


def test_input_that_is_not_a_pipe_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "interlock.shell_agent"], stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: standard input and output must be pipes")


def test_input_that_is_not_acp_is_reported_without_a_traceback() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "interlock.shell_agent"], input="hello\n[1]\n", capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr == "error: line 1 of the input is not a JSON-RPC message\n"
    assert "Traceback" not in done.stderr
