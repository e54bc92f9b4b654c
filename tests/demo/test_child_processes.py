"""Processes of the demonstration: the last output of one that ends before it is ready is shown, and none outlives its
stop."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from interlock.demo import child_processes
from interlock.demo.child_processes import ChildProcess, NotStarted

pytestmark = pytest.mark.anyio


async def started(log: Path, code: str) -> ChildProcess:
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=errors, stderr=errors,
                                                       start_new_session=True)
    return ChildProcess("gateway", process, log)


async def test_a_process_that_ends_before_it_is_ready_is_named_with_its_last_output(tmp_path: Path) -> None:
    child = await started(tmp_path / "log", "print('first'); print('no disk'); raise SystemExit(3)")
    with pytest.raises(NotStarted, match=r"The gateway ended before it was ready: no disk$"):
        await child.ready(asyncio.Event().wait())

    assert await child.stop() == 3
    assert child.log_tail(2) == "first\nno disk"


async def test_a_ready_process_gives_the_awaited_match_and_ends_when_stopped(tmp_path: Path) -> None:
    child = await started(tmp_path / "log", "import time; time.sleep(600)")

    async def sign() -> str:
        return "ready"

    assert await child.ready(sign()) == "ready"
    assert await child.stop() < 0
    assert (tmp_path / "log").exists()


async def test_a_process_that_does_not_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_processes, "STOP_S", 0.05)
    child = await started(tmp_path / "log", "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
                                            "print('deaf', flush=True); time.sleep(600)")
    while child.log_tail() != "deaf":
        await asyncio.sleep(0.01)

    assert await child.stop() == -9
