"""Changes staged by the kernel's own overlay, as root and as a plain user: seen, landed and thrown away (H-17)."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path

import msgspec
import pytest

from interlock.box import namespace, overlay, raising  # noqa: F401 - imported before a child may not read them
from interlock.box.host import survey
from interlock.box.walls import Walls
from interlock.runner.staged.store import Staged
from runner.staged_overlay import Overlay, after_now, tree

HOST = survey()
pytestmark = [pytest.mark.req("H-17"), pytest.mark.skipif(bool(HOST.no_overlay), reason=HOST.no_overlay)]
PLAIN_USER = 65_534
PR_SET_DUMPABLE = 4
EDITS = """
echo ONE > edited; rm gone; rm -r lib; mkdir lib; echo new > lib/c; chmod 700 script; ln -s edited link
mv moved renamed; rm swap; mkdir swap; echo in > swap/in; printf 'a\\0b' > binary; echo NEXT > nested/.git/HEAD
"""
LANDED = {"edited": "ONE\n", "lib": "directory", "lib/c": "new\n", "script": "script", "link": "-> edited",
          "renamed": "moved", "swap": "directory", "swap/in": "in\n", "binary": "a\0b", "nested": "directory",
          "nested/.git": "directory", "nested/.git/HEAD": "NEXT\n"}


class Seen(msgspec.Struct):
    """What the child saw."""

    status: int
    before: dict[str, str]
    after: dict[str, str]
    changes: dict[str, str]
    refused: list[str]
    landed: dict[str, str]
    left: int
    discarded: dict[str, str]


@pytest.fixture
def place() -> Generator[Path]:
    """A directory that every user may enter, unlike pytest's own."""
    directory = Path(tempfile.mkdtemp(prefix="interlock-staged-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


def as_user(uid: int, act: Callable[[], Seen]) -> Seen:
    """Act in a child of that user, and return what it saw."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            if uid != os.geteuid():
                os.setgroups([])
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
                ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # Else /proc/self is root's.
            os.write(writing, msgspec.json.encode(act()))
        except BaseException as failed:  # noqa: BLE001 - the parent shows it
            os.write(writing, repr(failed).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        text = file.read()
    os.waitpid(pid, 0)
    try:
        return msgspec.json.decode(text, type=Seen)
    except msgspec.MsgspecError:
        raise AssertionError(text.decode()) from None


def agent(staged: Staged, line: str) -> int:
    """Run a shell line over the workspace's overlay, as the keeper starts an agent; its exit status."""
    pid = os.fork()
    if pid == 0:
        try:
            walls = Walls("namespace", staged=(str(staged.workspace), str(staged.upper), str(staged.work)))
            raising.raise_walls([os.fsencode(field) for field in walls.fields()])
            os.chdir(staged.workspace)
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
    report = staged.land(found.changes, staged.moment())
    staged.reported()
    landed, left = tree(workspace), len(staged.look(staged.moment()).changes)
    staged.prepare(staged.moment())
    status = status or agent(staged, "test ! -e gone; cat lib/c; rm -r lib; echo more > more")
    staged.discard(None, staged.moment())
    staged.prepare(staged.moment())
    status = status or agent(staged, "test -e lib/c; test ! -e more")
    return Seen(status, before, after, {one.path: one.what for one in found.changes},
                [f"{one.path}: {one.why}" for one in report.refused], landed, left, tree(workspace))


@pytest.mark.parametrize("user", ["root", "a plain user"])
def test_what_the_kernel_staged_lands_whole_and_the_next_turn_sees_it(place: Path, user: str) -> None:
    if (os.geteuid() == 0) != (user == "root") and os.geteuid() != 0:
        pytest.skip("this is a plain user")
    uid = PLAIN_USER if user == "a plain user" and os.geteuid() == 0 else os.geteuid()
    home = place / "of-user"
    home.mkdir()
    os.chown(home, uid, -1)

    seen = as_user(uid, lambda: one_session(home))

    assert seen.status == 0
    assert seen.after == seen.before
    assert seen.changes == {
        "edited": "modified", "gone": "deleted", "lib/a": "deleted", "lib/in": "deleted", "lib/in/b": "deleted",
        "lib/c": "added", "script": "mode", "link": "added", "moved": "deleted", "renamed": "added",
        "swap": "modified", "swap/in": "added", "binary": "added", "nested/.git/HEAD": "modified"}
    assert seen.refused == []
    assert seen.landed == LANDED
    assert seen.left == 0
    assert seen.discarded == LANDED
    assert (home / "workspace/script").stat().st_mode & 0o777 == 0o700
    assert (home / "workspace/edited").stat().st_uid == uid


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a small disk")
def test_a_disk_that_is_full_refuses_one_file_and_takes_the_next(place: Path) -> None:
    over = Overlay(place)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "interlock", str(over.workspace)],
                             capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {mounted.stderr.decode()}")
    try:
        staged = over.begin(large="before", small="before")
        over.wrote("large", b"x" * 200_000)
        over.wrote("small", "after")
        report = staged.land(staged.look(after_now()).changes, after_now())

        assert [(one.path, one.why) for one in report.refused] == [
            ("large", "it could not be written: No space left on device")]
        assert tree(over.workspace) == {"large": "before", "small": "after"}
        assert [one.path for one in staged.look(after_now()).changes] == ["large"]
    finally:
        subprocess.run(["umount", str(over.workspace)], check=True)
