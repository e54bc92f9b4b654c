"""Find processes by a variable in their environment, which the tree of parents cannot show (A-4).

The supervisor of each agent sees its whole tree to the end. This module handles the rest: a supervisor that was itself
killed, a runner and its supervisors that died together, agents that an SDK starts inside the runner, and systems
without subreapers. It cannot find a process that replaced its environment *and* lost its supervisor.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from interlock.runner.process.environment import RUNNER, SESSION
from interlock.runner.process.supervisor import LINUX, exists, process_table

SWEEPS = 100
"""Rounds of SIGKILL before survivors are reported instead; one is enough unless something forks meanwhile."""
SWEEP_WAIT_S = 5.0
"""Time that one round waits for its processes to end."""
POLL_S = 0.02
"""Interval of polling without a pidfd."""


class Reaped(NamedTuple):
    """The result of a sweep: pids that are gone, pids that survived."""

    ended: list[int]
    survivors: list[int]


def live_descendants(session_id: str) -> list[int]:
    """Return living processes with this RAWP_SESSION_ID in their environment, and their descendants, in rising order.

    This process and its own ancestors are never included. Reads the process table: milliseconds, no waiting.
    """
    return _marked(SESSION, session_id)


async def end_session(session_id: str) -> Reaped:
    """Send SIGKILL to what `live_descendants` finds, and wait until it is gone; repeat until nothing is found."""
    return await _end(SESSION, session_id)


def lives_mark(runner_id: str, state_dir: Path) -> str:
    """Return the RAWP_RUNNER_ID that the agents of all runs of one runner carry, and those of no other runner.

    The runner's id alone is not enough: the local runner of every state directory has the same one, and `interlock
    demo` beside `interlock up` would end the agents of the other.
    """
    place = hashlib.sha256(os.fsencode(state_dir.resolve())).hexdigest()[:16]
    return f"{runner_id}@{place}"


async def reap_leftovers(mark: str) -> Reaped:
    """End everything that earlier runs with the same mark left, before this runner starts any agent (A-4)."""
    return await _end(RUNNER, mark)


async def until_gone(pids: Iterable[int], timeout_s: float) -> list[int]:
    """Wait at most `timeout_s` until these processes have ended; return those that have not. A zombie has ended."""
    watches = [asyncio.create_task(_gone(pid)) for pid in pids]
    if not watches:
        return []
    _, pending = await asyncio.wait(watches, timeout=timeout_s)
    left = [pid for pid, watch in zip(pids, watches, strict=True) if watch in pending]
    for watch in pending:
        watch.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    return left


async def _gone(pid: int) -> None:
    try:
        watched = os.pidfd_open(pid) if LINUX else None
    except ProcessLookupError:
        return
    except OSError:  # No descriptor is free, or the kernel has no pidfd.
        watched = None
    if watched is None:
        while _is_running(pid):  # noqa: ASYNC110  There is no event to wait for.
            await asyncio.sleep(POLL_S)
        return
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(watched, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(watched)
        os.close(watched)


def _is_running(pid: int) -> bool:
    """Return whether the process exists and, as far as can be read, is not a zombie."""
    if LINUX:
        with suppress(OSError, IndexError):
            stat = Path(f"/proc/{pid}/stat").read_bytes()
            return stat.rpartition(b")")[2].split(None, 1)[0] not in (b"Z", b"X")
    return exists(pid)


async def _end(name: str, value: str) -> Reaped:
    ended: set[int] = set()
    for _ in range(SWEEPS):
        found = _marked(name, value)
        if not found:
            return Reaped(sorted(ended), [])
        reached = [pid for pid in found if _kill(pid)]
        if not reached:
            return Reaped(sorted(ended), found)
        left = await until_gone(reached, SWEEP_WAIT_S)
        ended.update(set(reached) - set(left))
    return Reaped(sorted(ended), _marked(name, value))


def _kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return True


def _marked(name: str, value: str) -> list[int]:
    table = process_table()
    spared: set[int] = set()
    pid = os.getpid()
    while pid in table and pid not in spared:
        spared.add(pid)
        pid = table[pid][0]
    children: dict[int, list[int]] = {}
    for pid, (parent, _, _) in table.items():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    seeds = _carriers(name, value, table)
    while seeds:
        pid = seeds.pop()
        if pid not in found and pid not in spared:
            found.add(pid)
            seeds += children.get(pid, [])
    return sorted(pid for pid in found if table[pid][2] not in "ZX")


def _carriers(name: str, value: str, table: Iterable[int]) -> list[int]:
    variable = f"{name}={value}".encode()
    if LINUX:
        return [pid for pid in table if variable in _environ(pid).split(b"\0")]
    listing = subprocess.run(["ps", "-axwwEo", "pid=,command="], capture_output=True, check=False).stdout
    rows = (line.split() for line in listing.splitlines())
    return [int(fields[0]) for fields in rows if variable in fields[1:]]


def _environ(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""  # It ended, or is another user's.
