"""Changes staged by the kernel's own overlay, as root and as a plain user: listed, landed and discarded (H-17)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import msgspec
import pytest

from runner import kernel_session
from runner.kernel_session import Seen
from runner.staged_overlay import Overlay, after_now, tree
from this_host import HOST

pytestmark = [pytest.mark.req("H-17"), pytest.mark.skipif(bool(HOST.no_overlay), reason=HOST.no_overlay)]
PLAIN_USER = 65_534
LANDED = {"edited": "ONE\n", "lib": "directory", "lib/c": "new\n", "script": "script", "link": "-> edited",
          "renamed": "moved", "swap": "directory", "swap/in": "in\n", "binary": "a\0b", "nested": "directory",
          "nested/.git": "directory", "nested/.git/HEAD": "NEXT\n"}


@pytest.fixture
def place() -> Generator[Path]:
    """A directory that every user may enter, unlike pytest's own."""
    directory = Path(tempfile.mkdtemp(prefix="interlock-staged-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


def as_user(uid: int, directory: Path) -> Seen:
    """Run the session in a process of that user, and return what it saw."""
    run = subprocess.run([sys.executable, kernel_session.__file__, str(directory), str(uid)], capture_output=True,
                         env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, check=False)
    assert run.returncode == 0, run.stderr.decode()
    return msgspec.json.decode(run.stdout, type=Seen)


@pytest.mark.parametrize("user", ["root", "a plain user"])
def test_files_staged_by_the_kernel_land_complete_and_the_next_turn_sees_them(place: Path, user: str) -> None:
    if (os.geteuid() == 0) != (user == "root") and os.geteuid() != 0:
        pytest.skip("this is a plain user")
    uid = PLAIN_USER if user == "a plain user" and os.geteuid() == 0 else os.geteuid()
    home = place / "of-user"
    home.mkdir()
    os.chown(home, uid, -1)

    seen = as_user(uid, home)

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
def test_a_full_disk_refuses_one_file_and_accepts_the_next(place: Path) -> None:
    overlay = Overlay(place)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "interlock", str(overlay.workspace)],
                             capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {mounted.stderr.decode()}")
    try:
        staged = overlay.begin(large="before", small="before")
        overlay.wrote("large", b"x" * 200_000)
        overlay.wrote("small", "after")
        report = staged.land(staged.look(after_now()).changes)

        assert [(one.path, one.why) for one in report.refused] == [
            ("large", "it could not be written: No space left on device")]
        assert tree(overlay.workspace) == {"large": "before", "small": "after"}
        assert [one.path for one in staged.look(after_now()).changes] == ["large"]
    finally:
        subprocess.run(["umount", str(overlay.workspace)], check=True)
