"""One gateway per state directory (N-2)."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from interlock.backends.sqlite.lock import LOCK_NAME, PROBE_S, AlreadyRunning, lock_state

HOLDER = """
import sys
from pathlib import Path
from interlock.backends.sqlite.lock import lock_state
lock = lock_state(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.req("N-2")
def test_a_second_gateway_is_refused_at_once_naming_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", pytest.fail)
    lock = lock_state(tmp_path)
    with pytest.raises(AlreadyRunning, match=rf"process {os.getpid()}\).*already works on.*--state"):
        lock_state(tmp_path)
    lock.release()
    lock.release()
    lock_state(tmp_path).release()
    assert (tmp_path / LOCK_NAME).stat().st_mode & 0o777 == 0o600


@pytest.mark.req("N-2")
def test_a_look_at_the_lock_does_not_refuse_a_gateway_that_starts(tmp_path: Path) -> None:
    lock_state(tmp_path).release()
    with ThreadPoolExecutor(1) as gateway:
        with open(tmp_path / LOCK_NAME) as look:
            fcntl.flock(look, fcntl.LOCK_SH | fcntl.LOCK_NB)
            locking = gateway.submit(lock_state, tmp_path)
            with pytest.raises(TimeoutError):
                locking.result(PROBE_S)
        locking.result().release()


@pytest.mark.req("N-2")
def test_the_kernel_releases_the_lock_when_its_holder_is_killed(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(AlreadyRunning, match=str(holder.pid)):
        lock_state(tmp_path)
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    lock_state(tmp_path).release()
