"""The children of a process end with it, also if it is killed."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.app import child_cleanup

PATIENCE_S = 30
STARTER = """
import signal, subprocess, sys
from interlock.app import child_cleanup

heard = "trap 'echo heard > {heard}; exit' INT; echo ready; while :; do sleep 0.05; done"
wait = "exec sleep 1000"
ways = [(wait, signal.SIGKILL), (wait, signal.SIGTERM), (heard, signal.SIGINT), (wait, None)]
for line, how in ways:
    child = subprocess.Popen(["sh", "-c", line], stdout=subprocess.PIPE, text=True, start_new_session=True)
    child_cleanup.leave(child.pid, how or signal.SIGKILL)
    if line is heard:
        child.stdout.readline()
    if how is None:
        child_cleanup.take_back(child.pid)
    print(child.pid, flush=True)
sys.stdin.read()
"""


def ended(handle: int, within_s: float = PATIENCE_S) -> bool:
    return bool(select.select([handle], [], [], within_s)[0])


@pytest.mark.req("G-3")
def test_processes_left_by_a_killed_starter_are_ended_except_released_ones(tmp_path: Path) -> None:
    interrupted = tmp_path / "heard"
    starter = subprocess.Popen([sys.executable, "-c", STARTER.replace("{heard}", str(interrupted))], text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert starter.stdout is not None
    pids = [int(starter.stdout.readline()) for _ in range(4)]
    handles = [os.pidfd_open(pid) for pid in pids]
    stopped, _, _, kept = pids
    os.kill(stopped, signal.SIGSTOP)

    starter.kill()
    starter.communicate(timeout=PATIENCE_S)

    assert all(ended(handle) for handle in handles[:3])
    assert interrupted.read_text() == "heard\n"
    assert not ended(handles[3], 0)
    os.killpg(kept, signal.SIGKILL)
    assert ended(handles[3])


@pytest.mark.req("A-4")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux reports when a process started")
@pytest.mark.parametrize("handles", [True, False])
def test_a_later_process_with_the_same_pid_is_left_alone(
    handles: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not handles:
        monkeypatch.delattr(os, "pidfd_open")
    with subprocess.Popen(["sleep", "1000"]) as process:
        since = child_cleanup.started(process.pid)
        assert since > 0
        another = child_cleanup.Left(process.pid, signal.SIGKILL, since - 1)
        another.end()
        assert not another.is_there()
        assert process.poll() is None

        own = child_cleanup.Left(process.pid, signal.SIGKILL, since)
        assert own.is_there()
        own.end()
        assert process.wait(PATIENCE_S) == -signal.SIGKILL
        for each in (another, own):
            each.close()
