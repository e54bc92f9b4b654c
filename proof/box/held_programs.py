"""The programs of `proof box`: a hostile program that may start `true` alone tries to start another one (H-16, H-20).

The real supervisor runs it, as root and as a plain user, behind each kind of wall. Each way is first tried without a
held program: one that fails even then shows nothing.
"""

from __future__ import annotations

import binascii
import contextlib
import os
import posixpath
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path

from interlock.box.host import survey
from interlock.box.walls import Kind, Walls
from interlock.runner.process import supervisor
from interlock.runner.process.process import encode_order
from proof.box import hostile_starts
from proof.box.escapes import Cell, Seen, WallKind, users

NOT_PROMISED = frozenset({"Write the file itself, without a program"})
INNOCENT = "start what is allowed"
TIMEOUT_S = 20.0
ORPHAN_S = 1.0
"""Processes of a killed supervisor have this long to create the file."""
SUPERVISOR = "interlock/runner/process/supervisor.py"
"""The path of the supervisor in a copy of the code: it finds the package relative to itself."""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def answer(encoded: str) -> bytes:
    """The one rule: `true`, as the agent's PATH finds it, may start."""
    _, _, name, own_view, variables, *words = binascii.a2b_base64(encoded).split(b"\0")
    allowed = name == b"true" and own_view == b"0" and variables == b"0" and posixpath.basename(words[0]) == b"true"
    return b"once" if allowed else b"no"


class Place:
    """A workspace of one user, with a copy of what runs there."""

    def __init__(self, root: Path, uid: int, python: str) -> None:
        self.uid, self.python = uid, python
        self.code, self.work = root / "code", root / "work"

    def ran(self, name: str, walls: Walls) -> bool:
        """Try one way; whether the file was made."""
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir()
        os.chown(self.work, self.uid, self.uid)
        ours, theirs = socket.socketpair()
        with ours, theirs:
            program = str(self.code / SUPERVISOR)
            command = [self.python, "-I", "-S", program, str(theirs.fileno()), "0"]
            if self.uid != os.geteuid():
                command = ["setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups", *command]
            running = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL, pass_fds=(theirs.fileno(),), start_new_session=True)
            theirs.close()
            argv = [self.python, "-I", "-S", str(self.code / "hostile_starts.py"), name]
            ours.sendall(encode_order(str(self.work), self.python, argv, {"PATH": PATH}, walls))
            ended = _converse(ours)
        try:
            running.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()
        end = time.monotonic() + (0 if ended else ORPHAN_S)
        while not (found := any(self.work.glob("made*"))) and time.monotonic() < end:
            time.sleep(0.01)
        return found


def _converse(link: socket.socket) -> bool:
    """Answer the supervisor until it is over; False if it ended before, and may have left something that runs."""
    received, end = b"", time.monotonic() + TIMEOUT_S
    while time.monotonic() < end:
        if not select.select([link], [], [], max(end - time.monotonic(), 0))[0]:
            return False
        try:
            piece = link.recv(65536)
        except OSError:
            return False
        if not piece:
            return False
        *lines, received = (received + piece).split(b"\n")
        for line in lines:
            words = line.decode().split()
            with contextlib.suppress(OSError):
                if words[0] == "P":
                    link.sendall(b"A " + words[1].encode() + b" " + answer(words[2]) + b"\n")
                elif words[0] == "E":
                    link.sendall(b"T 0\n")
                elif words[0] in "DF":
                    return True
    return False


@contextlib.contextmanager
def placed(uid: int, python: str) -> Generator[Place]:
    """A place below a directory that everybody may enter."""
    root = Path(tempfile.mkdtemp(prefix="interlock-programs-")).resolve()
    root.chmod(0o755)
    place = Place(root, uid, python)
    try:
        package = place.code / "interlock"
        (place.code / SUPERVISOR).parent.mkdir(parents=True)
        shutil.copytree(Path(survey.__code__.co_filename).parent, package / "box",
                        ignore=shutil.ignore_patterns("__pycache__"))
        (package / "__init__.py").touch()
        shutil.copy(supervisor.__file__, place.code / SUPERVISOR)
        shutil.copy(str(hostile_starts.__file__), place.code)
        for path in (place.code, *place.code.rglob("*")):
            path.chmod(0o755)
        yield place
    finally:
        shutil.rmtree(root, ignore_errors=True)


def programs(only: list[str] | None = None) -> Seen:
    """Try every way, as every user, with nothing held and behind each kind of wall that this host has."""
    present, missing = users()
    cells: dict[tuple[str, str, WallKind], Cell] = {}
    useless: list[str] = []
    kinds: tuple[Kind, ...] = survey().kinds
    for user, uid, python in present:
        with placed(uid, python) as place:
            useless += [f"GOT NOWHERE: {user}, {kind}: the allowed program did not run" for kind in kinds
                        if not place.ran(INNOCENT, Walls(kind, programs=True))]
            for name in only or hostile_starts.ESCAPES:
                cells[name, user, "none"] = Cell("", not place.ran(name, Walls("none")))
                for kind in kinds:
                    cells[name, user, kind] = Cell("", not place.ran(name, Walls(kind, programs=True)))
    return Seen(cells, [*missing, *useless], dict.fromkeys(kinds, NOT_PROMISED))


def run_programs() -> bool:
    """Try all of it and print the table; False if a program ran that was not allowed."""
    why = survey().programs
    if why is not None:
        print(f"programs were not tried: {why}")
        return True
    seen = programs()
    print(seen.table())
    for line in seen.broken:
        print(f"GOT OUT: {line}")
    print(f"{len(hostile_starts.ESCAPES)} ways to start a program, {len(seen.cells)} tries: {seen.real} lead out "
          f"if nothing is held, {len(seen.broken)} broke a promise")
    return not seen.broken and seen.real > 0 and not any(line.startswith("GOT NOWHERE") for line in seen.missing)


if __name__ == "__main__":
    sys.exit(0 if run_programs() else 1)
