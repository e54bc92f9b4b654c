"""A session over the kernel's own overlay, as one user: `python kernel_session.py DIRECTORY UID` prints what it saw.

A program of its own: a user namespace needs a process with one thread, and libraries that other tests import start
threads in the child of a fork.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

import msgspec

from interlock.box import namespace, overlay, wall_setup  # noqa: F401 - imported before another user may not read them
from interlock.box.walls import Walls
from interlock.runner.staged.store import Staged
from runner.staged_overlay import tree

PR_SET_DUMPABLE = 4
EDITS = """
echo ONE > edited; rm gone; rm -r lib; mkdir lib; echo new > lib/c; chmod 700 script; ln -s edited link
mv moved renamed; rm swap; mkdir swap; echo in > swap/in; printf 'a\\0b' > binary; echo NEXT > nested/.git/HEAD
"""


class Seen(msgspec.Struct):
    """The workspace at each step."""

    status: int
    before: dict[str, str]
    after: dict[str, str]
    changes: dict[str, str]
    refused: list[str]
    landed: dict[str, str]
    left: int
    discarded: dict[str, str]


def become(uid: int) -> None:
    """Drop root's rights for those of a plain user."""
    if uid == os.geteuid():
        return
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # Else /proc/self is root's.


def agent(staged: Staged, line: str) -> int:
    """Run a shell line over the workspace's overlay, as the supervisor starts an agent; its exit status."""
    pid = os.fork()
    if pid == 0:
        try:
            walls = Walls("namespace", staged=(str(staged.workspace), str(staged.upper), str(staged.work)))
            wall_setup.raise_walls([os.fsencode(field) for field in walls.fields()])
            os.chdir(staged.workspace)
            os.dup2(2, 1)  # Standard output is the answer of this program.
            # The PATH of the tests may lead through directories that are closed to other users.
            os.execve("/bin/sh", ["sh", "-ec", line], {"PATH": os.defpath})
        finally:
            os._exit(126)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def one_session(place: Path) -> Seen:
    """Stage, look, land all, then stage once more and throw that away."""
    workspace = place / "workspace"
    for name in ("edited", "gone", "script", "moved", "swap", "lib/a", "lib/in/b", "nested/.git/HEAD"):
        path = workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        path.chmod(0o644)
    before = tree(workspace)
    staged = Staged(place / "state", "ses_1", str(workspace))
    staged.prepare(staged.moment())
    status = agent(staged, EDITS)
    after = tree(workspace)
    found = staged.look(staged.moment())
    report = staged.land(found.changes)
    staged.reported()
    landed, left = tree(workspace), len(staged.look(staged.moment()).changes)
    staged.prepare(staged.moment())
    status = status or agent(staged, "test ! -e gone; cat lib/c; rm -r lib; echo more > more")
    staged.discard(None, staged.moment())
    staged.prepare(staged.moment())
    status = status or agent(staged, "test -e lib/c; test ! -e more")
    return Seen(status, before, after, {one.path: one.what for one in found.changes},
                [f"{one.path}: {one.why}" for one in report.refused], landed, left, tree(workspace))


if __name__ == "__main__":
    become(int(sys.argv[2]))
    sys.stdout.buffer.write(msgspec.json.encode(one_session(Path(sys.argv[1]))))
