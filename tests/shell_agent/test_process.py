"""One command as a process: output as it comes, back-pressure, and nothing left behind."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
from pathlib import Path

import pytest

from interlock.shell_agent.process import CHUNK_BYTES, Channel, CommandExit, CommandNotStarted, RunningCommand

pytestmark = pytest.mark.anyio


class Listener:
    """Records the output of a command, and can wait for a text."""

    def __init__(self) -> None:
        self.pieces: list[tuple[Channel, str]] = []
        self._more = asyncio.Event()

    async def __call__(self, channel: Channel, text: str) -> None:
        self.pieces.append((channel, text))
        self._more.set()

    def text(self, channel: Channel = "stdout") -> str:
        return "".join(text for source, text in self.pieces if source == channel)

    async def seen(self, text: str) -> None:
        while text not in self.text():
            self._more.clear()
            await self._more.wait()


def alive(pid: int) -> bool:
    """Whether the process runs; one that only waits to be reaped by its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_a_command_runs_in_its_workspace_without_input(tmp_path: Path) -> None:
    output = Listener()
    ended = await RunningCommand("pwd; cat; echo bad >&2; exit 7", str(tmp_path), output).finish()
    assert ended == CommandExit(exit_code=7, signal=None, stdout_bytes=len(str(tmp_path)) + 1, stderr_bytes=4)
    assert output.text() == f"{tmp_path}\n"
    assert output.text("stderr") == "bad\n"


async def test_a_death_by_signal_is_reported(tmp_path: Path) -> None:
    ended = await RunningCommand("kill -9 $$", str(tmp_path), Listener()).finish()
    assert (ended.exit_code, ended.signal, ended.status) == (None, 9, 137)


async def test_output_arrives_while_the_command_runs(tmp_path: Path) -> None:
    output = Listener()
    os.mkfifo(tmp_path / "go")
    running = RunningCommand("echo first; cat go", str(tmp_path), output)
    finishing = asyncio.create_task(running.finish())
    await output.seen("first\n")
    await asyncio.to_thread((tmp_path / "go").write_text, "second\n")
    assert (await finishing).exit_code == 0
    assert output.text() == "first\nsecond\n"


async def test_characters_split_by_a_read_are_complete_and_invalid_bytes_replaced(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("aä€𝄞" * 20_000)
    output = Listener()
    ended = await RunningCommand(r"cat text; printf '\377\303'", str(tmp_path), output).finish()
    assert output.text() == "aä€𝄞" * 20_000 + "\ufffd\ufffd"
    assert ended.stdout_bytes == 20_000 * 10 + 2
    assert max(len(text.encode()) for _, text in output.pieces) <= CHUNK_BYTES + 3


async def test_a_slow_reader_slows_the_command_in_constant_memory(tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    taken = 0
    gate = asyncio.Semaphore(0)
    begun = asyncio.Event()

    async def slow(_: Channel, text: str) -> None:
        nonlocal taken
        taken += len(text)
        begun.set()
        await gate.acquire()

    running = RunningCommand("head -c 50000000 /dev/zero | tr '\\0' x; echo done > done", str(tmp_path), slow)
    finishing = asyncio.create_task(running.finish())
    await begun.wait()
    assert not (tmp_path / "done").exists()
    for _ in range(50_000_000 // 4_096 + 1):  # no piece can be smaller than a page but the last
        gate.release()
    assert (await finishing).stdout_bytes == taken == 50_000_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000  # KiB


async def test_processes_that_a_command_leaves_in_its_group_end_with_it(tmp_path: Path) -> None:
    ended = await RunningCommand("sleep 300 & echo $! > pid", str(tmp_path), Listener()).finish()
    assert ended.exit_code == 0
    pid = int((tmp_path / "pid").read_text())
    while alive(pid):
        await asyncio.sleep(0)


async def test_a_process_that_left_the_group_does_not_hold_the_command_open(tmp_path: Path) -> None:
    output = Listener()
    line = "setsid sh -c 'echo $$ > pid; exec sleep 300' & while [ ! -s pid ]; do :; done; echo mine"
    ended = await asyncio.wait_for(RunningCommand(line, str(tmp_path), output).finish(), 10)
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    assert ended.exit_code == 0
    assert output.text() == "mine\n"


async def test_a_process_with_output_that_left_the_group_does_not_hold_it_open_either(tmp_path: Path) -> None:
    line = "setsid sh -c 'echo $$ > pid; exec yes' & while [ ! -s pid ]; do :; done"
    ended = await asyncio.wait_for(RunningCommand(line, str(tmp_path), Listener()).finish(), 10)
    assert ended.exit_code == 0
    pid = int((tmp_path / "pid").read_text())
    while alive(pid):  # its pipe was closed, so it dies of SIGPIPE
        await asyncio.sleep(0)


async def test_terminate_lets_the_command_clean_up(tmp_path: Path) -> None:
    output = Listener()
    running = RunningCommand(
        "trap 'echo bye; exit 5' TERM; echo up; while :; do sleep 0.01; done", str(tmp_path), output
    )
    finishing = asyncio.create_task(running.finish())
    await output.seen("up")
    await running.terminate()
    assert (await finishing).exit_code == 5
    assert output.text() == "up\nbye\n"


async def test_terminate_kills_a_command_that_ignores_it_or_is_stopped(tmp_path: Path) -> None:
    output = Listener()
    running = RunningCommand("trap '' TERM; echo up; kill -STOP $$; sleep 300", str(tmp_path), output)
    finishing = asyncio.create_task(running.finish())
    await output.seen("up")
    await asyncio.wait_for(running.terminate(), 10)
    assert (await finishing).signal == 9
    await running.terminate()  # a second time changes nothing


async def test_many_commands_at_once_do_not_hide_the_end_of_one(tmp_path: Path) -> None:
    long = [RunningCommand("exec sleep 300", str(tmp_path), Listener()) for _ in range(40)]
    finishing = [asyncio.create_task(running.finish()) for running in long]
    ended = await asyncio.wait_for(RunningCommand("exit 4", str(tmp_path), Listener()).finish(), 10)
    assert ended.exit_code == 4
    await asyncio.gather(*(running.terminate() for running in long))
    assert {ended.signal for ended in await asyncio.gather(*finishing)} == {signal.SIGTERM}


async def test_a_failing_reader_ends_the_command(tmp_path: Path) -> None:
    async def broken(_: Channel, __: str) -> None:
        raise RuntimeError("gone")

    with pytest.raises(ExceptionGroup):
        await RunningCommand("echo $$ > pid; echo out; sleep 300", str(tmp_path), broken).finish()
    assert not alive(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize(("line", "cwd"), [("true", "/no/such/place"), ("true " + "x" * 300_000, "/"), ("a\0b", "/")])
async def test_a_command_that_cannot_start_has_a_reason(line: str, cwd: str) -> None:
    with pytest.raises(CommandNotStarted, match=r"No such file|too long|null byte"):
        RunningCommand(line, cwd, Listener())
