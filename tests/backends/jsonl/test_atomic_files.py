"""Atomic files: under their name they are complete, and a failed write leaves the previous content."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.backends.jsonl.atomic_files import publish_new, publish_over, write_draft


def failing() -> Iterator[bytes]:
    yield b"one"
    raise OSError("the disk is gone")


def names(directory: Path) -> set[str]:
    return {one.name for one in directory.iterdir()}


@pytest.mark.req("X-2")
def test_a_new_file_has_complete_lines_and_is_readable_only_by_its_owner(tmp_path: Path) -> None:
    publish_new(tmp_path / "a.jsonl", [b"one", b"two"])

    assert (tmp_path / "a.jsonl").read_bytes() == b"one\ntwo\n"
    assert os.stat(tmp_path / "a.jsonl").st_mode & 0o777 == 0o600
    assert names(tmp_path) == {"a.jsonl"}


def test_a_new_file_replaces_no_other(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"there")

    with pytest.raises(FileExistsError):
        publish_new(tmp_path / "a.jsonl", [b"one"])

    assert (tmp_path / "a.jsonl").read_bytes() == b"there"
    assert names(tmp_path) == {"a.jsonl"}


@pytest.mark.req("X-4")
def test_a_replaced_file_is_kept_under_another_name(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"before")

    publish_over(tmp_path / "a.jsonl", tmp_path / "a.1", [b"after"])

    assert (tmp_path / "a.jsonl").read_bytes() == b"after\n"
    assert (tmp_path / "a.1").read_bytes() == b"before"
    assert names(tmp_path) == {"a.jsonl", "a.1"}


def test_an_existing_backup_name_stops_it_before_anything_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"before")
    (tmp_path / "a.1").write_bytes(b"older")

    with pytest.raises(FileExistsError):
        publish_over(tmp_path / "a.jsonl", tmp_path / "a.1", [b"after"])

    assert (tmp_path / "a.jsonl").read_bytes() == b"before"
    assert (tmp_path / "a.1").read_bytes() == b"older"


def test_a_failed_write_leaves_nothing_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="the disk is gone"):
        publish_new(tmp_path / "a.jsonl", failing())

    assert names(tmp_path) == set()


def test_a_draft_left_by_a_crash_is_replaced(tmp_path: Path) -> None:
    (tmp_path / ".a.new").write_bytes(b"half of it and more")

    write_draft(tmp_path / ".a.new", [b"x"])

    assert (tmp_path / ".a.new").read_bytes() == b"x\n"
