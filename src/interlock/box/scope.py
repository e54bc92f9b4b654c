"""A scope around an agent's processes: they signal, trace, and use abstract sockets only among each other (H-15).

It is a Landlock domain that restricts no path, so the agent's own mounts and sandboxes work inside it. Needs Linux
6.12. Runs between fork and exec, before the capabilities are dropped.
"""

from __future__ import annotations

import ctypes
import os

from interlock.box import kernel

SYS_CREATE_RULESET, SYS_RESTRICT_SELF = 444, 446
ABSTRACT_SOCKETS, SIGNALS = 1, 2
SCOPED = ABSTRACT_SOCKETS | SIGNALS
SCOPED_FROM = 6
"""The ABI of Landlock that introduced both."""
_VERSION = 1


class Ruleset(ctypes.Structure):
    """`struct landlock_ruleset_attr`, up to ABI 6."""

    _fields_ = (("handled_access_fs", ctypes.c_uint64), ("handled_access_net", ctypes.c_uint64),
                ("scoped", ctypes.c_uint64))


def abi() -> int:
    """Return the kernel's ABI of Landlock, from 1 on. Raises OSError if it is missing or disabled."""
    return kernel.syscall(SYS_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))


def is_there() -> bool:
    """Return whether this kernel supports scopes."""
    try:
        return abi() >= SCOPED_FROM
    except OSError:
        return False


def create_ruleset(version: int, rights: int) -> int:
    """Create a ruleset that handles these file rights, and is scoped if the ABI supports that; return its descriptor.
    Raises OSError."""
    scoped = version >= SCOPED_FROM
    wanted = Ruleset(rights, 0, SCOPED if scoped else 0)
    # A kernel rejects members that it does not know.
    size = ctypes.sizeof(wanted) if scoped else Ruleset.handled_access_net.offset
    return kernel.syscall(SYS_CREATE_RULESET, ctypes.byref(wanted), ctypes.c_size_t(size), ctypes.c_uint32(0))


def restrict_self(ruleset: int) -> None:
    """Restrict this process and all its descendants by a ruleset. Raises OSError."""
    try:
        kernel.syscall(SYS_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    except PermissionError:
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        kernel.syscall(SYS_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))


def raise_scope() -> None:
    """Separate this process and all its descendants from processes outside; does nothing before Linux 6.12. Raises
    OSError."""
    if not is_there():
        return
    ruleset = create_ruleset(SCOPED_FROM, 0)
    try:
        restrict_self(ruleset)
    finally:
        os.close(ruleset)
