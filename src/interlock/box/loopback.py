"""A network of the agent's own, with only loopback (H-19). Runs between fork and exec, in the new namespace.

A socket belongs to the network namespace that created it. So the agent's process creates the listeners before it
becomes the agent, and sends them to the runner: the runner's proxy accepts the agent's connections outside, and no
route, interface or forwarder leads out of the namespace.

Sockets of other families than addresses, files and routing are refused, since AF_VSOCK and similar ones ignore network
namespaces; so is io_uring, which creates sockets past this filter.
"""

from __future__ import annotations

import _socket
import ctypes
import errno
import fcntl
import os
import struct
from typing import NamedTuple

from interlock.box import kernel

SIOCSIFFLAGS = 0x8914
IFF_UP = 1
BACKLOG = 128
LOOPBACKS = ((_socket.AF_INET, "127.0.0.1"), (_socket.AF_INET6, "::1"))

FAMILIES = (_socket.AF_UNIX, _socket.AF_INET, _socket.AF_INET6, _socket.AF_NETLINK)
PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
KILL, ALLOW, ERRNO = 0x8000_0000, 0x7FFF_0000, 0x0005_0000
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _ARCH, _FIRST_ARGUMENT = 0, 4, 16
X32 = 0x4000_0000
IO_URING_SETUP = 425
"""The same number on every architecture."""


class SocketSyscalls(NamedTuple):
    """One architecture: its number, `socket`, its 32-bit sibling, and the sibling's calls that create sockets."""

    arch: int
    socket: int
    compat: int
    compat_sockets: tuple[int, ...]


CALLS = {
    "x86_64": SocketSyscalls(0xC000_003E, 41, 0x4000_0003, (102, 359)),
    "aarch64": SocketSyscalls(0xC000_00B7, 198, 0x4000_0028, (281,)),
}


def cut_off(handover: int, ports: list[int]) -> None:
    """Set up this process's new network namespace: loopback, and a listener for each port, sent over the socket with
    that descriptor, which is closed. Raises OSError."""
    probe = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM | _socket.SOCK_CLOEXEC)
    try:
        fcntl.ioctl(probe.fileno(), SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP))
    finally:
        probe.close()
    refuse_families()
    if handover < 0:
        return
    door = _socket.socket(fileno=handover)
    try:
        for port in ports:
            for family, address in LOOPBACKS:
                try:
                    listener = _socket.socket(family, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
                    if family == _socket.AF_INET6:
                        listener.setsockopt(_socket.IPPROTO_IPV6, _socket.IPV6_V6ONLY, 1)
                    listener.bind((address, port))
                    listener.listen(BACKLOG)
                except OSError:
                    if family == _socket.AF_INET:
                        raise
                    continue  # The host has no IPv6.
                door.sendmsg([struct.pack("!H", port)],
                             [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack("i", listener.fileno()))])
                listener.close()
    finally:
        door.close()


def refuse_families() -> None:
    """Refuse sockets of any family but `FAMILIES`, and io_uring, for this process and its descendants. Needs
    CAP_SYS_ADMIN in its user namespace. Raises OSError."""
    calls = CALLS.get(os.uname().machine)
    if calls is None:
        raise OSError(errno.ENOSYS, f"sockets cannot be filtered on {os.uname().machine}")
    code = program(calls)
    buffer = ctypes.create_string_buffer(code, len(code))
    wanted = _Program(len(code) // 8, ctypes.addressof(buffer))
    kernel.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.addressof(wanted))


def program(calls: SocketSyscalls) -> bytes:
    """Return the filter in the kernel's format, eight bytes per instruction. Pure."""
    compat = [(_LOAD, _NUMBER, ""), *((_EQUAL, number, "denied") for number in calls.compat_sockets),
              (_EQUAL, IO_URING_SETUP, "missing"), (_RETURN, ALLOW, "")]
    native = [(_LOAD, _NUMBER, ""), (_AT_LEAST, X32, "missing"), (_EQUAL, IO_URING_SETUP, "missing"),
              (_EQUAL, calls.socket, "family"), (_RETURN, ALLOW, "")]
    family = [(_LOAD, _FIRST_ARGUMENT, ""), *((_EQUAL, one, "allowed") for one in FAMILIES),
              (_RETURN, ERRNO | errno.EAFNOSUPPORT, "")]
    parts: dict[str, list[tuple[int, int, str]]] = {
        "": [(_LOAD, _ARCH, ""), (_EQUAL, calls.arch, "native"), (_EQUAL, calls.compat, "compat"), (_RETURN, KILL, "")],
        "compat": compat, "native": native, "family": family, "allowed": [(_RETURN, ALLOW, "")],
        "denied": [(_RETURN, ERRNO | errno.EPERM, "")], "missing": [(_RETURN, ERRNO | errno.ENOSYS, "")],
    }
    starts: dict[str, int] = {}
    lines: list[tuple[int, int, str]] = []
    for name, part in parts.items():
        starts[name] = len(lines)
        lines += part
    return b"".join(struct.pack("=HBBI", code, starts[to] - at - 1 if to else 0, 0, value)
                    for at, (code, value, to) in enumerate(lines))


class _Program(ctypes.Structure):
    """`struct sock_fprog` of seccomp(2)."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))
