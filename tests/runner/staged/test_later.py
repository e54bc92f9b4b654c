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
def over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Overlay:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (tmp_path / "home").mkdir()
    return Overlay(tmp_path)


def git(place: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(place), *words], check=True, capture_output=True)


def found(over: Overlay) -> dict[str, str]:
    return marks(over.staged.look(after_now()).changes, over.staged.upper, over.workspace)


def test_hooks_of_a_directory_that_the_repository_names(over: Overlay) -> None:
    git(over.workspace, "init", "-q")
    git(over.workspace, "config", "core.hooksPath", "tools/hooks")
    over.begin(a_txt="one\n")
    over.wrote("tools/hooks/pre-commit", "#!/bin/sh\n", 0o755)
    over.wrote("tools/other", "text\n")

    assert found(over) == {"tools/hooks/pre-commit": "git runs it as a hook: core.hooksPath names its directory"}


def test_hooks_of_a_directory_that_only_the_staged_settings_name(over: Overlay) -> None:
    git(over.workspace, "init", "-q")
    over.begin(a_txt="one\n")
    over.wrote(".git/config", "[core]\n\thooksPath = build\n[alias]\n\tci = !./run\n[include]\n\tpath = ../more\n")
    over.wrote("more", "[diff]\n\texternal = ./show\n")
    for name in ("build/pre-push", "run", "show", "other"):
        over.wrote(name, "#!/bin/sh\n", 0o755)

    assert found(over) == {
        ".git/config": "git reads it, and it sets what git runs: core.hookspath, alias.ci, include.path",
        "build/pre-push": "git runs it as a hook: core.hooksPath names its directory",
        "more": "git reads it, and it sets what git runs: diff.external",
        "run": "git runs it: alias.ci names it", "show": "git runs it: diff.external names it"}


def test_attributes_that_switch_on_a_filter_of_the_users_own(over: Overlay, tmp_path: Path) -> None:
    (tmp_path / "home/.gitconfig").write_text('[filter "secret"]\n\tclean = "mail-it"\n')
    git(over.workspace, "init", "-q")
    over.begin(__gitattributes="")
    over.wrote("docs/.gitattributes", "* filter=secret\n")
    over.wrote(".gitattributes", "* text=auto\n")

    assert found(over) == {
        "docs/.gitattributes": "it has git run the program of filter.secret.clean on files that it names"}


def test_a_workspace_inside_a_larger_repository_and_one_with_a_repository_inside(over: Overlay, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    git(tmp_path, "config", "core.fsmonitor", "workspace/watch")
    (over.workspace / "lib").mkdir()
    git(over.workspace / "lib", "init", "-q")
    git(over.workspace / "lib", "config", "core.sshCommand", "./connect")
    over.begin(a_txt="one\n")
    for name in ("watch", "lib/watch", "connect", "lib/connect"):
        over.wrote(name, "#!/bin/sh\n", 0o755)

    assert found(over) == {"watch": "git runs it: core.fsmonitor names it",
                           "lib/connect": "git runs it: core.sshcommand names it"}


def test_nothing_that_the_agent_put_in_place_of_settings_holds_up_the_question(over: Overlay, tmp_path: Path) -> None:
    git(over.workspace, "init", "-q")
    over.begin(a_txt="one\n")
    over.wrote("a.txt", "two\n")
    (over.staged.upper / ".git").mkdir()
    os.mkfifo(over.staged.upper / ".git/config")
    over.linked(".gitattributes", "/dev/zero")
    over.wrote(".git/config.worktree", "[broken")

    assert found(over) == {
        ".git/config.worktree": "git reads it: settings can name programs that git runs"}


def test_without_git_only_paths_count(over: Overlay, monkeypatch: pytest.MonkeyPatch) -> None:
    git(over.workspace, "init", "-q")
    git(over.workspace, "config", "core.hooksPath", "tools")
    over.begin(a_txt="one\n")
    over.wrote("tools/pre-commit", "#!/bin/sh\n", 0o755)
    over.wrote(".husky/pre-commit", "#!/bin/sh\n", 0o755)
    monkeypatch.setenv("PATH", "/nonexistent")

    assert found(over) == {".husky/pre-commit": "git runs it as a hook"}


def test_settings_of_a_hostile_agent_neither_fill_the_question_nor_break_it(over: Overlay) -> None:
    git(over.workspace, "init", "-q")
    over.begin(a_txt="one\n")
    over.wrote(".git/config", b'[filter "\xff\x1b[2J' + b"x" * 100_000 + b'"]\n\tclean = ./run\n')
    over.wrote("run", "#!/bin/sh\n", 0o755)
    over.wrote("b.txt", "two\n")

    asked = msgspec.json.decode(question(over.staged.look(after_now()), over.staged.upper, over.workspace).input_json)
    assert asked["runsUnasked"] == 2
    assert "notListed" not in asked
    assert {one["path"] for one in asked["files"] if "unasked" in one} == {".git/config", "run"}
