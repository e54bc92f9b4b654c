"""Walls by a mount namespace: hidden paths are covered by an empty directory (H-15). Runs between fork and exec.

Root needs only the namespace. A plain user gets it inside a user namespace, in which only that user and group have
names: other users' files appear as no one's, and set-user-id programs (sudo) gain nothing. Both then lose the
capabilities to remove a cover; in a namespace that the agent creates itself every cover is locked.

The same capabilities keep it out of processes beside it: the kernel lets a process access another one (ptrace,
/proc/PID/mem, environ, root, fd) only if it has all of the other's capabilities in the other's user namespace. Root's
agents all have the same ones; the `scope` of each keeps them apart.
"""

# Imported between fork and exec, with paths as bytes: no pathlib.
# ruff: noqa: PTH110, PTH112
from __future__ import annotations

import os

from interlock.box import kernel
from interlock.box.scope import raise_scope

KEPT_FROM_ROOT = (b"/proc/sys", b"/proc/sysrq-trigger", b"/sys/kernel")
"""Root's files there name programs that the kernel runs outside of every namespace (core_pattern and similar ones)."""
ALWAYS_WRITABLE = (b"/proc", b"/dev/shm")
DEVICES = b"/dev"
TERMINALS, MULTIPLEXER = b"/dev/pts", b"/dev/ptmx"
MAX_DEVICE_DEPTH = 3
FILE_TYPE, BLOCK_DEVICE = 0o170000, 0o060000
"""As in `stat`, whose import would slow down each start."""


def raise_namespace(hidden: list[bytes], read_only: list[bytes], writable: list[bytes] | None, handover: int = -1,
                    ports: list[int] | None = None, staged: list[bytes] | None = None) -> None:
    """Enter a new mount namespace and raise the walls; paths that do not exist are skipped. With `ports` the process
    also gets a network of its own, see `loopback`; `staged` are a workspace and the two directories of its overlay.
    Raises OSError."""
    plain = not kernel.has_capability(kernel.CAP_SYS_ADMIN)
    user, group = os.geteuid(), os.getegid()
    kernel.unshare(kernel.CLONE_NEWNS | (kernel.CLONE_NEWUSER if plain else 0)
                   | (kernel.CLONE_NEWNET if ports is not None else 0))
    if plain:
        _put(b"/proc/self/setgroups", b"deny")
        _put(b"/proc/self/uid_map", b"%d %d 1" % (user, user))
        _put(b"/proc/self/gid_map", b"%d %d 1" % (group, group))
    if ports is not None:
        from interlock.box.loopback import cut_off

        cut_off(handover, ports)
    # Later mounts of the host appear here; mounts made here do not appear in the host.
    kernel.mount(None, b"/", None, kernel.MS_REC | kernel.MS_SLAVE)
    if staged:
        from interlock.box.overlay import stage

        stage(*staged)  # First: later its own directories are hidden, or read-only.
    if writable is not None:
        _only_writable(writable)
    for path in read_only:
        _read_only(path)
    for path in (*hidden, *disks()):
        _cover(path)
    _own_terminals()
    if user == 0:
        for path in KEPT_FROM_ROOT:
            _read_only(path)
    raise_scope()
    # In a user namespace no capability applies to another user's file, so none is missed.
    lost = kernel.THROUGH_WALLS + (kernel.THROUGH_NETWORK if ports is not None else ())
    kernel.drop_capabilities(tuple(range(kernel.LAST_CAPABILITY + 1)) if plain else lost)


def disks() -> list[bytes]:
    """Return the block devices that this process may open: they contain a hidden file's bytes."""
    found: list[bytes] = []
    waiting = [(DEVICES, 1)]
    while waiting:
        directory, depth = waiting.pop()
        try:
            entries = list(os.scandir(directory))
        except OSError:
            continue
        for entry in entries:
            try:
                if entry.is_dir(follow_symlinks=False):
                    if depth < MAX_DEVICE_DEPTH:
                        waiting.append((entry.path, depth + 1))
                elif not entry.is_symlink() and not entry.is_file(follow_symlinks=False):
                    block = entry.stat(follow_symlinks=False).st_mode & FILE_TYPE == BLOCK_DEVICE
                    if block and (os.access(entry.path, os.R_OK) or os.access(entry.path, os.W_OK)):
                        found.append(entry.path)
            except OSError:
                continue  # It was removed meanwhile.
    return found


def _only_writable(writable: list[bytes]) -> None:
    for path in (*writable, *ALWAYS_WRITABLE):
        if os.path.exists(path):
            kernel.mount(path, path, None, kernel.MS_BIND | kernel.MS_REC)
    kept = [path for path in (*writable, *ALWAYS_WRITABLE) if os.path.exists(path) and not _is_read_only(path)]
    kernel.set_read_only(b"/", recursive=True)
    for path in kept:
        kernel.set_read_only(path, read_only=False)


def _is_read_only(path: bytes) -> bool:
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def _read_only(path: bytes) -> None:
    if os.path.exists(path):
        kernel.mount(path, path, None, kernel.MS_BIND | kernel.MS_REC)
        kernel.set_read_only(path, recursive=True)


def _cover(path: bytes) -> None:
    if os.path.isdir(path):
        kernel.mount(b"interlock", path, b"tmpfs",
                     kernel.MS_RDONLY | kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC, b"mode=0555,size=4k")
    elif os.path.exists(path):
        kernel.mount(b"/dev/null", path, None, kernel.MS_BIND)


def _own_terminals() -> None:
    """Mount separate pseudo terminals for the agent: on its user's terminals a person types, and reads the screen."""
    if not os.path.isdir(TERMINALS) or not os.path.exists(MULTIPLEXER):
        return
    kernel.mount(b"interlock", TERMINALS, b"devpts", kernel.MS_NOSUID | kernel.MS_NOEXEC,
                 b"newinstance,ptmxmode=0666,mode=0620")
    kernel.mount(TERMINALS + b"/ptmx", MULTIPLEXER, None, kernel.MS_BIND)


def _put(path: bytes, text: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text)
    finally:
        os.close(descriptor)
