"""A turn of the shell agent: its lines in order, each after its own grant, up to the first that fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from lazily import lazily
from shell_agent.shell_conversation import conversation

pytestmark = [pytest.mark.anyio, pytest.mark.req("A-7")]
acp, schema, turns = lazily("acp"), lazily("acp.schema"), lazily("interlock.shell_agent.turn")


async def test_lines_run_one_after_another_each_with_its_own_grant(tmp_path: Path) -> None:
    async with conversation(tmp_path) as connection:
        answer = connection.prompt("# write, then read\necho one > f; \\\n  echo two >> f\n\ncat f\n")
        assert (await connection.allow()).command == "echo one > f;   echo two >> f"
        assert (await connection.allow()).command == "cat f"
        await answer
        assert connection.output("stdout") == "one\ntwo\n"
        assert connection.says() == ["ran 2 commands"]


async def test_a_denied_command_and_the_rest_do_not_run(tmp_path: Path) -> None:
    async with conversation(tmp_path) as connection:
        answer = connection.prompt("touch one\ntouch two\ntouch three")
        await connection.allow()
        (await connection.question()).answer("reject")
        response = await answer
        assert response.stop_reason == "end_turn"
        assert response.field_meta is None
        assert connection.story()[-2:] == [
            ("failed", "not allowed"),
            ("says", "command 2 of 3 was not allowed, and 1 more was not run: touch two"),
        ]
        assert [path.name for path in tmp_path.iterdir()] == ["one"]


async def test_the_first_failure_stops_the_script_and_answers_with_an_error(tmp_path: Path) -> None:
    async with conversation(tmp_path) as connection:
        answer = connection.prompt("true\necho no >&2; exit 7\ntouch never")
        await connection.allow()
        await connection.allow()
        with pytest.raises(acp.RequestError) as failure:
            await answer
        sentence = "command 2 of 3 failed with exit status 7, and 1 more was not run: echo no >&2; exit 7"
        assert str(failure.value) == sentence
        assert failure.value.code == turns.COMMAND_FAILED
        assert failure.value.data == {"interlock": {"exit_code": 7}}
        assert connection.says() == [sentence]
        assert connection.output("stderr") == "no\n"
        assert not (tmp_path / "never").exists()


async def test_a_command_killed_by_a_signal_fails_with_the_shells_status(tmp_path: Path) -> None:
    async with conversation(tmp_path) as connection:
        answer = connection.prompt("kill -9 $$")
        await connection.allow()
        with pytest.raises(acp.RequestError, match=r"was ended by signal 9 \(SIGKILL\)") as failure:
            await answer
        assert failure.value.data == {"interlock": {"exit_code": 137}}
        assert connection.results() == [{"exit_code": None, "signal": 9, "stdout_bytes": 0, "stderr_bytes": 0}]


async def test_a_command_that_cannot_start_fails_with_its_reason(tmp_path: Path) -> None:
    async with conversation(tmp_path) as connection:
        answer = connection.prompt("true " + "x" * 300_000)
        await connection.allow()
        with pytest.raises(acp.RequestError, match="could not be started") as failure:
            await answer
        assert failure.value.data == {"interlock": {"exit_code": 126}}
        assert len(str(failure.value)) < 400
