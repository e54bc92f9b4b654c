"""The builtin agent's own tools work inside the runner, without a wall: they open no hidden path
(H-15)."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.agents.builtin import files, search_tool
from interlock.agents.builtin.places import ToolFailed, Workspace

pytestmark = pytest.mark.req("H-15")


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A home directory with the state directory in it."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "owner.key").write_text("the key")
    (tmp_path / "file").write_text("the file")
    (tmp_path / "link").symlink_to("state")
    return Workspace(str(tmp_path), [str(tmp_path / "state")])


@pytest.mark.parametrize("path", ["state/owner.key", "link/owner.key", "state", "./state/../state/owner.key"])
def test_hidden_paths_are_neither_read_nor_written_nor_listed(workspace: Workspace, path: str) -> None:
    for tool in (files.read, files.listing, lambda place, name: files.write(place, name, "mine"),
                 lambda place, name: files.edit(place, name, "the", "my"),
                 lambda place, name: search_tool.search(place, "key", name)):
        with pytest.raises(ToolFailed, match="is hidden from agents"):
            tool(workspace, path)
    assert (workspace.resolve() / "state" / "owner.key").read_text() == "the key"


def test_a_search_of_the_workspace_skips_hidden_paths(workspace: Workspace) -> None:
    assert search_tool.search(workspace, "the") == "file:1: the file"


def test_a_deep_listing_names_a_hidden_directory_and_nothing_in_it(workspace: Workspace) -> None:
    assert files.listing(workspace, depth=3) == "file\nlink -> state\nstate/"


def test_paths_that_are_not_hidden_are_read(workspace: Workspace) -> None:
    assert files.read(workspace, "file") == "1\tthe file"
