"""Durable files: whatever happens, the file under its name is complete (X-2, U-3)."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.durable_files import name_new, replace_file, sync_tree


def names(directory: Path) -> list[str]:
    return sorted(one.name for one in directory.iterdir())


def test_a_file_is_created_with_its_directory_and_readable_only_by_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "token"
    replace_file(path, b"secret")
    assert path.read_bytes() == b"secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_file_is_replaced_and_no_draft_is_left(tmp_path: Path) -> None:
    (tmp_path / "config").write_bytes(b"a longer old content")
    replace_file(tmp_path / "config", b"new", mode=0o664)
    assert (tmp_path / "config").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "config").stat().st_mode) == 0o664
    assert names(tmp_path) == ["config"]


@pytest.mark.req("K-2")
def test_a_draft_left_by_a_crash_is_replaced(tmp_path: Path) -> None:
    (tmp_path / ".owner.key.new").write_text("half of a longer key")
    replace_file(tmp_path / "owner.key", b"key")
    assert (tmp_path / "owner.key").read_bytes() == b"key"
    assert names(tmp_path) == ["owner.key"]


def test_a_draft_is_never_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "victim").write_bytes(b"kept")
    (tmp_path / ".token.new").symlink_to(tmp_path / "victim")
    replace_file(tmp_path / "token", b"secret")
    assert (tmp_path / "victim").read_bytes() == b"kept"
    assert not (tmp_path / "token").is_symlink()


def test_a_failed_write_leaves_the_old_content_and_no_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_bytes(b"old")

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as failed:
        replace_file(tmp_path / "token", b"new")
    assert failed.value.filename == str(tmp_path / "token")
    assert (tmp_path / "token").read_bytes() == b"old"
    assert names(tmp_path) == ["token"]


def test_an_error_names_the_file_and_not_its_draft(tmp_path: Path) -> None:
    (tmp_path / ".token.new").mkdir()  # Where the draft would be.
    with pytest.raises(OSError, match="token") as failed:
        replace_file(tmp_path / "token", b"new")
    assert failed.value.filename == str(tmp_path / "token")


def test_content_and_name_are_synced_and_the_name_only_after_the_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = list[tuple[str, bool]]()
    path = tmp_path / "token"

    def sync(descriptor: int) -> None:
        is_directory = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        steps.append(("directory" if is_directory else "file", path.exists()))

    monkeypatch.setattr(os, "fsync", sync)
    replace_file(path, b"new")
    assert steps == [("file", False), ("directory", True)]


def test_writers_of_different_names_do_not_replace_each_others_drafts(tmp_path: Path) -> None:
    (tmp_path / ".token.1").write_bytes(b"another process writes this")
    replace_file(tmp_path / "token", b"mine", writer="2")
    assert names(tmp_path) == [".token.1", "token"]


def test_every_directory_of_a_tree_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (inner / "file").touch()
    synced = list[int]()
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    sync_tree(tmp_path)
    assert sorted(synced) == sorted(path.stat().st_ino for path in (tmp_path, tmp_path / "a", inner))


def _fail_to_link(number: int) -> Callable[[Path, Path], None]:
    def link(_draft: Path, _path: Path) -> None:
        raise OSError(number, os.strerror(number))

    return link


@pytest.mark.parametrize("number", [None, errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_new_name_replaces_no_file_also_on_a_file_system_without_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int | None
) -> None:
    draft, path = tmp_path / ".draft", tmp_path / "archive"
    if number is not None:
        monkeypatch.setattr(os, "link", _fail_to_link(number))
    draft.write_bytes(b"complete")
    name_new(draft, path)
    assert path.read_bytes() == b"complete"
    draft.unlink(missing_ok=True)
    draft.write_bytes(b"other")
    with pytest.raises(FileExistsError):
        name_new(draft, path)
    assert path.read_bytes() == b"complete"


def test_a_full_disk_is_no_file_system_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", _fail_to_link(errno.ENOSPC))
    (tmp_path / ".draft").write_bytes(b"complete")
    with pytest.raises(OSError, match="No space left"):
        name_new(tmp_path / ".draft", tmp_path / "archive")
    assert names(tmp_path) == [".draft"]
