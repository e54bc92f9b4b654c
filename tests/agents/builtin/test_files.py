"""The builtin agent's files: odd ones, odd paths and odd changes get one sentence, and nothing outside is touched."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from interlock.agents.builtin import files
from interlock.agents.builtin.places import ToolFailed, opened, resolved

pytestmark = pytest.mark.req("B-1")


@pytest.mark.parametrize(("path", "reason"), [
    ("none", "No such file"), ("inner", "a directory"), ("pipe", "not a regular file"), ("binary", "not text"),
    ("latin", "not UTF-8"), ("loop", "cannot be resolved"), ("a\0b", "zero byte"), ("../x", "outside the workspace"),
    ("outside/x", "outside the workspace"), ("~/x", "No such file"), ("/", "outside the workspace"),
])
def test_a_file_that_cannot_be_read_gives_one_sentence(odd_workspace: Path, path: str, reason: str) -> None:
    with pytest.raises(ToolFailed) as failed:
        files.read(odd_workspace, path)
    assert reason in str(failed.value)
    assert "\n" not in str(failed.value)


def test_reading_is_bounded_and_names_the_next_offset(odd_workspace: Path) -> None:
    assert files.read(odd_workspace, "inside") == "1\tone\n2\ttwo\n3\ttwo"
    assert files.read(odd_workspace, "long").endswith("… (100000 characters)")
    first = files.read(odd_workspace, "many")
    assert first.endswith("(3000 more lines; continue with offset 2001)")
    assert files.read(odd_workspace, "many", offset=5_000) == "5000\tline"
    with pytest.raises(ToolFailed, match="beyond its end"):
        files.read(odd_workspace, "many", offset=5_001)


def test_edits_are_exact_or_not_applied(odd_workspace: Path) -> None:
    for old, new, reason in (("two", "2", "2 times"), ("three", "3", "does not contain"), ("", "x", "is empty"),
                             ("one", "one", "the same")):
        with pytest.raises(ToolFailed, match=reason):
            files.edit(odd_workspace, "a.txt", old, new)
    assert files.edit(odd_workspace, "a.txt", "two", "2", every=True) == "a.txt: 2 places changed"
    assert files.write(odd_workspace, "new/deep/b.txt", "x") == "new/deep/b.txt: written, 1 lines"
    for path in (".", "inner", "pipe", "a.txt/x", "outside/x"):
        with pytest.raises(ToolFailed):
            files.write(odd_workspace, path, "x")
    assert (odd_workspace / "a.txt").read_text() == "one\n2\n2\n"
    assert sorted(entry.name for entry in odd_workspace.parent.iterdir()) == ["work"]


@pytest.mark.req("A-1")
def test_a_symlink_that_is_inserted_is_not_followed(odd_workspace: Path) -> None:
    seen = resolved(odd_workspace, "inner/file")
    (odd_workspace / "inner").rmdir()
    (odd_workspace / "inner").symlink_to(odd_workspace.parent)
    with pytest.raises(ToolFailed), opened(odd_workspace, seen, os.O_WRONLY | os.O_CREAT):
        pass
    assert not (odd_workspace.parent / "file").exists()


def test_a_listing_shows_links_and_follows_none(odd_workspace: Path) -> None:
    listed = files.listing(odd_workspace, ".", 9).split("\n")
    assert f"outside -> {odd_workspace.parent}" in listed
    assert "inner/" in listed
