"""A process is known by its number and its start, and a thread by the process that it belongs to."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from interlock.box import processes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")


def test_a_child_has_this_parent_and_a_later_start() -> None:
    child = subprocess.Popen(["sleep", "60"])
    try:
        parent, start = processes.parent_and_start(child.pid)
        assert parent == os.getpid()
        assert start == processes.began(child.pid) >= processes.began(os.getpid())
    finally:
        child.kill()
        child.wait()


def test_a_name_with_brackets_and_blanks_does_not_shift_the_fields(tmp_path: Path) -> None:
    odd = tmp_path / "a) 7 (b"
    odd.symlink_to("/bin/sleep")
    child = subprocess.Popen([str(odd), "60"])
    try:
        assert processes.parent_and_start(child.pid)[0] == os.getpid()
    finally:
        child.kill()
        child.wait()


def test_a_thread_belongs_to_its_process() -> None:
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(processes.group_of(threading.get_native_id())))
    thread.start()
    thread.join()

    assert found == [os.getpid()]


def test_a_process_shows_its_file_and_a_dead_one_a_placeholder() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()

    assert processes.path_of(os.getpid()) == os.readlink("/proc/self/exe").encode()
    assert processes.path_of(gone.pid) == b"a program that is gone"
    with pytest.raises(OSError):
        processes.began(gone.pid)
