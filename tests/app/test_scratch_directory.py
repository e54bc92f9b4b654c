"""A directory for incomplete files: those of a killed process are removed, those in use by another one are not."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.app.scratch_directory import IN_USE, new_file, scratch_directory

pytestmark = pytest.mark.req("Y-15")
HOLD = """
import sys
from pathlib import Path
from interlock.app.scratch_directory import scratch_directory
with scratch_directory(Path(sys.argv[1]), ".interlock-restore-") as place:
    (place / "state").mkdir()
    print(place, flush=True)
    sys.stdin.read()
"""


def holder(parent: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process that uses a directory until its standard input ends, and the directory."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(parent)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_files_of_a_killed_process_are_removed_by_the_next(tmp_path: Path) -> None:
    process, left = holder(tmp_path)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert (left / "state").is_dir()
    (tmp_path / ".interlock-other").mkdir()
    with scratch_directory(tmp_path, ".interlock-restore-") as place:
        assert sorted(tmp_path.iterdir()) == sorted([place, tmp_path / ".interlock-other"])
        assert place.stat().st_mode & 0o077 == 0
    assert list(tmp_path.iterdir()) == [tmp_path / ".interlock-other"]


def test_files_of_another_running_process_stay(tmp_path: Path) -> None:
    process, used = holder(tmp_path)
    with scratch_directory(tmp_path, ".interlock-restore-"):
        assert (used / "state").is_dir()
    process.communicate("")
    assert list(tmp_path.iterdir()) == []


def test_a_link_with_that_name_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/file").touch()
    (tmp_path / ".interlock-restore-link").symlink_to(tmp_path / "kept")
    with scratch_directory(tmp_path, ".interlock-restore-"):
        assert (tmp_path / "kept/file").exists()


def test_a_directory_of_a_process_that_was_killed_before_its_first_file_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".interlock-restore-empty").mkdir()
    with scratch_directory(tmp_path, ".interlock-restore-") as place:
        assert list(tmp_path.iterdir()) == [place]


def test_the_file_that_marks_a_directory_is_removed_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    removed = list[str]()
    unlink = os.unlink

    def note(path: str, **options: int) -> None:
        removed.append(Path(path).name)
        unlink(path, **options)

    monkeypatch.setattr(os, "unlink", note)
    with scratch_directory(tmp_path, ".interlock-restore-") as place:
        (place / "state").mkdir()
        for number in range(20):
            (place / "state" / str(number)).touch()
        (place / "archive").touch()
    assert len(removed) == 22
    assert removed[-1] == IN_USE


def test_a_directory_that_cannot_be_marked_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flock = fcntl.flock

    def fail_in_directory(descriptor: int, operation: int) -> None:
        if os.fstat(descriptor).st_ino != tmp_path.stat().st_ino:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", fail_in_directory)
    with pytest.raises(OSError, match="No space left"), scratch_directory(tmp_path, ".interlock-restore-"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_foreign_directory_with_that_name_stays(tmp_path: Path) -> None:
    (tmp_path / ".interlock-restore-notes").mkdir()
    (tmp_path / ".interlock-restore-notes/file").touch()
    with scratch_directory(tmp_path, ".interlock-restore-"):
        pass
    assert (tmp_path / ".interlock-restore-notes/file").exists()


def test_a_new_file_is_there_only_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with new_file(path, ".interlock-restore-") as file:
        file.write(b"whole")
        assert not path.exists()
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"whole", 0o600)
    with pytest.raises(FileExistsError), new_file(path, ".interlock-restore-") as file:
        file.write(b"other")
    with pytest.raises(ValueError, match="stops"), new_file(tmp_path / "part", ".interlock-restore-"):
        raise ValueError("stops")
    assert [(one.name, one.read_bytes()) for one in tmp_path.iterdir()] == [("out", b"whole")]
