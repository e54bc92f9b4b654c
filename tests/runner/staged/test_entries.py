"""What is at one path, read by descriptors: no link and no directory that is swapped leads out of the tree (H-17)."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

import pytest

from interlock.runner.staged import entries
from interlock.runner.staged.entries import ABSENT, FileChange, FileEntry, below, entry, opened, remove, split

pytestmark = pytest.mark.req("H-17")


def read(tree: Path, name: str) -> FileEntry:
    with opened(tree) as top:
        return entry(top, name)


def test_each_kind_of_entry_is_recognised(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    (tmp_path / "file").chmod(0o640)
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "directory").mkdir(mode=0o750)
    os.mkfifo(tmp_path / "fifo")

    file, link = read(tmp_path, "file"), read(tmp_path, "link")
    assert (file.kind, file.mode, file.size, file.sha256) == ("file", 0o640, 3, hashlib.sha256(b"abc").hexdigest())
    assert (link.kind, link.sha256) == ("link", hashlib.sha256(b"/etc/passwd").hexdigest())
    assert (read(tmp_path, "directory").kind, read(tmp_path, "fifo").kind) == ("directory", "other")
    assert read(tmp_path, "none") is ABSENT


def test_no_path_step_follows_a_link(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "link").symlink_to("../outside")

    with opened(tmp_path / "tree") as top:
        with pytest.raises(OSError), below(top, "link"):
            pass
        with below(top, "") as same:
            assert os.fstat(same).st_ino == os.fstat(top).st_ino


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "MAX_FILE_BYTES", 2)
    (tmp_path / "file").write_bytes(b"abc")

    with pytest.raises(OSError, match="larger than 2 bytes") as error:
        read(tmp_path, "file")
    assert error.value.errno == errno.EFBIG


def test_removing_a_tree_keeps_the_targets_of_its_links(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    (tmp_path / "gone" / "inner").mkdir(parents=True)
    (tmp_path / "gone" / "link").symlink_to("../kept")
    (tmp_path / "gone" / "inner").chmod(0)

    with opened(tmp_path) as top:
        remove(top, "gone")
        remove(top, "none")

    assert sorted(one.name for one in tmp_path.iterdir()) == ["kept"]
    assert (tmp_path / "kept" / "file").exists()


@pytest.mark.parametrize(("base", "new", "what"), [
    (ABSENT, FileEntry("file"), "added"), (FileEntry("file"), ABSENT, "deleted"),
    (FileEntry("file", 0o644, 1, "a"), FileEntry("file", 0o755, 1, "a"), "mode"),
    (FileEntry("file", 0o644, 1, "a"), FileEntry("file", 0o644, 1, "b"), "modified"),
    (FileEntry("file", 0o644, 1, "a"), FileEntry("link", 0, 1, "a"), "modified"),
])
def test_a_change_has_one_term(base: FileEntry, new: FileEntry, what: str) -> None:
    assert FileChange("x", base, new).what == what


def test_a_path_is_its_directory_and_its_last_name() -> None:
    assert (split("a/b/c"), split("c")) == (("a/b", "c"), ("", "c"))
