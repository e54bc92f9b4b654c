"""Find out which walls this host supports, by raising them (H-15), and whether it can hold programs (H-16).

A separate program: `python -I -S ground.py DIRECTORY`.
"""

# Started without `site`, for speed: no pathlib.
# ruff: noqa: PTH100, PTH101, PTH102, PTH106, PTH110, PTH118, PTH120, PTH123, PTH208, SIM105
from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

PROGRAMS = "programs"
OVERLAY = "overlay"
KINDS = ("namespace", "landlock")
"""The stronger one first: a namespace also hides names, and covers files that are created later."""
KINDS_OF_A_BARE_ROOT = ("landlock", "namespace")
"""For root without CAP_SYS_ADMIN, as in most containers. It gets a mount namespace only inside a user namespace with
one user id, in which a package manager cannot switch to another user."""


NETWORK = "network"
"""A separate network namespace (H-19)."""


def preferred(user: int, *, administers: bool) -> tuple[str, ...]:
    """Return the kinds of walls in order of preference. `user` is the runner's effective id, `administers` whether it
    has CAP_SYS_ADMIN. Pure."""
    return KINDS_OF_A_BARE_ROOT if user == 0 and not administers else KINDS


def tried(kind: str, directory: str) -> str:
    """Raise a wall around a directory in a child process, and check whether a file in it can still be opened; for
    NETWORK, whether there is an interface beside loopback. Returns "" if the wall holds, else why not."""
    return _in_child(lambda: _wall(kind, directory))


def tried_overlay(directory: str) -> str:
    """Cover a directory by an overlay, and write through it. Returns "" if the file is in the upper directory only,
    otherwise the reason why changes cannot be staged."""
    for name in ("lower", "upper", "work"):
        os.mkdir(os.path.join(directory, name))
    paths = [os.fsencode(os.path.join(directory, name)) for name in ("lower", "upper", "work")]
    why = _in_child(lambda: _overlay(paths))
    try:
        os.chmod(os.path.join(directory, "work", "work"), 0o700)  # It has no permissions, and could not be removed.
    except OSError:
        pass
    if why:
        return why
    if os.path.exists(os.path.join(directory, "upper", "probe")):
        return "" if not os.listdir(paths[0]) else "the kernel accepts it, but writes to the workspace"
    return "the kernel accepts it, but stages nothing"


def _wall(kind: str, directory: str) -> str:
    from interlock.box.wall_setup import raise_walls

    network = kind == NETWORK
    raise_walls([b"namespace" if network else kind.encode(), b"h" + os.fsencode(directory),
                 *([b"n-1:"] if network else [])])
    if network and interfaces() != ["lo"]:
        return "the kernel accepts it, but other interfaces are there"
    try:
        os.close(os.open(os.path.join(directory, "probe"), os.O_RDONLY))
    except OSError:
        return ""
    return "the kernel accepts it, but hides nothing"


def _overlay(paths: list[bytes]) -> str:
    from interlock.box.wall_setup import raise_walls

    raise_walls([b"namespace", *(b"o" + path for path in paths)])
    probe = os.path.join(paths[0], b"probe")
    os.mkdir(probe)
    os.rmdir(probe)
    os.mkdir(probe)
    return ""


def _in_child(attempt: Callable[[], str]) -> str:
    report, report_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(report_end, attempt().encode())
        except BaseException as failed:  # noqa: BLE001 - any error is the reason
            os.write(report_end, (getattr(failed, "strerror", None) or str(failed) or "failed").encode())
        finally:
            os._exit(0)
    os.close(report_end)
    with os.fdopen(report, "rb") as reading:
        why = reading.read().decode()
    _, status = os.waitpid(pid, 0)
    return why or ("" if status == 0 else "the process that tried it was killed")


def tried_holding(kind: str, directory: str) -> str:
    """Start a program behind a wall in a child process, let it start another one, and hold, trace and compare that.
    Returns "" if all of it works, else why not."""
    from interlock.box.trial import hold_one

    try:
        return hold_one([kind.encode(), b"h" + os.fsencode(directory)])
    except OSError as failed:
        return failed.strerror or "failed"


def interfaces() -> list[str]:
    """Return the names of this process's network interfaces."""
    with open("/proc/self/net/dev", encoding="ascii") as listing:
        return [line.partition(":")[0].strip() for line in listing if ":" in line]


if __name__ == "__main__":
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    from interlock.box import kernel

    kinds = preferred(os.geteuid(), administers=kernel.has_capability(kernel.CAP_SYS_ADMIN))
    found = {name: tried(name, sys.argv[1]) for name in (*kinds, NETWORK)}
    best = next((name for name in kinds if not found[name]), None)
    found[PROGRAMS] = tried_holding(best, sys.argv[1]) if best else "there are no walls to do it behind"
    found[OVERLAY] = tried_overlay(sys.argv[1])
    for name, why in found.items():
        sys.stdout.write(f"{name}\t{why}\n")
