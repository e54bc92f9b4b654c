"""The few system calls of walls and capabilities, by ctypes. Imported by the supervisor, so it imports little."""

# Imported between fork and exec: no contextlib.
# ruff: noqa: SIM105
from __future__ import annotations

import ctypes
import os

_libc = ctypes.CDLL(None, use_errno=True)

CLONE_NEWNS = 0x0002_0000
CLONE_NEWUSER = 0x1000_0000
CLONE_NEWNET = 0x4000_0000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_BIND, MS_REC, MS_SLAVE = 0x1000, 0x4000, 0x8_0000
PR_CAPBSET_READ, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 23, 24, 38, 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
SYS_MOUNT_SETATTR = 442
"""The same number on every architecture, as for Landlock's."""
AT_FDCWD = -100
AT_RECURSIVE = 0x8000
MOUNT_ATTR_RDONLY = 1
_CAPABILITY_VERSION_3 = 0x2008_0522

CAP_DAC_READ_SEARCH, CAP_SYS_MODULE, CAP_SYS_RAWIO, CAP_SYS_PTRACE = 2, 16, 17, 19
CAP_SYS_ADMIN, CAP_SYS_BOOT, CAP_MKNOD, CAP_MAC_OVERRIDE, CAP_MAC_ADMIN = 21, 22, 27, 32, 33
CAP_SYSLOG, CAP_PERFMON, CAP_BPF, CAP_CHECKPOINT_RESTORE = 34, 38, 39, 40
THROUGH_WALLS = (CAP_DAC_READ_SEARCH, CAP_SYS_MODULE, CAP_SYS_RAWIO, CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_SYS_BOOT,
                 CAP_MKNOD, CAP_MAC_OVERRIDE, CAP_MAC_ADMIN, CAP_SYSLOG, CAP_PERFMON, CAP_BPF, CAP_CHECKPOINT_RESTORE)
"""Capabilities that root loses behind a wall, since each bypasses it: to unmount, to open files by handle, to read
another process's memory or a disk's device, to load code into the kernel. Changing owners, users and the network stays,
so a package manager works."""
CAP_NET_ADMIN, CAP_NET_RAW = 12, 13
THROUGH_NETWORK = (CAP_NET_ADMIN, CAP_NET_RAW)
"""Capabilities that root also loses in a network of its own: the first can move an interface into the host's network.
"""
LAST_CAPABILITY = 63


class MountAttributes(ctypes.Structure):
    """`struct mount_attr` of mount_setattr(2)."""

    _fields_ = (("set", ctypes.c_uint64), ("clear", ctypes.c_uint64), ("propagation", ctypes.c_uint64),
                ("userns_fd", ctypes.c_uint64))


class _CapabilityHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _CapabilityWord(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def checked(result: int) -> int:
    """Return a call's result. Raises OSError for a negative one."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def syscall(number: int, *arguments: object) -> int:
    """Call the kernel directly. Raises OSError."""
    return checked(_libc.syscall(ctypes.c_long(number), *arguments))


def unshare(flags: int) -> None:
    """Call unshare(2). Raises OSError."""
    checked(_libc.unshare(flags))


def mount(source: bytes | None, target: bytes, kind: bytes | None, flags: int, data: bytes | None = None) -> None:
    """Call mount(2). Raises OSError."""
    checked(_libc.mount(source, target, kind, ctypes.c_ulong(flags), data))


def set_read_only(path: bytes, *, read_only: bool = True, recursive: bool = False) -> None:
    """Make the mount at `path` read-only or not, with those below it if `recursive` (Linux 5.12). Raises OSError."""
    wanted = MountAttributes(MOUNT_ATTR_RDONLY if read_only else 0, 0 if read_only else MOUNT_ATTR_RDONLY, 0, 0)
    syscall(SYS_MOUNT_SETATTR, ctypes.c_int(AT_FDCWD), ctypes.c_char_p(path),
            ctypes.c_uint(AT_RECURSIVE if recursive else 0), ctypes.byref(wanted),
            ctypes.c_size_t(ctypes.sizeof(wanted)))


def prctl(option: int, value: int, third: int = 0) -> int:
    """Call prctl(2). Raises OSError."""
    return checked(_libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(third), ctypes.c_ulong(0),
                               ctypes.c_ulong(0)))


def has_capability(number: int) -> bool:
    """Return whether this process can use a capability now."""
    words = _capabilities()
    return bool(words[number // 32].effective >> number % 32 & 1)


def drop_capabilities(numbers: tuple[int, ...]) -> None:
    """Drop capabilities permanently, for this process and the programs that it executes. Raises OSError."""
    for number in numbers:
        try:
            if prctl(PR_CAPBSET_READ, number) == 1:
                prctl(PR_CAPBSET_DROP, number)
        except OSError:
            break  # The kernel has no further ones, or this process has no capability to drop.
    try:
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    except OSError:
        pass  # Before Linux 4.3 there are none.
    words = _capabilities()
    for number in numbers:
        keep = ~(1 << number % 32) & 0xFFFF_FFFF
        word = words[number // 32]
        word.effective &= keep
        word.permitted &= keep
        word.inheritable &= keep
    checked(_libc.capset(ctypes.byref(_CapabilityHeader(_CAPABILITY_VERSION_3, 0)), words))


def _capabilities() -> ctypes.Array[_CapabilityWord]:
    words = (_CapabilityWord * 2)()
    checked(_libc.capget(ctypes.byref(_CapabilityHeader(_CAPABILITY_VERSION_3, 0)), words))
    return words
