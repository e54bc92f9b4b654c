"""A hostile program behind each kind of wall, as root and as a plain user, wants a hidden key (H-15, H-20).

Each escape is tried without walls first: one that fails even then shows nothing, and is marked "–". Escapes that a wall
does not promise to stop are listed with it, and may succeed.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from interlock.box import kernel, scope
from interlock.box.host import survey
from interlock.box.walls import Walls, with_aliases
from proof.box import hostile_program, victim

NOBODY = 65_534
ESCAPE_TIMEOUT_S = 30.0
KEY = b"the-key-itself"
FILES = {"owner.key": KEY, "ledger.db": b"a ledger"}
BESIDE_BOTH = frozenset({"Have a program outside pass its descriptor of it (SCM_RIGHTS)"})
UNSCOPED_BOTH = frozenset({"Connect to an abstract socket of the gateway's user", "Send the gateway a signal",
                           "Send an agent in a box of the same kind a signal"})
UNSCOPED_NAMESPACE = frozenset({
    "Trace an agent in a box of the same kind (ptrace)", "Look into the box of an agent beside it (/proc/PID/root)",
    "Read the memory of an agent in a box of the same kind (/proc/PID/mem)",
    "Read the memory of an agent in a box of the same kind (process_vm_readv)",
    "Take a descriptor of an agent in a box of the same kind (pidfd_getfd)"})
"""These and those of both are promised from Linux 6.12 on, whose Landlock has scopes."""
BESIDE_LANDLOCK = frozenset({"List its names", "Connect to a socket in it",
                             "Change the mode of a file of it",
                             "Read what is typed at a terminal of its user's (/dev/pts)",
                             "Write to a terminal of its user's (/dev/pts)"})


def beside(scoped: bool) -> Mapping[str, frozenset[str]]:
    """What each wall does not promise, on a kernel with scopes or without."""
    both = BESIDE_BOTH | (frozenset[str]() if scoped else UNSCOPED_BOTH)
    return {"namespace": both | (frozenset[str]() if scoped else UNSCOPED_NAMESPACE),
            "landlock": both | BESIDE_LANDLOCK,
            "network": frozenset({"Connect to a socket by a path that is not hidden"})}


WallKind = Literal["none", "namespace", "landlock", "network"]
"""A kind of wall; `network` is a mount namespace with a network of its own."""


class Cell(NamedTuple):
    """One escape under one kind of wall, as one user."""

    outcome: str
    held: bool


class Seen(NamedTuple):
    """What was tried. `cells`: (escape, user, kind) → what came of it."""

    cells: dict[tuple[str, str, WallKind], Cell]
    missing: list[str]
    beside: Mapping[str, frozenset[str]]

    @property
    def broken(self) -> list[str]:
        """What a wall promises and did not hold."""
        return [f"{escape} ({user}, {kind}): {cell.outcome}" for (escape, user, kind), cell in self.cells.items()
                if kind != "none" and not cell.held and escape not in self.beside[kind]]

    @property
    def real(self) -> int:
        """How many escapes lead out without walls."""
        return sum(1 for (_, _, kind), cell in self.cells.items() if kind == "none" and not cell.held)

    def table(self) -> str:
        """Two Markdown tables, a row for each escape: to the files, and to the network."""
        network = {key for key in self.cells if hostile_program.ESCAPES.get(key[0], ("",))[0] == "network"}
        second = ["", *self._part(network)] if network else []
        return "\n".join([*self._part(set(self.cells) - network), *second, *self.missing])

    def _part(self, keys: set[tuple[str, str, WallKind]]) -> list[str]:
        columns: list[tuple[str, WallKind]] = list(dict.fromkeys((user, kind) for name, user, kind in self.cells
                                                              if kind != "none" and (name, user, kind) in keys))
        lines = ["| the agent tries to … | " + " | ".join(f"{user}, {kind}" for user, kind in columns) + " |",
                 "|---|" + "---|" * len(columns)]
        for name in dict.fromkeys(escape for escape, user, kind in self.cells if (escape, user, kind) in keys):
            words = [self._word(name, user, kind) for user, kind in columns]
            lines.append(f"| {name[0].lower()}{name[1:]} | " + " | ".join(words) + " |")
        return lines

    def _word(self, name: str, user: str, kind: WallKind) -> str:
        cell, bare = self.cells.get((name, user, kind)), self.cells.get((name, user, "none"))
        if cell is None:
            return ""
        if not cell.held:
            return "not promised" if kind != "none" and name in self.beside[kind] else "**GOT OUT**"
        return "–" if bare is not None and bare.held else "held"


class Stage:
    """A state directory, a workspace beside it, and a process outside of the walls that has the key."""

    def __init__(self, place: Path, uid: int, python: str) -> None:
        self.place, self.uid, self.python = place, uid, python
        self.home = place / "home"
        self.state, self.work = self.home / "state", self.home / "work"
        self.code = place / "code"
        self._gateway: subprocess.Popen[bytes] | None = None
        self._orders: dict[str, Any] = {}

    def run_as(self, *command: str) -> list[str]:
        """The command, as this stage's user."""
        if self.uid == os.geteuid():
            return list(command)
        return ["setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups", *command]

    def begin(self) -> None:
        """Make everything new, and start the process outside."""
        self.end()
        shutil.rmtree(self.home, ignore_errors=True)
        shutil.rmtree(f"{self.home}.moved", ignore_errors=True)
        self.state.mkdir(parents=True)
        self.work.mkdir()
        for name, content in FILES.items():
            (self.state / name).write_bytes(content)
            (self.state / name).chmod(0o600)
        for path in (self.place, self.home, self.state, self.work, *self.state.iterdir()):
            os.chown(path, self.uid, self.uid)
        self.state.chmod(0o700)
        if os.geteuid() == 0:
            alias = self.place / "alias"
            alias.mkdir(exist_ok=True)
            kernel.mount(os.fsencode(self.state), os.fsencode(alias), None, kernel.MS_BIND)
        abstract = f"interlock-proof-{os.getpid()}-{self.uid}"
        self._gateway = subprocess.Popen(
            self.run_as(self.python, "-I", "-S", str(self.code / "victim.py"), "gateway", str(self.state), abstract),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"SECRET": "the-key-in-the-environment"})
        assert self._gateway.stdout is not None
        self._orders = json.loads(self._gateway.stdout.readline()) | {
            "state": str(self.state), "work": str(self.work), "alias": str(self.place / "alias"), "abstract": abstract,
            "handle": handle_of(self.state / "owner.key").hex(), "device": self.state.stat().st_dev,
            "suid": str(self.place / "suid-cat"), "open_socket": str(self.home / "work.sock"),
            "passing_socket": str(self.home / "pass.sock")}
        self._before = self.snapshot()

    def end(self) -> None:
        """End the process outside."""
        if self._gateway is not None:
            self._gateway.communicate()
            self._gateway = None
        with contextlib.suppress(OSError):
            kernel.checked(ctypes.CDLL(None, use_errno=True).umount2(os.fsencode(self.place / "alias"), 2))

    def snapshot(self) -> dict[str, tuple[int, bytes]]:
        """The state directory's names, modes and contents, the socket aside."""
        try:
            return {entry.name: (entry.stat().st_mode, b"" if not entry.is_file() else entry.read_bytes())
                    for entry in self.state.iterdir()}
        except OSError:
            return {}

    def _behind(self, walls: Walls, *program: str) -> list[str]:
        """The command that runs a Python program behind walls, as this stage's user."""
        return self.run_as(self.python, "-I", "-S", str(self.code / "victim.py"), "supervisor", str(self.code),
                           json.dumps(walls.fields()), self.python, "-I", "-S", *program)

    @contextlib.contextmanager
    def _sibling(self, walls: Walls) -> Generator[tuple[int, int]]:
        """Another agent in a box of its own: its pid, and an address of its memory, until the end of the context."""
        waits = ("import ctypes, os, sys; held = ctypes.create_string_buffer(b'the-key-of-another'); "
                 "print(os.getpid(), ctypes.addressof(held), flush=True); sys.stdin.read()")
        with subprocess.Popen(self._behind(walls, "-c", waits), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
            assert other.stdout is not None
            pid, address = map(int, other.stdout.readline().split())
            yield pid, address
            other.communicate()

    def attempt(self, name: str, kind: WallKind) -> Cell:
        """Try one escape behind a wall."""
        hidden = with_aliases([str(self.state)], Path("/proc/self/mountinfo").read_text())
        walls = Walls("namespace", hidden, network=()) if kind == "network" else Walls(kind, hidden)
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir()
        os.chown(self.work, self.uid, self.uid)
        with self._sibling(walls) as (sibling, address):
            orders = self.place / "orders.json"
            orders.write_text(json.dumps(self._orders | {"sibling": sibling, "sibling_address": address}))
            orders.chmod(0o644)
            ran = subprocess.run(
                self._behind(walls, str(self.code / "hostile_program.py"), str(orders), name),
                stdin=subprocess.DEVNULL, capture_output=True, timeout=ESCAPE_TIMEOUT_S, check=False, text=True)
        outcome = json.loads(ran.stdout) if ran.stdout else f"not tried: {ran.returncode}: {ran.stderr[-200:]}"
        changed = self.snapshot() != self._before
        if changed:
            self.begin()
        # What a process does to the cover, it does to nothing of ours.
        held = not changed and (outcome.startswith("held") or hostile_program.ESCAPES[name][0] == "change")
        return Cell(outcome, held)


def handle_of(path: Path) -> bytes:
    """`struct file_handle` of a path, as name_to_handle_at(2) returns it."""
    room = 128
    handle = ctypes.create_string_buffer(room.to_bytes(4, sys.byteorder) + bytes(room + 4))
    mount = ctypes.c_int()
    number = {"x86_64": 303, "aarch64": 264}[os.uname().machine]
    kernel.syscall(number, ctypes.c_int(-100), os.fsencode(path), handle, ctypes.byref(mount), ctypes.c_int(0))
    return handle.raw[:8 + int.from_bytes(handle.raw[:4], sys.byteorder)]


@contextlib.contextmanager
def staged(uid: int, python: str) -> Generator[Stage]:
    """A stage of one user, below a directory that everybody may enter."""
    place = Path(tempfile.mkdtemp(prefix="interlock-box-")).resolve()
    place.chmod(0o755)
    stage = Stage(place, uid, python)
    try:
        package = stage.code / "interlock" / "box"
        package.mkdir(parents=True)
        (package.parent / "__init__.py").touch()
        for source in Path(kernel.__file__).parent.glob("*.py"):
            shutil.copy(source, package)
        for module in (hostile_program, victim):
            shutil.copy(str(module.__file__), stage.code)
        for path in stage.code.rglob("*"):
            path.chmod(0o755)
        suid = place / "suid-cat"
        shutil.copy("/bin/cat", suid)
        suid.chmod(0o4755)
        stage.begin()
        yield stage
    finally:
        stage.end()
        shutil.rmtree(place, ignore_errors=True)


def users() -> tuple[list[tuple[str, int, str]], list[str]]:
    """The users that can be tested here, (name, uid, Python), and the reason why another cannot."""
    if os.geteuid() != 0:
        return [("a plain user", os.geteuid(), sys.executable)], ["root was not tried: this is a plain user"]
    found = [("root", 0, sys.executable)]
    for python in (sys.executable, "/usr/bin/python3"):
        # By a shell, since setpriv may have access that the user lacks.
        command = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
                   "/bin/sh", "-c", '"$0" -I -S -c "import ctypes, json, socket, subprocess"', python]
        with contextlib.suppress(OSError):
            if subprocess.run(command, capture_output=True, check=False).returncode == 0:
                return [*found, ("a plain user", NOBODY, python)], []
    return found, ["a plain user was not tried: no Python here that one may run"]


def escape(only: list[str] | None = None) -> Seen:
    """Try every escape, as every user, behind no wall and behind each one that this host has."""
    present, missing = users()
    host = survey()
    files: list[WallKind] = ["none", *host.kinds]
    network: list[WallKind] = ["none", *(["network"] if host.network is None else [])]
    cells: dict[tuple[str, str, WallKind], Cell] = {}
    for user, uid, python in present:
        with staged(uid, python) as stage:
            for name in only or hostile_program.ESCAPES:
                for kind in network if hostile_program.ESCAPES[name][0] == "network" else files:
                    cells[name, user, kind] = stage.attempt(name, kind)
    return Seen(cells, missing, beside(scope.is_there()))


def run(seed: int, rounds: int | None) -> bool:
    """Try all of it and print the table; False if a wall does not hold what it promises."""
    host = survey()
    if host.why_none is not None:
        print(f"nothing was tried: {host.why_none}")
        return True
    seen = escape()
    print(seen.table())
    for kind, why in host.missing.items():
        print(f"not tried: {kind}: {why}")
    for line in seen.broken:
        print(f"GOT OUT: {line}")
    held = sum(1 for (_, _, kind), cell in seen.cells.items() if kind != "none" and cell.held)
    print(f"{len(hostile_program.ESCAPES)} escapes, {len(seen.cells)} tries: {seen.real} lead out without walls, "
          f"{held} were held behind walls, {len(seen.broken)} broke a promise")
    from proof.box.held_programs import run_programs  # It rests on this module.

    return run_programs() and not seen.broken and seen.real > 0
