"""The few calls of ptrace: a started program is stopped before its first instruction, and released unharmed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from interlock.box import ptrace

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ptrace is Linux's")


def test_the_event_of_a_status_is_in_the_bits_above_the_signal() -> None:
    assert ptrace.event((ptrace.EVENT_EXEC << 16) | (signal.SIGTRAP << 8) | 0x7F) == ptrace.EVENT_EXEC
    assert ptrace.event((signal.SIGTERM << 8) | 0x7F) == 0


def test_a_program_stops_at_its_exec_and_continues_when_released() -> None:
    program = subprocess.Popen(["/bin/sh", "-c", "read line; exec true"], stdin=subprocess.PIPE)
    assert program.stdin is not None
    try:
        try:
            ptrace.seize(program.pid)
        except PermissionError:
            pytest.skip("this host lets no one trace")
        program.stdin.write(b"\n")
        program.stdin.flush()
        _, status = os.waitpid(program.pid, ptrace.WAIT_ALL)
        assert ptrace.event(status) == ptrace.EVENT_EXEC
        ptrace.release(program.pid)
        assert program.wait(timeout=30) == 0
    finally:
        program.stdin.close()
        if program.poll() is None:
            program.kill()
            program.wait()


def test_a_dead_process_cannot_be_traced() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()

    with pytest.raises(ProcessLookupError):
        ptrace.seize(gone.pid)
