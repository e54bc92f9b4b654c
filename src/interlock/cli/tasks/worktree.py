"""`run --worktree`: a git worktree of its own for one session, on a branch of its own (Y-13).

The verb creates it here with git, since a worktree is an entry in the user's own repository. It is in `.interlock` at
the top of the repository, and so below the runner's roots; the state directory is hidden from agents.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shlex
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

from interlock.cli.display.terminal import one_line, say
from interlock.cli.display.values import count
from interlock.cli.verb_error import Trouble, usage

PLACE = Path(".interlock") / "worktrees"
"""Below the top of the repository. `.interlock/.gitignore` makes git ignore it."""
STAT_LINES = 20
"""Lines about changed files that are shown at the end."""
_GIT = ("git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")
"""Options that keep git from starting the hooks or a monitor of the repository."""
_ELSEWHERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX")
"""Variables that would make git work in another repository than the directory's."""


class Worktree(NamedTuple):
    """A worktree, created or planned. `workspace` has the same path in it as the directory had in the repository."""

    top: Path
    path: Path
    workspace: Path
    branch: str
    base: str
    settings: str
    """Digest of git's settings at the time of planning."""


def planned(directory: str, branch: str | None) -> Worktree:
    """Return the planned worktree for a directory of a repository; nothing is created. Raises Trouble."""
    here = Path(directory)
    try:
        top = Path(_git(here, "rev-parse", "--show-toplevel").strip())
    except FileNotFoundError:
        raise usage("--worktree needs git, which is not on PATH.", "Install it, or leave --worktree out.") from None
    except subprocess.CalledProcessError as error:
        raise usage(f"--worktree needs a git repository, and there is none at {here} (git: {_words(error)}).",
                    "Make one there with `git init` and a commit, or leave --worktree out.") from None
    try:
        base = _git(top, "rev-parse", "--verify", "--quiet", "HEAD^{commit}").strip()
    except subprocess.CalledProcessError:
        raise usage(f"--worktree needs a commit to begin from, and {top} has none yet.",
                    "Commit something, or leave --worktree out.") from None
    name = branch or f"interlock/{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
    try:
        _git(top, "check-ref-format", "--branch", name)
    except subprocess.CalledProcessError:
        raise usage(f"--branch {name!r} is not a name that git takes.", "Write it as feature/login.") from None
    path = top / PLACE / name.removeprefix("interlock/").replace("/", "-")
    return Worktree(top, path, path / here.resolve().relative_to(top.resolve()), name, base, _settings(top))


def make(tree: Worktree) -> None:
    """Create the worktree and its branch. Raises Trouble."""
    try:
        tree.path.parent.mkdir(parents=True, exist_ok=True)
        ignored = tree.top / PLACE.parts[0] / ".gitignore"
        if not ignored.exists():
            ignored.write_text("*\n")
        _git(tree.top, "worktree", "add", "--quiet", "-b", tree.branch, str(tree.path), tree.base)
        left_out = _git(tree.top, "status", "--porcelain")
    except OSError as error:
        raise Trouble("Conflict", f"The worktree {tree.path} cannot be made: {error.strerror}.") from None
    except subprocess.CalledProcessError as error:
        raise Trouble("Conflict", f"git did not make the worktree {tree.path}: {_words(error)}.",
                      "Name another branch with --branch.") from None
    say(f"worktree {tree.path} · branch {tree.branch}", "dim")
    if left_out:
        say(f"what is not committed in {tree.top} is not in it", "bold", "not committed")
    if not tree.workspace.is_dir():  # The directory itself is not committed.
        tree.workspace.mkdir(parents=True, exist_ok=True)


def unmake(tree: Worktree) -> None:
    """Remove a worktree that no task was started in."""
    _remove(tree)


def close(tree: Worktree) -> None:
    """Print what a task left in its worktree, and how to merge or discard it; a worktree without changes is removed."""
    if not tree.path.is_dir():
        say(f"the worktree {tree.path} is gone; its branch is {tree.branch}")
        return
    try:
        if _settings(tree.path) != tree.settings:
            say(f"kept: {tree.path}. The settings of git changed while the agent worked, and git starts programs that "
                "they name: read them before you use git there (git config --list --show-origin)", "bold", "kept:")
            return
        dirty = _git(tree.path, "status", "--porcelain")
        ahead = int(_git(tree.path, "rev-list", "--count", f"{tree.base}..HEAD"))
        if not dirty and not ahead and _remove(tree):
            say("the worktree has no changes, and is removed", "dim")
            return
        stat = _git(tree.path, "diff", "--no-ext-diff", "--no-textconv", "--stat=80", tree.base)
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        say(f"kept: {tree.path}, on branch {tree.branch}; git could not look at it: {one_line(str(error))}", "bold",
            "kept:")
        return
    untracked = sum(line.startswith("??") for line in dirty.splitlines())
    _show(tree, stat.splitlines(), untracked=untracked, ahead=ahead, dirty=bool(dirty))


def kept_line(tree: Worktree) -> str:
    """Return the sentence that names the place of a continuing task's changes, and how to get them."""
    return f"its changes will be in {tree.path}, on branch {tree.branch}; discard them with: {_discard(tree)}"


def _show(tree: Worktree, stat: list[str], *, untracked: int, ahead: int, dirty: bool) -> None:
    what = [count(ahead, "commit")] if ahead else []
    what += ["uncommitted changes"] if dirty else []
    what += [count(untracked, "new file")] if untracked else []
    say(f"changes in {tree.path}, on branch {tree.branch}: {', '.join(what)}", "bold", "changes in")
    for line in stat[:STAT_LINES]:
        say(line)
    if len(stat) > STAT_LINES:
        say(f" … {len(stat) - STAT_LINES} more lines")
    top, path, branch = (shlex.quote(str(one)) for one in (tree.top, tree.path, tree.branch))
    commit = f"git -C {path} add -A && git -C {path} commit && " if dirty else ""
    say(f"merge:   {commit}git -C {top} merge {branch}")
    say(f"discard: {_discard(tree)}")


def _discard(tree: Worktree) -> str:
    top, path, branch = (shlex.quote(str(one)) for one in (tree.top, tree.path, tree.branch))
    return f"git -C {top} worktree remove --force {path} && git -C {top} branch -D {branch}"


def _remove(tree: Worktree) -> bool:
    """Remove a worktree without changes, and its branch; returns whether it was removed."""
    try:
        _git(tree.top, "worktree", "remove", str(tree.path))
        _git(tree.top, "branch", "--quiet", "-D", tree.branch)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def _settings(directory: Path) -> str:
    """Return the digest of git's settings in a directory; reading them starts no program."""
    return hashlib.sha256(_git(directory, "config", "--list", "-z").encode()).hexdigest()


def _git(directory: Path, *words: str) -> str:
    """Run git in a directory; its output. Raises OSError and CalledProcessError."""
    environment = {name: value for name, value in os.environ.items() if name not in _ELSEWHERE}
    ran = subprocess.run([*_GIT, *words], cwd=directory, env=environment, stdin=subprocess.DEVNULL,
                         capture_output=True, check=True, text=True, errors="replace")
    return ran.stdout


def _words(error: subprocess.CalledProcessError) -> str:
    lines = str(error.stderr).strip().splitlines()
    return one_line(lines[-1].removeprefix("fatal: ")) if lines else f"exit status {error.returncode}"
