"""Hold one program as a test, as the supervisor does (H-16)."""

# Started without `site`, for speed: no contextlib.
from __future__ import annotations

import _socket
import os
import select
import signal
import time

from interlock.box.exec_filter import receive_listener, send_listener
from interlock.box.gate import ProgramGate
from interlock.box.ptrace import WAIT_ALL
from interlock.box.wall_setup import raise_walls

SHELL = b"/bin/sh"
SCRIPT = b"/bin/sh -c 'exit 7'; exit $?"
EXPECTED_STATUS = 7
WAIT_S = 10.0
POLL_MS = 10


def hold_one(walls: list[bytes]) -> str:
    """Make a shell start itself behind walls, release it, and check its comparison. Return "" or why not. Raises
    OSError."""
    receiving, sending = _socket.socketpair()
    report, report_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            raise_walls(walls)
            send_listener(sending)
            os.execv(SHELL, [SHELL, b"-c", SCRIPT])
        except OSError as failed:
            os.write(report_end, (failed.strerror or "failed").encode())
        finally:
            os._exit(127)
    os.close(report_end)
    sending.close()
    listener = receive_listener(receiving)
    receiving.close()
    lines: list[str] = []
    poll = select.poll()
    gate = ProgramGate(listener, pid, {}, lines.append, poll) if listener >= 0 else None
    try:
        if gate is not None:
            gate.let_agent_start()
        if why := os.read(report, 200).decode():
            return why
        status = _until_over(gate, poll, lines, pid) if gate is not None else -1
    finally:
        os.close(report)
        _end(pid)
    if status != EXPECTED_STATUS:
        return "a program that was allowed did not run"
    return "a program cannot be compared with what was allowed" if any(line[0] in "MN" for line in lines) else ""


def _until_over(gate: ProgramGate, poll: select.poll, lines: list[str], pid: int) -> int:
    """Answer for the programs that the shell starts, and return its exit status; -1 if it took too long."""
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        for number, happened in poll.poll(POLL_MS):
            gate.ready(number, happened)
        if any(line.startswith("P 1 ") for line in lines):
            gate.take([b"A", b"1", b"once"])  # A second answer changes nothing.
        found, status = os.waitpid(-1, os.WNOHANG | WAIT_ALL)
        if found and not gate.stopped(found, status) and found == pid:
            return os.waitstatus_to_exitcode(status)
    return -1


def _end(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError):
        pass  # It has ended, and was waited for.
