"""Walls by Landlock (H-15). Runs between fork and exec.

Landlock only allows: a right that is granted to a directory applies to everything below it, and cannot be revoked
there. So a hidden path is omitted, and each entry beside it and beside the directories above it is allowed separately.
Files created later directly in one of those directories were not allowed, and cannot be opened. Names can be listed
everywhere; contents cannot.

A process behind Landlock cannot mount, and cannot access a process that is not behind it (ptrace, /proc/PID/mem,
environ, root, fd), not even as root. From Linux 6.12 on it cannot signal one either, see `scope`.
"""

from __future__ import annotations

import ctypes
import os

from interlock.box import kernel
from interlock.box.namespace import disks
from interlock.box.scope import abi, create_ruleset, restrict_self

SYS_ADD_RULE = 445
_PATH_BENEATH = 1

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
MAKE_CHAR, MAKE_BLOCK = 1 << 6, 1 << 11
REFER, TRUNCATE = 1 << 13, 1 << 14
_FIRST_RIGHTS = (1 << 13) - 1
_OF_A_FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE
_READING = EXECUTE | READ_FILE | READ_DIR
REFER_FROM, TRUNCATE_FROM = 2, 3
"""The ABI that introduced each. Before ABI 2 files cannot be moved or linked between directories; before ABI 3 a file
that cannot be opened can still be truncated. ABI 6 (signals, abstract sockets) is used by `scope`; ABI 4 (network), 5
(devices) and 7 (logging) add nothing that these walls use."""
ALWAYS_WRITABLE = (b"/proc", b"/dev")
KEPT_FROM_ROOT = (b"/proc", b"/sys")
"""Allowed whole: a process's directory in /proc is created with it, so later ones could not be opened otherwise."""


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def rights(version: int) -> int:
    """Return every file access right of an ABI, except those of device nodes' own operations."""
    found = _FIRST_RIGHTS
    if version >= REFER_FROM:
        found |= REFER
    if version >= TRUNCATE_FROM:
        found |= TRUNCATE
    return found


def raise_landlock(hidden: list[bytes], read_only: list[bytes], writable: list[bytes] | None) -> None:
    """Restrict this process and all its descendants. Raises OSError."""
    version = abi()
    handled = rights(version)
    ruleset = create_ruleset(version, handled)
    try:
        everything = handled & ~(MAKE_BLOCK | MAKE_CHAR)
        reading = _READING & handled
        special = dict.fromkeys(disks(), 0)
        if writable is not None:
            special |= dict.fromkeys((*writable, *ALWAYS_WRITABLE), everything)
        if os.geteuid() == 0:
            special |= dict.fromkeys(KEPT_FROM_ROOT, reading)
        special |= dict.fromkeys(read_only, reading)
        special |= dict.fromkeys(hidden, 0)
        rules = _Rules(ruleset)
        rules.allow(b"/", READ_DIR)
        for path, allowed in plan(special, everything if writable is None else reading):
            rules.allow(path, allowed)
        restrict_self(ruleset)
    finally:
        os.close(ruleset)
    kernel.drop_capabilities(kernel.THROUGH_WALLS)


def plan(special: dict[bytes, int], usual: int) -> list[tuple[bytes, int]]:
    """Return the rights of each path: `usual`, except for those of `special` and everything below each of them.

    A right of a path applies to everything below it, so a directory above a path with fewer rights is not allowed
    itself, but each of its entries is. Symbolic links are skipped, since their target is allowed, or not, by itself.
    """
    found: list[tuple[bytes, int]] = []
    above = {path[:end] or b"/" for path in special for end in range(len(path)) if path[end:end + 1] == b"/"}
    waiting = [(b"/", usual)]
    while waiting:
        path, allowed = waiting.pop()
        allowed = special.get(path, allowed)
        if path not in above:
            if allowed:
                found.append((path, allowed))
            continue
        below = [there for there in special if there != path and there.startswith(path.rstrip(b"/") + b"/")]
        if any(allowed & ~special[there] for there in below):
            waiting += [(entry, allowed) for entry in _entries(path)]
            continue
        if allowed:
            found.append((path, allowed))
        # Below an allowed path rights can only be added.
        found += [(there, special[there]) for there in below if special[there] & ~allowed]
    return found


def _entries(directory: bytes) -> list[bytes]:
    try:
        return [entry.path for entry in os.scandir(directory) if not entry.is_symlink()]
    except OSError:
        return []


class _Rules:
    """Adds rules to a ruleset. A directory above a hidden path may have thousands of entries, each with a rule of its
    own, so the call is prepared once, and a rule of the wrong kind does not raise."""

    def __init__(self, ruleset: int) -> None:
        self._ruleset = ruleset
        self._rule = _PathBeneath()
        self._at = ctypes.addressof(self._rule)
        self._call = ctypes.CDLL(None, use_errno=True).syscall
        self._call.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_uint32)

    def allow(self, path: bytes, allowed: int) -> None:
        """Allow a path and everything below it these rights. Raises OSError if the kernel refuses a valid rule."""
        try:
            beneath = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return  # It was removed, or this user cannot open anything below it.
        try:
            # The kernel rejects directory rights for a file.
            if not self._add(beneath, allowed) and allowed & _OF_A_FILE:
                kernel.checked(0 if self._add(beneath, allowed & _OF_A_FILE) else -1)
        finally:
            os.close(beneath)

    def _add(self, beneath: int, allowed: int) -> bool:
        self._rule.allowed_access, self._rule.parent_fd = allowed, beneath
        return self._call(SYS_ADD_RULE, self._ruleset, _PATH_BENEATH, self._at, 0) == 0
