"""Git changes in a session's workspace, on its page in real Chromium (J-4, J-16)."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Any

import pytest
from tests.console.pages import origin, page_of, ran

from installed import require
from proof.processes.stack import Stack

pytestmark = [pytest.mark.needs("chromium", "console", "axe"), pytest.mark.filterwarnings("ignore"),
              pytest.mark.req("J-4"), pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")]
HOSTILE = "<img src=x onerror=alert(1)>\u202e\n.py"


def git(stack: Stack, *words: str) -> None:
    subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e", *words], cwd=stack.workspace, check=True,
                   capture_output=True, env={"PATH": os.environ["PATH"], "HOME": str(stack.workspace)})


def show_commits(page: Any, stack: Stack) -> None:
    """A session that began on a commit: what was committed since is among its changes, and a moved file is one."""
    session = ran(stack, "shell", "echo begun", "committed")
    page.goto(f"{origin(stack)}/console/sessions/{session}")
    page.get_by_label("Output").get_by_text("begun").wait_for()
    (stack.workspace / "a").write_text("one\n-- two\n")
    git(stack, "mv", "a", "moved")
    git(stack, "commit", "--quiet", "--all", "--message", "<b>moved</b> \u202e")
    page.get_by_text("Git changes in the workspace").click()
    page.get_by_text("Committed since the session began:").wait_for()
    assert [" ".join(one.text_content().split())[13:] for one in page.locator(".commits li").all()] == [
        "<b>moved</b> <U+202E> n"]
    assert "a → moved renamed" in " ".join(page.locator(".edited li summary").last.text_content().split())


def test_changes_are_fetched_when_unfolded_and_again_on_request(browser: Any, stack: Stack) -> None:
    session = ran(stack, "shell", "echo begun", "changed")
    with page_of(browser, stack) as page:
        looks: list[str] = []
        page.on("request", lambda one: looks.append(one.url) if one.url.endswith("/changes/git") else None)
        page.goto(f"{origin(stack)}/console/sessions/{session}")
        page.get_by_text("Git changes in the workspace").wait_for()
        page.get_by_label("Output").get_by_text("begun").wait_for()
        assert looks == []
        page.get_by_text("Git changes in the workspace").click()
        page.get_by_text("There is no git repository at").wait_for()

        git(stack, "init", "--quiet", "--initial-branch", "work")
        (stack.workspace / "a").write_text("one\n-- two\n")
        git(stack, "add", "a")
        git(stack, "commit", "--quiet", "--message", "first")
        (stack.workspace / "a").write_text("one\n<script>alert(1)</script>\n")
        (stack.workspace / HOSTILE).write_text("x\n")
        page.get_by_role("button", name="Refresh").click()
        page.get_by_text("(work)").wait_for()
        files = page.locator(".edited li summary")
        assert [" ".join(one.text_content().split()) for one in files.all()] == [
            "<img src=x onerror=alert(1)><U+202E><U+000A>.py added · new to git +1 −0", "a changed +1 −1"]
        files.last.click()
        page.locator(".diff ins").wait_for()
        assert page.locator(".diff del").all_text_contents() == ["--- two"]
        assert page.locator(".diff ins").all_text_contents() == ["+<script>alert(1)</script>"]
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert len(looks) == 2
        page.evaluate(require("axe").read_text("utf-8"))
        assert page.evaluate("async () => (await axe.run()).violations.map((one) => one.id)") == []

        with page_of(browser, stack) as later:
            show_commits(later, stack)

        stack.kill("runner")
        page.get_by_role("button", name="Refresh").click()
        page.get_by_role("alert").get_by_text("which has this session's workspace").wait_for()
