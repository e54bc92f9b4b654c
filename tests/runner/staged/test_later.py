"""Staged changes that git would run or read later, by the settings of the repository they land in (H-17)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from interlock.runner.staged.later import marks
from interlock.runner.staged.question import question
from runner.staged_overlay import Overlay, after_now

pytestmark = [pytest.mark.req("H-17", "H-13"), pytest.mark.needs("git")]


@pytest.fixture
def overlay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Overlay:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (tmp_path / "home").mkdir()
    return Overlay(tmp_path)


def git(place: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(place), *words], check=True, capture_output=True)


def found(overlay: Overlay) -> dict[str, str]:
    return marks(overlay.staged.look(after_now()).changes, overlay.staged.upper, overlay.workspace)


def test_hooks_in_a_directory_named_by_the_repository_count(overlay: Overlay) -> None:
    git(overlay.workspace, "init", "-q")
    git(overlay.workspace, "config", "core.hooksPath", "tools/hooks")
    overlay.begin(a_txt="one\n")
    overlay.wrote("tools/hooks/pre-commit", "#!/bin/sh\n", 0o755)
    overlay.wrote("tools/other", "text\n")

    assert found(overlay) == {"tools/hooks/pre-commit": "git runs it as a hook: core.hooksPath names its directory"}


def test_hooks_in_a_directory_named_only_by_staged_settings_count(overlay: Overlay) -> None:
    git(overlay.workspace, "init", "-q")
    overlay.begin(a_txt="one\n")
    overlay.wrote(".git/config", "[core]\n\thooksPath = build\n[alias]\n\tci = !./run\n[include]\n\tpath = ../more\n")
    overlay.wrote("more", "[diff]\n\texternal = ./show\n")
    for name in ("build/pre-push", "run", "show", "other"):
        overlay.wrote(name, "#!/bin/sh\n", 0o755)

    assert found(overlay) == {
        ".git/config": "git reads it, and it sets what git runs: core.hookspath, alias.ci, include.path",
        "build/pre-push": "git runs it as a hook: core.hooksPath names its directory",
        "more": "git reads it, and it sets what git runs: diff.external",
        "run": "git runs it: alias.ci names it", "show": "git runs it: diff.external names it"}


def test_attributes_that_enable_a_filter_of_the_user_count(overlay: Overlay, tmp_path: Path) -> None:
    (tmp_path / "home/.gitconfig").write_text('[filter "secret"]\n\tclean = "mail-it"\n')
    git(overlay.workspace, "init", "-q")
    overlay.begin(__gitattributes="")
    overlay.wrote("docs/.gitattributes", "* filter=secret\n")
    overlay.wrote(".gitattributes", "* text=auto\n")

    assert found(overlay) == {
        "docs/.gitattributes": "it has git run the program of filter.secret.clean on files that it names"}


def test_a_workspace_inside_a_repository_and_one_with_an_inner_repository_count(
    overlay: Overlay, tmp_path: Path
) -> None:
    git(tmp_path, "init", "-q")
    git(tmp_path, "config", "core.fsmonitor", "workspace/watch")
    (overlay.workspace / "lib").mkdir()
    git(overlay.workspace / "lib", "init", "-q")
    git(overlay.workspace / "lib", "config", "core.sshCommand", "./connect")
    overlay.begin(a_txt="one\n")
    for name in ("watch", "lib/watch", "connect", "lib/connect"):
        overlay.wrote(name, "#!/bin/sh\n", 0o755)

    assert found(overlay) == {"watch": "git runs it: core.fsmonitor names it",
                              "lib/connect": "git runs it: core.sshcommand names it"}


def test_special_files_in_place_of_settings_do_not_delay_the_question(overlay: Overlay, tmp_path: Path) -> None:
    git(overlay.workspace, "init", "-q")
    overlay.begin(a_txt="one\n")
    overlay.wrote("a.txt", "two\n")
    (overlay.staged.upper / ".git").mkdir()
    os.mkfifo(overlay.staged.upper / ".git/config")
    overlay.linked(".gitattributes", "/dev/zero")
    overlay.wrote(".git/config.worktree", "[broken")

    assert found(overlay) == {
        ".git/config.worktree": "git reads it: settings can name programs that git runs"}


def test_without_git_only_paths_count(overlay: Overlay, monkeypatch: pytest.MonkeyPatch) -> None:
    git(overlay.workspace, "init", "-q")
    git(overlay.workspace, "config", "core.hooksPath", "tools")
    overlay.begin(a_txt="one\n")
    overlay.wrote("tools/pre-commit", "#!/bin/sh\n", 0o755)
    overlay.wrote(".husky/pre-commit", "#!/bin/sh\n", 0o755)
    monkeypatch.setenv("PATH", "/nonexistent")

    assert found(overlay) == {".husky/pre-commit": "git runs it as a hook"}


def test_settings_of_a_hostile_agent_neither_flood_nor_break_the_question(overlay: Overlay) -> None:
    git(overlay.workspace, "init", "-q")
    overlay.begin(a_txt="one\n")
    overlay.wrote(".git/config", b'[filter "\xff\x1b[2J' + b"x" * 100_000 + b'"]\n\tclean = ./run\n')
    overlay.wrote("run", "#!/bin/sh\n", 0o755)
    overlay.wrote("b.txt", "two\n")

    asked = msgspec.json.decode(question(overlay.staged.look(after_now()), overlay.staged.upper,
                                         overlay.workspace).input_json)
    assert asked["runsUnasked"] == 2
    assert "notListed" not in asked
    assert {one["path"] for one in asked["files"] if "unasked" in one} == {".git/config", "run"}
