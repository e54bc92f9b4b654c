"""`run --worktree`: where a task works, what is shown at the end, and what is refused (Y-13)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from cli.scripted import Script, answer, link_to, problem
from interlock.cli.config.place import Where
from interlock.cli.tasks import worktree
from interlock.cli.tasks.run import BranchOf, CommandRun
from interlock.cli.verb_error import Trouble

pytestmark = pytest.mark.req("Y-13")


def git(directory: Path, *words: str) -> str:
    who = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER")
           for what, value in (("NAME", "Ann"), ("EMAIL", "ann@example.org"))}
    return subprocess.run(["git", *words], cwd=directory, env={**os.environ, **who}, check=True, capture_output=True,
                          text=True).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    top = tmp_path / "repo"
    (top / "sub").mkdir(parents=True)
    git(tmp_path, "init", "--quiet", str(top))
    (top / "sub" / "a.txt").write_text("a\n")
    git(top, "add", ".")
    git(top, "commit", "--quiet", "-m", "one")
    return top


def branches(repository: Path) -> list[str]:
    return git(repository, "branch", "--list", "interlock/*", "--format=%(refname:short)").split()


def test_a_task_works_on_its_own_branch_and_its_changes_are_shown(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / "sub" / "a.txt").write_text("mine\n")
    tree = worktree.planned(str(repository / "sub"), None)
    worktree.make(tree)
    assert (tree.workspace / "a.txt").read_text() == "a\n"
    assert "what is not committed" in capsys.readouterr().err
    assert git(repository, "status", "--porcelain").splitlines() == [" M sub/a.txt"]  # .interlock is passed over.
    (tree.workspace / "a.txt").write_text("b\n")
    (tree.workspace / "new.txt").write_text("new\n")
    worktree.close(tree)
    printed = capsys.readouterr().err
    assert "uncommitted changes, 1 new file" in printed
    assert "sub/a.txt | 2 +-" in printed
    assert (repository / "sub" / "a.txt").read_text() == "mine\n"
    discard = next(line for line in printed.splitlines() if line.startswith("discard: "))
    subprocess.run(discard.removeprefix("discard: "), shell=True, check=True, capture_output=True)
    assert branches(repository) == []


def test_the_shown_command_merges(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = worktree.planned(str(repository), "feature/x")
    worktree.make(tree)
    (tree.path / "new.txt").write_text("new\n")
    git(tree.path, "add", ".")
    git(tree.path, "commit", "--quiet", "-m", "two")
    worktree.close(tree)
    printed = capsys.readouterr().err
    assert "on branch feature/x: 1 commit\n" in printed
    merge = next(line for line in printed.splitlines() if line.startswith("merge:"))
    subprocess.run(merge.removeprefix("merge:"), shell=True, check=True, capture_output=True)
    assert (repository / "new.txt").exists()


def test_a_worktree_without_changes_is_removed_with_its_branch(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = worktree.planned(str(repository), None)
    worktree.make(tree)
    worktree.close(tree)
    assert "no changes, and is removed" in capsys.readouterr().err
    assert (tree.path.exists(), branches(repository)) == (False, [])


def test_git_is_not_used_again_once_its_settings_changed(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = worktree.planned(str(repository), None)
    worktree.make(tree)
    mark = repository.parent / "ran"
    git(tree.path, "config", "filter.evil.clean", f"touch {mark}; cat")
    (tree.path / ".gitattributes").write_text("* filter=evil\n")
    (tree.path / "sub" / "a.txt").write_text("b\n")
    worktree.close(tree)
    assert "The settings of git changed while the agent worked" in capsys.readouterr().err
    assert not mark.exists()


def test_no_hook_of_the_repository_runs(repository: Path) -> None:
    mark = repository.parent / "ran"
    hook = repository / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {mark}\n")
    hook.chmod(0o755)
    worktree.make(worktree.planned(str(repository), None))
    assert not mark.exists()


def test_an_impossible_worktree_is_refused_with_one_sentence(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    with pytest.raises(Trouble, match="--worktree needs a git repository, and there is none at") as caught:
        worktree.planned(str(tmp_path / "plain"), None)
    assert caught.value.status == 2
    git(tmp_path, "init", "--quiet", str(tmp_path / "empty"))
    with pytest.raises(Trouble, match="needs a commit to begin from"):
        worktree.planned(str(tmp_path / "empty"), None)
    with pytest.raises(Trouble, match="not a name that git takes"):
        worktree.planned(str(repository), "a..b")
    git(repository, "branch", "taken")
    with pytest.raises(Trouble, match="a branch named 'taken' already exists"):
        worktree.make(worktree.planned(str(repository), "taken"))


@pytest.mark.anyio
async def test_a_refused_task_leaves_no_worktree(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script({"GET /v1/edge/nodes": [answer({"nodes": []})],
                     "POST /v1/commands": [problem(409, "Conflict", "No runner is online.")]})
    monkeypatch.setattr("interlock.cli.tasks.run.GatewayLink", lambda _: link_to(script, tmp_path))
    monkeypatch.setattr("interlock.cli.link.gateway_link.GatewayLink.is_local", True)
    with pytest.raises(Trouble, match="No runner is online"):
        await running(tmp_path).run({"target": {"agent_id": "claude"}}, repository, continue_=False, detach=False,
                                    apart=BranchOf(None))
    assert branches(repository) == []


@pytest.mark.anyio
async def test_a_remote_gateway_is_refused(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.cli.tasks.run.GatewayLink", lambda _: link_to(Script({}), tmp_path))
    with pytest.raises(Trouble, match="--worktree makes a worktree on this host"):
        await running(tmp_path).run({"target": {"agent_id": "claude"}}, repository, continue_=False, detach=False,
                                    apart=BranchOf(None))


def running(state: Path) -> CommandRun:
    return CommandRun(Where(state=state), "elsewhere", json=False, jsonl=False)
