"""Processes found by their environment, and by `ps` without /proc (A-4)."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from interlock.runner.process import reaper, supervisor
from interlock.runner.process.process import AgentProcess

pytestmark = pytest.mark.anyio
Start = Callable[..., Awaitable[AgentProcess]]


@pytest.mark.req("A-4")
async def test_a_session_is_ended_without_its_supervisor(start: Start, daemon: str, session_id: str) -> None:
    agent = await start(daemon)
    child = int(await anext(agent.lines()))
    assert reaper.live_descendants(session_id) == sorted([agent.pid, child])
    ended, survivors = await reaper.end_session(session_id)
    assert (ended, survivors) == (sorted([agent.pid, child]), [])
    assert reaper.live_descendants(session_id) == []


@pytest.mark.req("A-4")
async def test_a_child_without_the_variable_is_found_by_its_parent(start: Start, session_id: str) -> None:
    agent = await start("import subprocess; print(subprocess.Popen(['sleep', '1000'], env={}).pid); input()")
    child = int(await anext(agent.lines()))
    assert reaper.live_descendants(session_id) == sorted([agent.pid, child])


@pytest.mark.req("A-4")
async def test_another_session_with_the_same_prefix_is_not_touched(start: Start, session_id: str) -> None:
    agent = await start("input()")
    assert await reaper.end_session(session_id[:-1]) == ([], [])
    assert agent.exit is None


@pytest.mark.req("A-4")
async def test_a_runner_never_ends_itself(tmp_path: Path) -> None:
    code = ("import asyncio; from interlock.runner.process.reaper import reap_leftovers; "
            "print(asyncio.run(reap_leftovers('mine')))")
    inner = await AgentProcess.start([sys.executable, "-c", code], {"RAWP_RUNNER_ID": "mine"}, tmp_path)
    assert [line async for line in inner.lines()] == [b"Reaped(ended=[], survivors=[])"]
    assert (await inner.terminate()).code == 0


@pytest.fixture
def no_proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system without /proc, whose `ps` knows three processes."""
    ps = tmp_path / "ps"
    table = "\n".join((f"{os.getpid()} 1 1 S", "7000001 1 7000001 Ss", "7000002 7000001 7000002 T+"))
    environments = "7000001 node agent.js LANG=C RAWP_SESSION_ID=s1 TERM=x\n7000002 sleep 1 RAWP_SESSION_ID=s10"
    ps.write_text(f"#!/bin/sh\ncase $1 in -axwwEo) echo '{environments}';; *) echo '{table}';; esac\n")
    ps.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(supervisor, "LINUX", False)
    monkeypatch.setattr(reaper, "LINUX", False)


@pytest.mark.req("A-4")
async def test_without_proc_the_table_comes_from_ps(no_proc: None) -> None:
    assert supervisor.process_table()[7000002] == (7000001, 7000002, "T")
    assert reaper.live_descendants("s1") == [7000001, 7000002]
    assert reaper.live_descendants("s10") == [7000002]
    assert await reaper.end_session("s2") == ([], [])


@pytest.mark.req("A-4")
async def test_without_pidfds_a_death_is_detected_by_polling(no_proc: None, start: Start) -> None:
    agent = await start("input()")
    assert await reaper.until_gone([agent.pid], 0.03) == [agent.pid]
    await agent.terminate(0)
    assert await reaper.until_gone([agent.pid], 5) == []


@pytest.mark.req("A-4")
def test_a_family_is_the_tree_and_the_group_without_zombies_and_supervisor() -> None:
    table = {
        10: (1, 10, "S"),  # the supervisor
        11: (10, 11, "S"),  # the agent, which leads the group
        12: (11, 12, "T"),  # its child, in a group of its own
        13: (1, 11, "R"),  # of the group, but no longer of the tree
        14: (13, 14, "S"),
        15: (11, 11, "Z"),
        16: (1, 16, "S"),  # a stranger
    }
    assert supervisor.family(10, 11, table) == {11, 12, 13, 14}


@pytest.mark.req("A-4")
async def test_a_supervisor_reads_no_more_on_a_larger_host(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a runner dies, the supervisor of each agent reads its own descendants, not those of the others."""
    others = [await start("input()") for _ in range(3)]
    agent = await start("import subprocess as s; p = s.Popen(['sleep', '60']); print(p.pid, flush=True); input()")
    child = int(await anext(agent.lines()))
    read: list[int] = []
    read_row, (keeper, _, _) = supervisor.process_row, supervisor.process_table()[agent.pid]

    def counted(pid: int) -> tuple[int, int, str] | None:
        read.append(pid)
        return read_row(pid)

    monkeypatch.setattr(supervisor, "process_row", counted)
    assert supervisor.descendant_table(keeper).keys() == {agent.pid, child}
    assert set(read) == {agent.pid, child}
    assert not {other.pid for other in others} & set(read)
