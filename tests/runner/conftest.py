"""Real agents for the runner's tests: programs in Python, started under a session of their own, ended with the test."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path

import pytest

from interlock.runner.process.environment import environment
from interlock.runner.process.process import AgentProcess

PATIENCE_S = 20.0
"""A test that waits longer for an event has failed."""

Start = Callable[..., Awaitable[AgentProcess]]
Gone = Callable[[Iterable[int]], Awaitable[None]]
Numbers = itertools.count(1)


@pytest.fixture
def session_id() -> str:
    return f"session-{os.getpid()}-{next(Numbers)}"


@pytest.fixture
def runner_id() -> str:
    return f"runner-{os.getpid()}-{next(Numbers)}"


@pytest.fixture
async def start(session_id: str, runner_id: str, tmp_path: Path) -> AsyncIterator[Start]:
    """`await start(code, *arguments)` runs Python code as an agent in `tmp_path`."""
    started: list[AgentProcess] = []

    async def start(code: str, *arguments: str) -> AgentProcess:
        env = environment(os.environ, session_id=session_id, workspace=tmp_path, runner_id=runner_id)
        argv = [sys.executable, "-I", "-S", "-c", code, *arguments]
        process = await AgentProcess.start(argv, env, tmp_path)
        started.append(process)
        return process

    yield start
    for process in started:
        await process.terminate(0)


@pytest.fixture
def gone() -> Gone:
    """Wait by pidfd until each of these processes has ended."""

    async def watch(pid: int) -> None:
        try:
            watched = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        loop.add_reader(watched, ended.set)
        try:
            await asyncio.wait_for(ended.wait(), PATIENCE_S)
        finally:
            loop.remove_reader(watched)
            os.close(watched)

    async def gone(pids: Iterable[int]) -> None:
        await asyncio.gather(*(watch(pid) for pid in pids))

    return gone


@pytest.fixture
def state() -> Callable[[int], str]:
    """The state letter of a process, "" if it does not exist: R, S, T (stopped), Z."""

    def state(pid: int) -> str:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return ""

    return state


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], Awaitable[None]]:
    """Wait for a change in the kernel without an event: poll every few milliseconds, up to a limit."""

    async def until(condition: Callable[[], bool]) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE_S
        while not condition():
            assert loop.time() < deadline, "It did not come to pass."
            look = loop.create_future()
            loop.call_later(0.005, look.set_result, None)
            await look

    return until


@pytest.fixture
def daemon() -> str:
    """An agent whose child forks twice, leaves the session, and ignores SIGTERM; with `bare` as argument it also
    drops its environment. The agent prints the child's pid and waits."""
    return """
import os, signal, sys
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.set_inheritable(write, True)
        code = f"import os, signal; os.write({write}, str(os.getpid()).encode()); signal.pause()"
        os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", code], {} if "bare" in sys.argv else os.environ)
    os._exit(0)
os.wait()
print(os.read(read, 32).decode(), flush=True)
signal.pause()
"""
