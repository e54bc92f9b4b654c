"""Workspaces lie under the runner's roots, symlinks resolved first (A-1)."""

from pathlib import Path

import pytest

from interlock.runner.workspace.workspace import WorkspaceRefused, resolve_workspace


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "project").mkdir(parents=True)
    return root


@pytest.mark.req("A-1")
def test_a_directory_inside_a_root_is_resolved(root: Path) -> None:
    (root / "link").symlink_to(root / "project")
    assert resolve_workspace(root / "link" / ".." / "project", [root]) == root / "project"
    assert resolve_workspace(str(root), ["/nowhere", str(root)]) == root


@pytest.mark.req("A-1")
def test_a_root_may_be_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(root)
    assert resolve_workspace(tmp_path / "alias" / "project", [tmp_path / "alias"]) == root / "project"


@pytest.mark.req("A-1")
def test_a_path_outside_is_refused_with_the_remedy(root: Path, tmp_path: Path) -> None:
    (root / "escape").symlink_to(tmp_path)
    (tmp_path / "root-not").mkdir()
    for outside in (tmp_path, root / "escape", root / "..", tmp_path / "root-not", tmp_path / "missing"):
        with pytest.raises(WorkspaceRefused, match=r"lies outside the runner's roots .*--root "):
            resolve_workspace(outside, [root])


@pytest.mark.req("A-1")
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("missing", "does not exist"),
        ("file", "is not a directory"),
        ("loop", "cannot be found"),
        ("nul\0", "cannot be found"),
    ],
)
def test_a_path_that_is_not_a_directory_is_refused(root: Path, name: str, why: str) -> None:
    (root / "file").touch()
    (root / "loop").symlink_to(root / "loop")
    with pytest.raises(WorkspaceRefused, match=why):
        resolve_workspace(root / name, [root])


@pytest.mark.req("A-1")
def test_a_relative_path_is_refused(root: Path) -> None:
    with pytest.raises(WorkspaceRefused, match="not an absolute path"):
        resolve_workspace("project", [root])
