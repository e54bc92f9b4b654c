"""The changes that git finds in a session's workspace, read on request of a gateway (J-4).

The repository is assumed to be hostile. git never reads its settings: it works in a directory of the runner's, with the
runner's settings, a copy of the index, and the repository's objects beside it; filters, text conversions, monitors,
hooks and external diffs are names without a program there, and nothing is written into the repository. git runs behind
the walls of the session's agent, with the workspace read-only, and within limits of time, memory and output.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from interlock.box.walls import Walls
from interlock.ports.agent import AgentStartFailed
from interlock.ports.process import SpawnBehind
from interlock.protocol.limits import KIB, MIB
from interlock.protocol.payloads import ChangedCommit, WorkspaceChanges, WorkspaceLook
from interlock.runner.agent_catalog import Offered
from interlock.runner.session.session_box import Boxing, BoxRefused
from interlock.runner.session_state import SessionState
from interlock.runner.turn.blocks import sound
from interlock.runner.workspace.git_place import COMMIT, PLAIN, NotReadable, Repository, find_repository
from interlock.runner.workspace.git_report import MAX_FILES, Entry, read_commits, read_listing, read_report
from interlock.runner.workspace.workspace import WorkspaceMissing, WorkspaceRefused, resolve_workspace

LOOK_S = 8.0
"""Limit of one look; the gateway waits a little longer."""
UNTRACKED_S = 3.0
"""Limit of the search for untracked files in it: after that they are omitted, and the answer reports that."""
COMPARE_S = 4.0
"""Limit of the comparison by lines in it: without it the paths are listed all the same."""
MAX_PRINTED_BYTES = 2 * MIB
"""Limit of git's output that is read."""
MAX_INDEX_BYTES = 64 * MIB
"""A larger index is not copied."""
MAX_COMPARED_BYTES = MIB
"""Larger files are listed, but not compared."""
MAX_LOOKS = 2
"""Simultaneous looks of one runner; further ones wait within LOOK_S."""
MEMORY_KIB = 2 * 1024 * 1024
"""Address space of one git process; it fails beyond."""
COMMITS_S = 3.0
"""Of LOOK_S: the search for commits since the session began."""
MAX_COMMITS = 50
"""Commits that are listed; if there are more, the report states it."""
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
EMPTY_TREE_SHA256 = "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"
SHOWN_CHARS = 12
"""Characters of a commit in a sentence."""
ERROR_CHARS = 200
"""Characters of git's error message that are reported."""
_LIMITED = f'ulimit -v {MEMORY_KIB} 2>/dev/null; ulimit -c 0; exec "$@"'
_SETTINGS = """[core]
\trepositoryformatversion = {version}
\tbare = false
\tfsmonitor = false
\thooksPath = /dev/null
\tattributesFile = /dev/null
\texcludesFile = /dev/null
\tquotePath = false
\tbigFileThreshold = {compared}
\tcommitGraph = false
[protocol]
\tallow = never
"""
_DIFF = ("diff", "--raw", "--no-color", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty",
         "--relative", "--src-prefix=a/", "--dst-prefix=b/", "--no-abbrev")


_RENAMES = ("--find-renames", f"-l{MAX_FILES}")
_LOG = ("log", "-z", "--no-color", "--no-show-signature", "--no-mailmap", "--no-notes",
        f"--max-count={MAX_COMMITS + 1}", "--format=%H%n%ct%n%an%n%s")


class GitPlace(NamedTuple):
    """A directory of the runner's in which git works."""

    scratch: Path
    repository: Repository
    workspace: Path

    def environment(self, path: str) -> dict[str, str]:
        """Return git's whole environment: of the runner's own only PATH."""
        return {
            "PATH": path, "HOME": str(self.scratch), "XDG_CONFIG_HOME": str(self.scratch), "LC_ALL": "C",
            "GIT_DIR": str(self.scratch / "git"), "GIT_WORK_TREE": str(self.repository.top),
            "GIT_INDEX_FILE": str(self.scratch / "git/index"), "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "GIT_ATTR_NOSYSTEM": "1",
            "GIT_OPTIONAL_LOCKS": "0", "GIT_LITERAL_PATHSPECS": "1", "GIT_TERMINAL_PROMPT": "0", "GIT_PAGER": "cat",
            "GIT_NO_LAZY_FETCH": "1", "GIT_NO_REPLACE_OBJECTS": "1", "GIT_ALLOW_PROTOCOL": "", "GIT_FLUSH": "0",
        }


    @property
    def nothing(self) -> str:
        """Return the tree without a file, by the repository's own hash."""
        head = self.repository.commit
        return EMPTY_TREE if head is None or len(head) == len(EMPTY_TREE) else EMPTY_TREE_SHA256


class _Printed(NamedTuple):
    output: bytes
    whole: bool
    """Whether the output is complete, within the limit, and git succeeded."""
    error: str
    """git's error message in one line; "" if it did not fail."""

    @property
    def line(self) -> str:
        """Return its only line."""
        return self.output.decode("latin-1").strip("\n")


class _Since(NamedTuple):
    """The commit that is compared with, None for nothing; the commits since then; a sentence if it is another one."""

    base: str | None
    commits: Sequence[ChangedCommit] = ()
    note: str = ""


class WorkspaceReader:
    """Reads the changes in the workspaces of a runner's sessions."""

    def __init__(self, spawn: SpawnBehind, offered: Offered, boxing: Boxing, environment: Mapping[str, str]) -> None:
        self._spawn = spawn
        self._offered = offered
        self._boxing = boxing
        self._environment = environment
        self._turn = asyncio.Semaphore(MAX_LOOKS)

    async def look(self, request: WorkspaceLook, state: SessionState) -> WorkspaceChanges:
        """Return the changes that git finds, or one sentence with the reason for none. `state` is the session's."""
        try:
            async with asyncio.timeout(LOOK_S), self._turn:
                return await self._look(request, state)
        except (NotReadable, WorkspaceRefused, BoxRefused, AgentStartFailed) as refused:
            why = str(refused)
        except TimeoutError:
            why = f"git did not finish within {LOOK_S:.0f} s in this workspace."
        except OSError as failed:
            why = f"The workspace could not be read: {failed.strerror or failed}."
        return WorkspaceChanges(request_id=request.request_id, session_id=request.session_id, why_not=sound(why))

    async def _look(self, look: WorkspaceLook, state: SessionState) -> WorkspaceChanges:
        if not state.workspace:
            raise NotReadable("This session has no workspace on the runner.")
        if state.access == "none":
            raise NotReadable("This session has no access to its workspace.")
        spec = self._offered.agents.get(state.agent_id)
        if spec is None:
            raise NotReadable(f"The runner no longer offers the agent {state.agent_id}, so its walls are unknown.")
        roots = spec.roots or self._offered.roots
        try:
            workspace = resolve_workspace(state.workspace, roots)
        except WorkspaceMissing:
            raise NotReadable(f"The session's workspace {state.workspace} was removed, so there is nothing to compare. "
                              "If it was a git worktree, what was committed in it is on its branch.") from None
        walls = self._boxing.walls(state.agent_id, spec, str(workspace), "ro", self._environment)
        if shutil.which("git", path=self._path) is None:
            raise NotReadable("git is not installed on the runner's host, or not on the runner's PATH.")
        scratch = Path(tempfile.mkdtemp(prefix="interlock-changes-"))
        try:
            place = await asyncio.to_thread(prepare, scratch, workspace, roots)
            # Its network has no ports here: the runner would have to serve them.
            narrow = walls._replace(programs=False, network=None if walls.network is None else ())
            return await self._report(look, place, narrow)
        finally:
            await asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True)

    async def _report(self, look: WorkspaceLook, place: GitPlace, walls: Walls) -> WorkspaceChanges:
        untracked, partly = await self._untracked(place, walls)
        since = await self._since(place, walls, look.start_commit)
        base = since.base or place.nothing
        listed = await self._git(place, walls, *_DIFF, "--no-renames", base, "--", ".")
        if listed.error:
            raise NotReadable(f"git could not compare the workspace ({listed.error}).")
        listing = read_listing(listed.output, whole=listed.whole)
        compared = await self._compare(place, walls, base, listing)
        if compared.error:
            raise NotReadable(f"git could not compare the workspace ({compared.error}).")
        report = await asyncio.to_thread(read_report, listing, compared.output, untracked,
                                         whole=listed.whole and compared.whole)
        if report.cut and not partly:
            partly = "There is more than is shown: files or lines were left out, or a file is too large to be compared."
        return WorkspaceChanges(
            request_id=look.request_id, session_id=look.session_id,
            partly=" ".join(filter(None, (since.note, partly))), branch=_sound(place.repository.branch),
            commit=since.base, head=place.repository.commit, commits=list(since.commits), count=report.total,
            files=report.files)

    async def _since(self, place: GitPlace, walls: Walls, start: str | None) -> _Since:
        """Return the commit to compare with: that at the session's start, if the current one descends from it; else
        their merge base; else the current one."""
        head = place.repository.commit
        if start is None or head is None or start == head:
            return _Since(head)
        try:
            async with asyncio.timeout(COMMITS_S):
                base = await self._git(place, walls, "merge-base", start, head) if start else None
                if base is not None and (base.error or not COMMIT.fullmatch(base.line)):
                    return _Since(head, note=f"The present commit does not go on from {start[:SHOWN_CHARS]}, where the "
                                             "session began, so the last commit is compared with.")
                since = head if base is None else f"{base.line}..{head}"
                logged = await self._git(place, walls, *_LOG, since, "--")
        except TimeoutError:
            return _Since(head, note="The last commit is compared with: to find what was committed since the session "
                                     f"began took more than {COMMITS_S:.0f} s.")
        commits = read_commits(logged.output)
        note = "" if base is None or base.line == start else (
            f"The present commit does not go on from {start[:SHOWN_CHARS]}, where the session began: the last commit "
            "that both have is compared with.")
        if len(commits) > MAX_COMMITS or logged.error:
            note = f"{note} There are more commits than are shown.".strip()
        return _Since(base.line if base is not None else None, commits[:MAX_COMMITS], note)

    async def _compare(self, place: GitPlace, walls: Walls, base: str, listing: Sequence[Entry]) -> _Printed:
        """Compare by lines the first paths that are not too large: git would read the others to their end."""
        small = await asyncio.to_thread(lambda: [os.fsdecode(one.path) for one in listing[:MAX_FILES]
                                                 if _size(place.workspace, one.path) <= MAX_COMPARED_BYTES])
        if not small:
            return _Printed(b"", whole=True, error="")
        try:
            async with asyncio.timeout(COMPARE_S):
                return await self._git(place, walls, *_DIFF, *_RENAMES, "--numstat", "--patch", "-U3", base, "--",
                                       *small)
        except TimeoutError:
            return _Printed(b"", whole=False, error="")

    async def _untracked(self, place: GitPlace, walls: Walls) -> tuple[frozenset[bytes], str]:
        """Add the untracked files to the copied index, so that they are compared too. Return them, and a sentence if
        not all were found."""
        try:
            async with asyncio.timeout(UNTRACKED_S):
                listed = await self._git(place, walls, "ls-files", "--others", "--exclude-standard", "-z", "--", ".")
        except TimeoutError:
            return frozenset(), f"New files were not looked for: that took more than {UNTRACKED_S:.0f} s."
        names = [name for name in listed.output.split(b"\0")[:-1] if not name.endswith(b"/")]
        if not names:
            return frozenset(), "" if not listed.error else f"New files are left out (git: {listed.error})."
        taken = names[:MAX_FILES]
        listing = place.scratch / "names"
        await asyncio.to_thread(listing.write_bytes, b"\0".join(taken) + b"\0")
        added = await self._git(place, walls, "add", "--intent-to-add", "--force", f"--pathspec-from-file={listing}",
                                "--pathspec-file-nul")
        if added.error:
            return frozenset(), f"New files are left out (git: {added.error})."
        if len(names) > len(taken) or not listed.whole:
            return frozenset(taken), "There are more new files than are shown."
        inner = len(names) < listed.output.count(b"\0")
        return frozenset(taken), "The content of a repository inside this one is left out." if inner else ""

    async def _git(self, place: GitPlace, walls: Walls, *words: str) -> _Printed:
        argv = ["/bin/sh", "-c", _LIMITED, "sh", "git", "--no-pager", "-c", "core.fsmonitor=false",
                "-c", "core.hooksPath=/dev/null", "-c", "diff.external=", *words]
        process = await self._spawn(argv, place.environment(self._path), place.workspace, walls=walls)
        output, whole = bytearray(), True
        try:
            process.close_input()
            async for chunk in process.chunks():
                output += chunk
                if len(output) > MAX_PRINTED_BYTES:
                    whole = False
                    break
            if whole:
                ended = await process.exited()
                if ended.code != 0:
                    return _Printed(bytes(output), whole=False, error=_words(process.stderr_tail()) or "no reason")
        finally:
            await process.terminate(0)
        return _Printed(bytes(output[:MAX_PRINTED_BYTES]), whole, "")

    @property
    def _path(self) -> str:
        return self._environment.get("PATH", os.defpath)


def prepare(scratch: Path, workspace: Path, roots: Sequence[str]) -> GitPlace:
    """Fill the directory that git works in. Blocks. Raises NotReadable and OSError."""
    repository = find_repository(workspace, roots)
    git = scratch / "git"
    for name in ("objects/info", "refs/heads", "info"):
        (git / name).mkdir(parents=True)
    objects = os.fsencode(repository.objects)
    if b"\n" in objects:
        raise NotReadable("The repository lies in a directory whose name has a line end.")
    (git / "objects/info/alternates").write_bytes(objects + b"\n")
    (git / "HEAD").write_text(f"{repository.commit}\n" if repository.commit else "ref: refs/heads/main\n")
    is_long = repository.commit is not None and len(repository.commit) > len(EMPTY_TREE)
    settings = _SETTINGS.format(version=int(is_long), compared=MAX_COMPARED_BYTES)
    (git / "config").write_text(settings + ("[extensions]\n\tobjectFormat = sha256\n" if is_long else ""))
    (git / "info/exclude").write_bytes(repository.excluded)
    if repository.shallow:
        (git / "shallow").write_bytes(repository.shallow)
    _copy_index(repository.own / "index", git / "index")
    return GitPlace(scratch, repository, workspace)


def _copy_index(source: Path, target: Path) -> None:
    """Copy the index with its time: git treats files as changed if they were written in the same moment as it."""
    try:
        descriptor = os.open(source, PLAIN)
    except FileNotFoundError:
        return  # Nothing was ever added.
    except OSError as failed:
        raise NotReadable(f"The repository's index cannot be read: {failed.strerror}.") from failed
    with os.fdopen(descriptor, "rb") as file:
        seen = os.fstat(file.fileno())
        if not stat.S_ISREG(seen.st_mode) or seen.st_size > MAX_INDEX_BYTES:
            raise NotReadable(f"The repository's index is not a regular file of at most {MAX_INDEX_BYTES} bytes.")
        with target.open("wb") as copy:
            shutil.copyfileobj(file, copy, 256 * KIB)
    os.utime(target, ns=(seen.st_mtime_ns, seen.st_mtime_ns))


def _size(workspace: Path, path: bytes) -> int:
    try:
        return (workspace / os.fsdecode(path)).lstat().st_size
    except OSError:
        return 0  # It was deleted.


def _sound(name: str | None) -> str | None:
    return sound(name) if name is not None else None


def _words(error: str) -> str:
    """Return the last line of git's error message, without control characters."""
    lines = [line for line in error.strip().splitlines() if line.strip()]
    last = lines[-1].removeprefix("fatal: ").removeprefix("error: ") if lines else ""
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in last)[:ERROR_CHARS]
