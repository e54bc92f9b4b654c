"""The few calls of ptrace(2) that stop a started program before its first instruction (H-16)."""

from __future__ import annotations

import ctypes
import os

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.restype = ctypes.c_long

PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
OPTION_TRACE_EXEC, OPTION_EXIT_KILL = 0x10, 0x10_0000
EVENT_EXEC = 4
WAIT_ALL = 0x4000_0000
"""`__WALL`: wait for traced threads that lead no group, too."""


def _ptrace(request: int, pid: int, data: int = 0) -> None:
    if _libc.ptrace(ctypes.c_long(request), ctypes.c_int(pid), ctypes.c_void_p(0), ctypes.c_void_p(data)) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def seize(tid: int) -> None:
    """Trace a thread without stopping it, until its next exec; it is killed if this process ends. Raises OSError: EPERM
    if another process traces it already, ESRCH if it is gone."""
    _ptrace(PTRACE_SEIZE, tid, OPTION_TRACE_EXEC | OPTION_EXIT_KILL)


def interrupt(tid: int) -> None:
    """Make a traced thread stop after its system call. Raises OSError."""
    _ptrace(PTRACE_INTERRUPT, tid)


def release(tid: int, signal_number: int = 0) -> None:
    """Let a stopped thread continue untraced, with the signal that stopped it. Raises OSError."""
    _ptrace(PTRACE_DETACH, tid, signal_number)


def event(status: int) -> int:
    """Return the ptrace event of a status of waitpid, 0 for a signal that is about to be delivered."""
    return status >> 16
