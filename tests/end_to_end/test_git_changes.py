"""What git finds changed in a workspace, through gateway and runner, by REST and by the verb (J-4)."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from end_to_end.tasks import submit
from proof.processes.stack import Stack

pytestmark = [pytest.mark.req("J-4"), pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")]


def verb(stack: Stack, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a verb against the stack."""
    return stack.interlock(*words, "--state", str(stack.state), environment={**os.environ, "INTERLOCK_URL": stack.url})


def by_a_new_runner(stack: Stack, path: str) -> Any:
    """Kill the runner and return the answer of its successor. Until that is attached, the gateway answers 503."""
    stack.kill("runner")
    stack.start("runner")
    stack.until(lambda: stack.ask(path).status_code == 200)
    return stack.get(path)


def test_a_session_without_workspace_access_shows_no_changes(stack: Stack, workspace: Path) -> None:
    task = submit(stack, "shell", "echo hello # free", workspace=workspace, workspace_access="none")
    task.ended()
    path = f"/v1/sessions/{task.session_id}/changes/git"
    sentence = "This session has no access to its workspace."
    assert stack.get(path)["why_not"] == sentence
    task.close()
    assert by_a_new_runner(stack, path)["why_not"] == sentence, "by the gateway's record alone"


def test_a_session_shows_the_changes_of_its_agent(stack: Stack, workspace: Path) -> None:
    task = submit(stack, "shell", "echo hello # free", workspace=workspace)
    task.ended()
    path = f"/v1/sessions/{task.session_id}/changes/git"
    assert stack.get(path)["why_not"] == f"There is no git repository at {workspace}."

    (workspace / "f").write_text("one\n")
    subprocess.run(["git", "init", "--quiet"], cwd=workspace, check=True, env={"PATH": os.environ["PATH"], "HOME": "/"})
    found = stack.get(path)
    assert (found["why_not"], found["commit"], found["count"]) == (None, None, 1)
    (file,) = found["files"]
    assert (file["path"], file["change"], file["untracked"], file["added"]) == ("f", "added", True, 1)
    assert file["diff"].endswith("+one")

    shown = verb(stack, "diff", task.session_id)
    assert (shown.returncode, shown.stdout) == (0, file["diff"] + "\n")
    listed = verb(stack, "diff", task.session_id, "--stat").stdout.split()
    assert listed == ["CHANGE", "PATH", "ADDED", "REMOVED", "added", "f", "1", "0"]
    # A session that is over has its workspace still, after the runner has forgotten it, too.
    task.close()
    assert [one["path"] for one in by_a_new_runner(stack, path)["files"]] == ["f"]
    shutil.rmtree(workspace / ".git")
    refused = verb(stack, "diff", task.session_id)
    assert refused.returncode != 0
    assert "There is no git repository at" in refused.stderr


def test_a_session_stores_the_commit_that_was_checked_out_at_its_start(stack: Stack, workspace: Path) -> None:
    def git(*words: str) -> str:
        return subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e", *words], cwd=workspace, check=True,
                              capture_output=True, text=True, env={"PATH": os.environ["PATH"], "HOME": "/"}
                              ).stdout.strip()

    (workspace / "f").write_text("one\n")
    git("init", "--quiet")
    git("add", "f")
    git("commit", "--quiet", "--message", "before")
    start = git("rev-parse", "HEAD")
    task = submit(stack, "shell", "echo hello # free", workspace=workspace)
    task.ended()
    git("mv", "f", "g")
    git("commit", "--quiet", "--message", "the agent's own")
    path = f"/v1/sessions/{task.session_id}/changes/git"

    def check(found: Any) -> None:
        assert (found["commit"], found["head"]) == (start, git("rev-parse", "HEAD"))
        assert [one["subject"] for one in found["commits"]] == ["the agent's own"]
        assert [(one["old_path"], one["path"], one["change"]) for one in found["files"]] == [("f", "g", "renamed")]

    check(stack.get(path))
    shown = verb(stack, "diff", task.session_id)
    assert "rename from f\nrename to g" in shown.stdout
    assert "the agent's own (n)" in shown.stderr
    assert "f => g" in verb(stack, "diff", task.session_id, "--stat").stdout
    task.close()
    check(by_a_new_runner(stack, path))
