"""Starting agents in a runner that has many descriptors open, or none left (A-4, A-8)."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import anyio.lowlevel
import pytest

from interlock.ports.agent import AgentStartFailed, ProcessExit
from interlock.runner.process import reaper
from interlock.runner.process.process import AgentProcess
from runner.stage import stage

pytestmark = pytest.mark.anyio
FD_SETSIZE = 1024
"""select(2) cannot watch a descriptor with this number or a larger one."""
Occupied = Callable[[int], None]


@contextmanager
def soft_limit(count: int) -> Generator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.fixture
def occupied() -> Generator[Occupied]:
    """`occupied(n)` opens descriptors until the next free number is `n`."""
    opened: list[int] = []

    def occupy(number: int) -> None:
        while not opened or opened[-1] < number - 1:
            opened.append(os.open(os.devnull, os.O_RDONLY))

    yield occupy
    for descriptor in opened:
        os.close(descriptor)


@pytest.mark.req("A-4")
async def test_an_agent_runs_with_more_open_descriptors_than_select_supports(
    occupied: Occupied, tmp_path: Path
) -> None:
    with soft_limit(4 * FD_SETSIZE):
        occupied(FD_SETSIZE + 100)
        agent = await AgentProcess.start(["/bin/cat"], {}, tmp_path)
        try:
            await agent.write(b"still here\n")
            assert await anext(agent.lines()) == b"still here"
        finally:
            ended = await agent.terminate()
    assert ended == ProcessExit(None, 15)


@pytest.mark.req("A-4")
async def test_a_runner_without_a_free_descriptor_refuses_the_start_and_keeps_its_agents(
    occupied: Occupied, tmp_path: Path
) -> None:
    agent = await AgentProcess.start(["/bin/cat"], {}, tmp_path)
    before = set(os.listdir("/proc/self/fd"))
    # A start needs ten descriptors: it must fail alike at the first of them, and at any later one.
    for spare in range(10):
        free = os.open(os.devnull, os.O_RDONLY)
        os.close(free)
        with soft_limit(free + spare), pytest.raises(AgentStartFailed, match=r"cat .*descriptor.*`LimitNOFILE=`"):
            await AgentProcess.start(["/bin/cat"], {}, tmp_path)
        await anyio.lowlevel.checkpoint()  # asyncio closes a socket in the next round of its loop.
        assert set(os.listdir("/proc/self/fd")) == before, "a refused start keeps no descriptor"
    await agent.write(b"still here\n")
    assert await anext(agent.lines()) == b"still here"
    assert await agent.terminate() == ProcessExit(None, 15)


@pytest.mark.req("A-4")
async def test_waiting_for_a_process_needs_no_descriptor(tmp_path: Path) -> None:
    agent = await AgentProcess.start(["/bin/cat"], {}, tmp_path)
    free = os.open(os.devnull, os.O_RDONLY)
    os.close(free)
    with soft_limit(free):
        assert await reaper.until_gone([agent.pid], 0.2) == [agent.pid], "cat is still running"
    await agent.terminate(0)
    with soft_limit(free):
        assert await reaper.until_gone([agent.pid], 20) == []


@pytest.mark.req("W-2", "A-4")
async def test_a_session_without_a_descriptor_is_closed_and_the_other_continues(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        await scene.open("bad")
        await scene.next("session.capabilities")
        async with stage(tmp_path) as second:
            free = os.open(os.devnull, os.O_RDONLY)
            os.close(free)
            with soft_limit(free):
                await second.open("bad")
                error = await second.next("session.error")
            assert error.payload.error_code == "AGENT_START_FAILED"
            assert "no file descriptor left" in error.payload.message
            await second.next("session.closed")
        assert (await scene.turn("text:hello")).payload.stop_reason == "end_turn"


async def test_an_agent_has_the_runners_original_descriptor_limit(tmp_path: Path) -> None:
    with soft_limit(4 * FD_SETSIZE):
        agent = await AgentProcess.start(["/bin/sh", "-c", "ulimit -n"], {}, tmp_path, descriptors=FD_SETSIZE)
        lines = [line async for line in agent.lines()]
        await agent.terminate()
    assert lines == [b"1024"]
