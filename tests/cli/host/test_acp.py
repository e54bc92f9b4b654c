"""`interlock acp` as an editor starts it: a process with pipes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.cli.exit_status import ExitStatus
from interlock.doors.acp.door import AUTH_REQUIRED
from interlock.jsonrpc import PARSE_ERROR
from proof.processes.fork_server import ForkServer


def acp(fork_server: ForkServer, state: Path, *lines: str,
        arguments: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    return fork_server.run(["acp", *arguments, "--state", str(state)], state,
                           stdin="".join(line + "\n" for line in lines))


@pytest.mark.req("O-1", "O-6")
def test_initialize_is_answered_without_a_gateway_and_the_end_of_input_ends_it(
    fork_server: ForkServer, tmp_path: Path
) -> None:
    done = acp(fork_server, tmp_path, '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}',
               "not json",
               '{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}')

    answers = {answer["id"]: answer for answer in map(json.loads, done.stdout.splitlines())}
    assert (done.returncode, done.stderr) == (ExitStatus.DONE, "")
    assert set(answers) == {1, 2, None}
    assert answers[1]["result"]["agentInfo"]["name"] == "interlock"
    assert answers[2]["error"]["code"] == AUTH_REQUIRED
    assert "interlock up" in answers[2]["error"]["message"]
    assert answers[None]["error"]["code"] == PARSE_ERROR


@pytest.mark.req("O-1")
def test_an_invalid_argument_and_a_file_for_a_pipe_give_one_sentence_each(
    fork_server: ForkServer, tmp_path: Path
) -> None:
    wrong = acp(fork_server, tmp_path, arguments=("bad id!",))
    with (tmp_path / "out").open("wb") as file:
        no_pipe = subprocess.run([sys.executable, "-m", "interlock", "acp", "--state", str(tmp_path)], stdout=file,
                                 stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=60, check=False)

    assert (wrong.returncode, wrong.stderr.count("\n")) == (ExitStatus.USAGE, 1)
    assert "interlock agents" in wrong.stderr
    assert (no_pipe.returncode, no_pipe.stderr.count("\n")) == (ExitStatus.USAGE, 1)
    assert "is not a pipe" in no_pipe.stderr
