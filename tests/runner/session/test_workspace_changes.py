"""A look at a workspace by git, on a disk as a hostile repository may have it (J-4)."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from interlock.box.spec import BoxSpec
from interlock.ports.agent import AgentSpec
from interlock.protocol import payloads as p
from interlock.runner.agent_catalog import Offered, Offering
from interlock.runner.process.process import AgentProcess
from interlock.runner.session.session_box import NO_BOX, Boxing
from interlock.runner.session.workspace_changes import MAX_COMMITS, MAX_COMPARED_BYTES, WorkspaceReader
from interlock.runner.session_state import SessionState
from interlock.runner.workspace.git_place import checked_out
from interlock.runner.workspace.git_report import MAX_FILES
from this_host import HOST

pytestmark = [pytest.mark.anyio, pytest.mark.req("J-4"),
              pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")]
MINE = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "n", "GIT_AUTHOR_EMAIL": "e", "GIT_COMMITTER_NAME": "n", "GIT_COMMITTER_EMAIL": "e"}


def git(directory: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=directory, env={**MINE, "HOME": str(directory)}, check=True,
                          capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository below a root of its own, with one commit."""
    place = tmp_path / "root/repository"
    place.mkdir(parents=True)
    git(place, "init", "--quiet", "--initial-branch", "work")
    (place / "a").write_text("one\ntwo\n")
    (place / "gone").write_text("x\n")
    (place / "below").mkdir()
    (place / "below/b").write_text("b\n")
    (place / ".gitignore").write_text("ignored\n")
    git(place, "add", ".")
    git(place, "commit", "--quiet", "--message", "first")
    return place


async def look(workspace: Path, *, start: str | None = None, root: Path | None = None, boxing: Boxing = NO_BOX,
               box: BoxSpec | None = None, environment: dict[str, str] | None = None, **state: Any
               ) -> p.WorkspaceChanges:
    spec = AgentSpec(adapter="acp", command="agent", box=box)
    offered = Offered(Offering({"agent": spec}, [str(root or workspace.parent)], {}))
    reader = WorkspaceReader(AgentProcess.start, offered, boxing, environment or {"PATH": os.environ["PATH"]})
    known = {"agent_id": "agent", "workspace": str(workspace) if workspace.name else "", **state}
    return await reader.look(p.WorkspaceLook(request_id="r", session_id="s", start_commit=start), SessionState(**known))


def brief(found: p.WorkspaceChanges) -> list[tuple[str, str, bool, int | None, int | None]]:
    return [(one.path, one.change, one.untracked, one.added, one.removed) for one in found.files]


async def test_changed_deleted_and_new_files_are_found_with_their_lines(repository: Path) -> None:
    (repository / "a").write_text("one\n2\n")
    (repository / "gone").unlink()
    (repository / "new").write_text("n\n")
    (repository / "ignored").write_text("i\n")
    found = await look(repository)
    assert (found.why_not, found.partly) == ("", "")
    assert (found.branch, found.commit, found.count) == ("work", git(repository, "rev-parse", "HEAD"), 3)
    assert brief(found) == [("a", "modified", False, 1, 1), ("gone", "deleted", False, 0, 1),
                            ("new", "added", True, 1, 0)]
    assert found.files[0].diff.endswith("@@ -1,2 +1,2 @@\n one\n-two\n+2")
    assert git(repository, "status", "--porcelain").split("\n") == ["M a", " D gone", "?? new"]  # Nothing was added.


async def test_a_subdirectory_is_compared_separately(repository: Path) -> None:
    (repository / "a").write_text("changed\n")
    (repository / "below/b").write_text("changed\n")
    assert brief(await look(repository / "below", root=repository)) == [("b", "modified", False, 1, 1)]


async def test_before_the_first_commit_every_file_is_new(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "f").write_text("f\n")
    found = await look(tmp_path)
    assert (found.commit, brief(found)) == (None, [("f", "added", True, 1, 0)])


async def test_commits_of_the_agent_are_included_with_their_changes(repository: Path) -> None:
    start = checked_out(repository, [str(repository.parent)])
    assert start == git(repository, "rev-parse", "HEAD")
    (repository / "a").write_text("one\n2\n")
    git(repository, "commit", "--quiet", "--all", "--message", "second\n\nwith a body")
    (repository / "new").write_text("n\n")
    found = await look(repository, start=start)
    head = git(repository, "rev-parse", "HEAD")
    assert (found.commit, found.head, found.partly) == (start, head, "")
    assert [(one.commit, one.author, one.subject) for one in found.commits] == [(head, "n", "second")]
    assert found.commits[0].at is not None
    assert brief(found) == [("a", "modified", False, 1, 1), ("new", "added", True, 1, 0)]
    assert (await look(repository / "below", root=repository, start=start)).commits == found.commits
    assert (await look(repository, start=head)).commits == []


async def test_a_moved_file_is_shown_as_renamed(repository: Path) -> None:
    lines = "".join(f"{number}\n" for number in range(40))
    (repository / "long => name").write_text(lines)
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "--message", "second")
    (repository / "long => name").rename(repository / "below/moved")
    (repository / "below/moved").write_text(lines + "41\n42\n")
    (repository / "gone").rename(repository / "tab\there")
    found = await look(repository)
    assert [(one.old_path, *rest) for one, rest in zip(found.files, brief(found), strict=True)] == [
        ("long => name", "below/moved", "renamed", True, 2, 0), ("gone", "tab\there", "renamed", True, 0, 0)]
    assert found.count == 2
    assert "rename from long => name\nrename to below/moved" in found.files[0].diff
    assert found.files[0].diff.endswith("+41\n+42")


async def test_a_start_that_is_not_an_ancestor_is_compared_from_the_merge_base(repository: Path) -> None:
    first = git(repository, "rev-parse", "HEAD")
    (repository / "a").write_text("mine\n")
    git(repository, "commit", "--quiet", "--all", "--message", "started here")
    start = git(repository, "rev-parse", "HEAD")
    git(repository, "reset", "--quiet", "--hard", first)
    (repository / "below/b").write_text("theirs\n")
    git(repository, "commit", "--quiet", "--all", "--message", "goes elsewhere")
    found = await look(repository, start=start)
    assert (found.commit, [one.subject for one in found.commits]) == (first, ["goes elsewhere"])
    assert brief(found) == [("below/b", "modified", False, 1, 1)]
    assert found.partly == (f"The present commit does not go on from {start[:12]}, where the session began: the last "
                            "commit that both have is compared with.")
    for unknown in ("0" * 40, git(repository, "rev-parse", "HEAD^{tree}"), "f" * 64):
        lost = await look(repository, start=unknown)
        assert (lost.commit, lost.commits, lost.why_not) == (git(repository, "rev-parse", "HEAD"), [], "")
        assert "so the last commit is compared with" in lost.partly


async def test_a_session_older_than_the_first_commit_shows_all_commits(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    assert checked_out(tmp_path, [str(tmp_path)]) == ""
    assert checked_out(tmp_path / ".git/objects", [str(tmp_path / ".git/objects")]) is None
    (tmp_path / "f").write_text("f\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "first")
    found = await look(tmp_path, start="")
    assert (found.commit, found.head, len(found.commits)) == (None, git(tmp_path, "rev-parse", "HEAD"), 1)
    assert brief(found) == [("f", "added", False, 1, 0)]


async def test_commits_are_bounded_and_their_messages_stay_text(repository: Path) -> None:
    start = git(repository, "rev-parse", "HEAD")
    (repository / ".mailmap").write_text("Somebody Else <e>\n")
    for number in range(MAX_COMMITS + 1):
        git(repository, "-c", "user.name=x", "commit", "--quiet", "--allow-empty", "--message",
            f"{number} \x1b[31m\u202e {'long ' * 100}")
    found = await look(repository, start=start)
    assert len(found.commits) == MAX_COMMITS
    assert found.partly == "There are more commits than are shown."
    assert found.commits[0].subject.startswith(f"{MAX_COMMITS} \x1b[31m")
    assert (len(found.commits[0].subject), found.commits[0].author) == (200, "n")


async def test_a_shallow_clone_ends_at_its_boundary(repository: Path) -> None:
    for number in range(3):
        git(repository, "commit", "--quiet", "--allow-empty", "--message", f"{number}")
    clone = repository.parent / "clone"
    git(repository.parent, "clone", "--quiet", "--depth", "2", f"file://{repository}", str(clone))
    start = git(clone, "rev-parse", "HEAD")
    git(clone, "commit", "--quiet", "--allow-empty", "--message", "mine")
    assert [one.subject for one in (await look(clone, start=start)).commits] == ["mine"]
    assert [one.subject for one in (await look(clone, start="")).commits] == ["mine", "2", "1"]


async def test_a_worktree_and_packed_references_are_read(repository: Path) -> None:
    other = repository.parent / "other"
    git(repository, "worktree", "add", "--quiet", "-b", "side", str(other))
    git(repository, "pack-refs", "--all")
    git(repository, "gc", "--quiet")
    (other / "a").write_text("changed\n")
    found = await look(other)
    assert (found.branch, brief(found)) == ("side", [("a", "modified", False, 1, 2)])


@pytest.mark.parametrize("walled", [False, True])
async def test_a_hostile_repository_starts_no_program_and_nothing_is_written(
        repository: Path, tmp_path: Path, *, walled: bool) -> None:
    if walled and not HOST.kinds:
        pytest.skip("this host has no walls")
    mark, program = tmp_path / "root/ran", repository / "program"
    program.write_text(f"#!/bin/sh\necho $0 $@ >> {mark}\ncat\n")
    program.chmod(0o755)
    for name in ("filter.x.clean", "filter.x.smudge", "filter.x.process", "diff.x.textconv", "diff.x.command",
                 "diff.external", "core.fsmonitor", "core.pager", "pager.diff", "core.sshCommand", "core.editor",
                 "alias.diff", "alias.ls-files"):
        git(repository, "config", name, f"!{program}" if name.startswith("alias") else str(program))
    git(repository, "config", "filter.x.required", "true")
    (repository / ".git/more").write_text(f"[diff]\n\texternal = {program}\n")
    git(repository, "config", "include.path", "more")
    git(repository, "config", "core.worktree", "/")
    git(repository, "config", "remote.origin.promisor", "true")
    git(repository, "config", "remote.origin.url", f"ext::{program}")
    git(repository, "config", "protocol.ext.allow", "always")
    for hook in ("post-index-change", "fsmonitor-watchman", "pre-commit", "post-checkout"):
        shutil.copy(program, repository / ".git/hooks" / hook)
    inner = repository / "inner"
    inner.mkdir()
    git(inner, "init", "--quiet")
    (inner / "f").write_text("f\n")
    git(inner, "add", ".")
    git(inner, "commit", "--quiet", "--message", "inner")
    git(repository.parent, f"--git-dir={repository}/.git", f"--work-tree={repository}", "-c", "core.fsmonitor=false",
        "update-index", "--add", "--cacheinfo", f"160000,{git(inner, 'rev-parse', 'HEAD')},inner")
    git(inner, "config", "core.fsmonitor", str(program))
    (inner / "f").write_text("changed\n")
    for place in (repository / ".gitattributes", repository / ".git/info/attributes"):
        place.write_text("* filter=x diff=x\n")
    (repository / "a").write_text("changed\n")
    mark.unlink(missing_ok=True)
    before = {one: one.stat().st_mtime_ns for one in (repository / ".git").rglob("*")}

    boxing = Boxing(HOST) if walled else NO_BOX
    found = await look(repository, start="", boxing=boxing,
                       box=BoxSpec(network=["example.com:443"]) if walled else None)

    assert (found.why_not, mark.exists()) == ("", False)
    assert ("a", "added", False, 1, 0) in brief(found)
    assert [one.subject for one in found.commits] == ["first"]
    assert {one: one.stat().st_mtime_ns for one in (repository / ".git").rglob("*")} == before
    subprocess.run(["git", f"--work-tree={repository}", "status"], cwd=repository, env=MINE, capture_output=True,
                   check=False)
    assert mark.exists()  # So it would have gone with git's own ways.


async def test_links_are_not_followed_and_names_stay_unchanged(repository: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "b").write_text("the secret\n")
    shutil.rmtree(repository / "below")
    (repository / "below").symlink_to(secret)
    (repository / "a").unlink()
    (repository / "a").symlink_to(secret / "b")
    os.mkfifo(repository / "fifo")
    (repository / "bad\x1b[31m\nname \u202e").write_text("n\n")
    (repository / os.fsdecode(b"\xff")).write_text("n\n")
    found = await look(repository)
    assert found.why_not == ""
    assert "the secret" not in "".join(one.diff for one in found.files)
    paths = {one.path: one.change for one in found.files}
    assert paths == {"a": "retyped", "below": "added", "below/b": "deleted", "bad\x1b[31m\nname \u202e": "added",
                     "\N{REPLACEMENT CHARACTER}": "added"}


async def test_huge_and_many_files_are_left_out_with_a_notice(repository: Path) -> None:
    with (repository / "a").open("wb") as file:
        file.truncate(1 << 40)
    (repository / "big").write_text("line\n" * (MAX_COMPARED_BYTES // 4))
    found = await look(repository)
    assert brief(found) == [("a", "modified", False, None, None), ("big", "added", True, None, None)]
    assert "too large to be compared" in found.partly
    for number in range(MAX_FILES + 1):
        (repository / f"f{number}").write_text("x\n")
    many = await look(repository)
    assert len(many.files) == MAX_FILES
    assert many.partly == "There are more new files than are shown."


@pytest.mark.parametrize("elsewhere", ["file", "link", "commondir", "alternates"])
async def test_a_repository_with_its_data_outside_the_roots_is_refused(
        repository: Path, tmp_path: Path, elsewhere: str) -> None:
    outside = tmp_path / "outside"
    shutil.copytree(repository / ".git", outside)
    if elsewhere in ("file", "link"):
        shutil.rmtree(repository / ".git")
    match elsewhere:
        case "file":
            (repository / ".git").write_text(f"gitdir: {outside}\n")
        case "link":
            (repository / ".git").symlink_to(outside)
        case "commondir":
            (repository / ".git/commondir").write_text(str(outside))
        case _:
            (repository / ".git/objects/info/alternates").write_text(f"{outside}/objects\n")
    found = await look(repository)
    assert "lies outside the runner's roots" in found.why_not
    assert found.files == []


@pytest.mark.parametrize(("damage", "why"), [
    ("no repository", "There is no git repository at "), ("HEAD", "HEAD names no commit and no branch"),
    ("index", "git could not compare the workspace ("), ("index link", "index cannot be read"),
    ("objects", "git could not compare the workspace ("), ("garbage", "neither is a repository nor names one"),
])
async def test_unreadable_data_gives_one_sentence(repository: Path, damage: str, why: str) -> None:
    own = repository / ".git"
    match damage:
        case "no repository":
            shutil.rmtree(own)
        case "HEAD":
            (own / "HEAD").write_text("ref: refs/heads/../../../etc/passwd\n")
        case "index":
            (own / "index").write_bytes(b"\x1b[31mnot an index")
        case "index link":
            (own / "index").unlink()
            (own / "index").symlink_to("/etc/passwd")
        case "objects":
            shutil.rmtree(own / "objects")
            (own / "objects").mkdir()
        case _:
            shutil.rmtree(own)
            own.write_text("nothing")
    found = await look(repository)
    assert why in found.why_not
    assert found.why_not.isprintable()
    assert found.files == []


async def test_without_git_a_session_or_access_one_sentence_explains_it(repository: Path, tmp_path: Path) -> None:
    assert "git is not installed" in (await look(repository, environment={"PATH": str(tmp_path)})).why_not
    assert "no access to its workspace" in (await look(repository, access="none")).why_not
    assert "has no workspace" in (await look(Path(), root=repository)).why_not
    gone = (await look(repository / "worktree", root=repository)).why_not
    assert gone == (f"The session's workspace {repository}/worktree was removed, so there is nothing to compare. If it "
                    "was a git worktree, what was committed in it is on its branch.")
    assert "no longer offers the agent other" in (await look(repository, agent_id="other")).why_not
    assert "lies outside the runner's roots" in (await look(repository, root=repository / "below")).why_not
