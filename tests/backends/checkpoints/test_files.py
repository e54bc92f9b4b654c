"""Checkpoints in files: appended alone, a torn line cut before the next, and set aside under a name of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.backends.checkpoints.files import CheckpointFiles

pytestmark = pytest.mark.req("U-3")


def test_lines_are_appended_for_each_tenant_and_only_the_owner_reads_them(tmp_path: Path) -> None:
    files = CheckpointFiles(tmp_path / "checkpoints")
    files.append("t1", b"one\n")
    files.append("t1", b"two\n")
    files.append("a/b", b"other\n")

    assert (files.lines("t1"), files.lines("a/b"), files.lines("none")) == ([b"one\n", b"two\n"], [b"other\n"], [])
    assert files.tenants() == ["a/b", "t1"]
    assert files.path("a/b").parent == tmp_path / "checkpoints"  # A tenant's name is not a path.
    assert files.path("t1").stat().st_mode & 0o777 == 0o600
    assert files.newest("t1", 0) == [b"two\n"]


@pytest.mark.parametrize(("kept", "after"), [
    (b"one\ntw", b"one\nnew\n"), (b"half", b"new\n"), (b"one\n", b"one\nnew\n"), (b"", b"new\n")])
def test_the_rest_of_a_torn_line_is_removed_before_the_next_one(kept: bytes, after: bytes, tmp_path: Path) -> None:
    files = CheckpointFiles(tmp_path)
    files.path("t1").write_bytes(kept)
    files.append("t1", b"new\n")

    assert files.path("t1").read_bytes() == after


def test_a_torn_last_line_is_not_the_newest(tmp_path: Path) -> None:
    files = CheckpointFiles(tmp_path)
    files.path("t1").write_bytes(b"one\ntw")

    assert files.newest("t1", 0) == [b"one\n"]
    files.path("t1").write_bytes(b"half")
    assert files.newest("t1", 0) == [b"half"]  # Nothing before it contradicts that.


def test_a_log_set_aside_begins_again_and_earlier_ones_are_kept(tmp_path: Path) -> None:
    files = CheckpointFiles(tmp_path)
    files.set_aside("t1")
    for line in (b"first\n", b"second\n"):
        files.append("t1", line)
        files.set_aside("t1")

    assert (files.lines("t1"), files.tenants()) == ([], [])
    assert sorted(one.read_bytes() for one in tmp_path.iterdir()) == [b"first\n", b"second\n"]
