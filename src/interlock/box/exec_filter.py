"""The seccomp filter that holds each program start until the supervisor answers (H-16). Runs between fork and exec.

Execve and execveat of the native architecture are sent to a listener. The same calls by other kernel interfaces (32-bit
programs, x32) are refused: their arguments have another layout. All other calls are unaffected.
"""

from __future__ import annotations

import _socket
import ctypes
import errno
import os
import struct
import sys
from typing import NamedTuple

from interlock.box import kernel

SYS_SECCOMP = {"x86_64": 317, "aarch64": 277}
SET_MODE_FILTER = 1
NEW_LISTENER, WAIT_KILLABLE_RECV = 1 << 3, 1 << 5
"""With the second (Linux 5.19) a signal that does not kill leaves the held call alone; without it the call is repeated
after the signal's handler has run, and is held a second time."""

KILL_PROCESS, USER_NOTIF, ALLOW, ERRNO = 0x8000_0000, 0x7FC0_0000, 0x7FFF_0000, 0x0005_0000
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NR, _ARCH = 0, 4
X32 = 0x4000_0000
"""Calls from this number on belong to x32."""


class ExecSyscalls(NamedTuple):
    """One architecture's numbers. `refused` are numbers of the same architecture that start programs by another
    interface; `compat` is the 32-bit architecture and its two numbers."""

    arch: int
    execve: int
    execveat: int
    refused: tuple[int, ...]
    compat: tuple[int, int, int]


CALLS = {
    "x86_64": ExecSyscalls(0xC000_003E, 59, 322, (520, 545), (0x4000_0003, 11, 358)),
    "aarch64": ExecSyscalls(0xC000_00B7, 221, 281, (), (0x4000_0028, 11, 387)),
}


def calls() -> ExecSyscalls:
    """Return this machine's numbers. Raises OSError if they are unknown."""
    found = CALLS.get(os.uname().machine)
    if found is None:
        raise OSError(errno.ENOSYS, f"programs cannot be held on {os.uname().machine}")
    return found


def instructions(of: ExecSyscalls) -> list[tuple[int, int, int, int]]:
    """Return the filter as (code, steps if true, steps if false, value). Pure."""
    arch, execve, execveat = of.compat
    compat = [(_EQUAL, execve, "refuse"), (_EQUAL, execveat, "refuse")]
    native = [(_AT_LEAST, X32, "missing"), *((_EQUAL, number, "missing") for number in of.refused),
              (_EQUAL, of.execve, "hold"), (_EQUAL, of.execveat, "hold")]
    ends = {"allow": ALLOW, "hold": USER_NOTIF, "refuse": ERRNO | errno.EPERM, "missing": ERRNO | errno.ENOSYS,
            "kill": KILL_PROCESS}
    labels: dict[str, int] = {}
    body: list[tuple[int, int, str | None]] = [(_LOAD, _ARCH, None), (_EQUAL, of.arch, "native"),
                                               (_EQUAL, arch, "compat"), (_RETURN, KILL_PROCESS, None)]
    for label, tests in (("compat", compat), ("native", native)):
        labels[label] = len(body)
        body += [(_LOAD, _NR, None), *tests, (_RETURN, ALLOW, None)]
    for label, value in ends.items():
        labels[label] = len(body)
        body.append((_RETURN, value, None))
    return [(code, labels[to] - at - 1 if to else 0, 0, value) for at, (code, value, to) in enumerate(body)]


def program(of: ExecSyscalls) -> bytes:
    """Return the filter in the kernel's format, eight bytes per instruction. Pure."""
    return b"".join(struct.pack("=HBBI", *one) for one in instructions(of))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def install() -> int:
    """Install the filter for this process and all its descendants, and return its listener. Raises OSError.

    Set-user-id programs gain nothing from here on (no_new_privs), without which the kernel accepts no filter.
    """
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    code = program(calls())
    wanted = _Program(len(code) // 8, code)

    def listen(flags: int) -> int:
        return kernel.syscall(SYS_SECCOMP[os.uname().machine], ctypes.c_uint(SET_MODE_FILTER), ctypes.c_uint(flags),
                              ctypes.byref(wanted))

    try:
        return listen(NEW_LISTENER | WAIT_KILLABLE_RECV)
    except OSError as failed:
        if failed.errno != errno.EINVAL:
            raise
        return listen(NEW_LISTENER)


def send_listener(door: _socket.socket) -> None:
    """Install the filter in this process, and send its listener to the process that answers. Raises OSError."""
    listener = install()
    door.sendmsg([b"x"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, listener.to_bytes(4, sys.byteorder))])
    os.close(listener)


def receive_listener(door: _socket.socket) -> int:
    """Receive the listener; -1 if the other process failed before."""
    _, sent, _, _ = door.recvmsg(1, _socket.CMSG_SPACE(4))
    return int.from_bytes(sent[0][2][:4], sys.byteorder) if sent else -1
