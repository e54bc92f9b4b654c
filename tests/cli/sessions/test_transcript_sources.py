"""Source and destination of a transcript: files are written atomically, and none is overwritten."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.cli.exit_status import ExitStatus
from interlock.cli.sessions.transcript_sources import file_named, file_size, read_file, write_new
from interlock.cli.verb_error import Trouble

pytestmark = pytest.mark.req("X-6", "G-7")


@pytest.mark.parametrize(("text", "is_file"), [
    ("t.jsonl", True), ("./t", True), ("dir/t", True), ("/abs/t", True), ("@last", False), ("agent:main", False),
    ("9f3a", False)])
def test_a_path_or_a_suffix_means_a_file_and_anything_else_a_session(text: str, is_file: bool) -> None:
    assert (file_named(text) is not None) is is_file


def test_a_file_is_read_with_its_size(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"12345")
    assert (read_file(path), file_size(path)) == (b"12345", 5)


def test_a_path_that_is_not_a_file_gives_one_sentence(tmp_path: Path) -> None:
    for verb in (read_file, file_size):
        with pytest.raises(Trouble, match="There is no file") as caught:
            verb(tmp_path / "none.jsonl")
        assert caught.value.status == ExitStatus.NOT_FOUND
        with pytest.raises(Trouble, match=r"is a directory|is not a regular file"):
            verb(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Trouble, match="is not a regular file"):
        file_size(tmp_path / "pipe")


def test_a_new_file_is_complete_and_replaces_none(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    write_new(path, b"one")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"one", 0o600)
    with pytest.raises(Trouble, match="is there already"):
        write_new(path, b"two")
    assert path.read_bytes() == b"one"
    assert [file.name for file in tmp_path.iterdir()] == ["out.jsonl"]
    with pytest.raises(Trouble, match="cannot be written"):
        write_new(tmp_path / "nowhere" / "x", b"")


def test_the_draft_of_a_killed_export_is_removed_by_the_next(tmp_path: Path) -> None:
    program = ("import os, pathlib, signal, sys; from interlock.cli.sessions.transcript_sources import write_new; "
               "os.link = lambda *_: os.kill(os.getpid(), signal.SIGKILL); "
               "write_new(pathlib.Path(sys.argv[1]), b'one')")
    path = tmp_path / "out.jsonl"
    killed = subprocess.run([sys.executable, "-c", program, str(path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not path.exists()
    assert list(tmp_path.iterdir()), "its draft is there"
    write_new(path, b"two")
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("out.jsonl", b"two")]
