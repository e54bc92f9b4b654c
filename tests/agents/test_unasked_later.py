"""Files that make a tool run programs later without asking (H-17)."""

from __future__ import annotations

import pytest

from interlock.agents.unasked_later import unasked_later
from interlock.agents.workspace_files import ANYTHING

pytestmark = pytest.mark.req("H-17", "H-13")


@pytest.mark.parametrize("path", [
    ".git/hooks/pre-commit", "vendor/lib/.git/hooks/post-checkout", ".git/config", ".git/config.worktree",
    ".git/modules/lib/hooks/pre-push", ".git/modules/a/modules/b/config", ".git/worktrees/x/config.worktree",
    ".husky/pre-commit", ".githooks/pre-push", ".claude/settings.json", "sub/.claude/hooks/a.sh", "opencode.json",
    ".qwen/settings.json", ".github/hooks/a.json", ".mcp.json", ".vscode/tasks.json", ".GIT/Hooks/pre-commit",
    "a/.git",
])
def test_hooks_and_settings_count_at_any_depth(path: str) -> None:
    assert unasked_later(path, "file")


@pytest.mark.parametrize("path", [
    "src/main.py", ".gitignore", ".git/HEAD", ".git/objects/ab/cd", "docs/hooks/config", "hooks/pre-commit",
    ".github/workflows/ci.yml", ".claude/notes.md", "x.git/config", ".git/modules/lib/HEAD",
])
def test_other_files_do_not_count(path: str) -> None:
    assert unasked_later(path, "file") is None


def test_every_configuration_path_of_an_agent_counts() -> None:
    for place in ANYTHING.places:
        assert unasked_later(place.path + "x" if place.path.endswith("/") else place.path, "file"), place


@pytest.mark.parametrize("path", [".git", ".git/hooks", ".claude", ".vscode"])
def test_a_link_that_replaces_their_directory_counts(path: str) -> None:
    assert unasked_later(path, "link")
    assert unasked_later(path, "directory") is None


def test_deleted_files_do_not_count() -> None:
    assert unasked_later(".git/hooks/pre-commit", "absent") is None
