"""The question about all staged changes, and its reports: bounded, under a digest over everything (H-17)."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from interlock.ports.agent import AgentQuestion, InteractionAnswer, Option
from interlock.protocol import payloads as p
from interlock.protocol.box import LANDING
from interlock.runner.staged.difference import Difference, digest_of
from interlock.runner.staged.entries import FILE, FileChange, Remark, below, opened, split
from interlock.runner.staged.landing_run import LandingReport
from interlock.runner.staged.later import marks

MAX_LISTED_BYTES = 96 * 1024
"""Limit of paths with their digests in one question or report, as JSON; further ones are counted, and covered by the
digest."""
MAX_SHOWN_BYTES = 96 * 1024
"""Limit of old and new texts in one question; further files are shown by digest and size."""
MAX_TEXT_BYTES = 24 * 1024
"""A file with larger texts is shown as a diff of at most this size, or by digest and size."""
MAX_COMPARED_BYTES = 256 * 1024
"""A larger file is not compared line by line."""
OPTIONS = [Option("land", "Land", "allow_once"), Option("keep", "Keep staged", "reject_once")]


class _Chosen(msgspec.Struct):
    path: str


def question(found: Difference, upper: Path, workspace: Path) -> AgentQuestion:
    """Return the question whether the staged changes land. Blocks."""
    later = marks(found.changes, upper, workspace)
    changes = _in_view(found.changes, later)
    listed = files_of(changes, later)
    landing: dict[str, Any] = {"workspace": str(workspace), "digest": found.digest, "changes": len(found.changes),
                               "files": [_listed(one) for one in listed]}
    if len(listed) < len(found.changes):
        landing["notListed"] = len(found.changes) - len(listed)
    if later:
        landing["runsUnasked"] = len(later)
    if found.left_out:
        landing["neverLands"] = [f"{one.path}: {one.why}" for one in found.left_out[:20]]
    shown = list(_shown(changes[:len(listed)], upper, workspace))
    return AgentQuestion(
        None, LANDING, f"land {len(found.changes)} staged changes in {workspace}", msgspec.json.encode(landing),
        list(OPTIONS), "edit", takes_input=True, content_json=msgspec.json.encode(shown) if shown else None)


def picked_by(answer: InteractionAnswer, found: Difference) -> list[str] | None:
    """Return the paths that a person chose, None for all. Raises ValueError if they do not match the question."""
    if answer.updated_input is None:
        return None
    if answer.updated_input.get("digest") != found.digest:
        raise ValueError("the changed input names another digest; nothing landed")
    try:
        return [one.path for one in msgspec.convert(answer.updated_input.get("files"), list[_Chosen])]
    except msgspec.ValidationError:
        raise ValueError("the changed input's files are not a list of objects with a path; nothing landed") from None


def report(event: str, found: Difference | None, done: Sequence[FileChange], refused: Sequence[Remark],
           later: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of ChangesReport. `later`: why a path makes a tool run programs unasked, see `marks`."""
    changes = _in_view(done, later)
    return {"event": event, "digest": found.digest if found is not None else digest_of(list(done)),
            "count": len(changes), "files": files_of(changes, later), "refused_count": len(refused),
            "refused": _bounded([p.StagedFile(path=one.path, why=one.why) for one in refused])}


def landed(done: LandingReport, later: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of ChangesReport for a landing."""
    return report("landed", None, done.done, done.refused, later)


def files_of(changes: Sequence[FileChange], later: Mapping[str, str]) -> list[p.StagedFile]:
    """Return the listed changes in the protocol's form."""
    return _bounded(_file(change, later.get(change.path, "")) for change in changes)


def _bounded(files: Sequence[p.StagedFile] | Iterator[p.StagedFile]) -> list[p.StagedFile]:
    found: list[p.StagedFile] = []
    left = MAX_LISTED_BYTES
    for file in files:
        left -= len(msgspec.json.encode(file)) + 1
        if left < 0:
            break
        found.append(file)
    return found


def _file(change: FileChange, unasked: str) -> p.StagedFile:
    new = change.new
    kind = "other" if new.kind == "unknown" else new.kind
    return p.StagedFile(path=change.path, change=change.what, kind=kind, sha256=new.sha256, size=new.size,
                        mode=f"{new.mode:o}" if new.kind in ("file", "directory") else "",
                        why="changed in the workspace meanwhile" if change.base.kind == "unknown" else None,
                        unasked=unasked)


def _in_view(changes: Sequence[FileChange], later: Mapping[str, str]) -> list[FileChange]:
    """Put changes that run programs later first, so that they are listed however many others there are."""
    return sorted(changes, key=lambda change: change.path not in later)


def _listed(file: p.StagedFile) -> dict[str, Any]:
    return {name: value for name, value in msgspec.to_builtins(file).items() if value not in ("", None)}


def _shown(changes: Sequence[FileChange], upper: Path, workspace: Path) -> Iterator[dict[str, Any]]:
    """Yield the question's view of each file: its two texts if they are small, else their difference."""
    left = MAX_SHOWN_BYTES
    with opened(upper) as above, opened(workspace) as under:
        for change in changes:
            old, new = _text(under, change, change.base.kind), _text(above, change, change.new.kind)
            if old is None or new is None or old == new:
                continue
            one: dict[str, Any] = {"type": "diff", "path": change.path, "oldText": old, "newText": new}
            if len(old) + len(new) > MAX_TEXT_BYTES:
                text = "\n".join([f"--- {change.path}", *list(difflib.unified_diff(
                    old.split("\n"), new.split("\n"), lineterm=""))[2:]])
                one = {"type": "content", "content": {"type": "text", "text": text}}
                if len(text) > MAX_TEXT_BYTES or "\n" in change.path:
                    continue  # The first line is the name: a line break in it would add lines.
            size = len(msgspec.json.encode(one)) + 1
            if size <= left:
                left -= size
                yield one


def _text(root: int, change: FileChange, kind: str) -> str | None:
    """Return the text of one side, "" if there is none; None if it is not shown as text."""
    if kind in ("absent", "directory"):
        return "" if kind == "absent" else None
    directory, name = split(change.path)
    with suppress(OSError, UnicodeDecodeError), below(root, directory) as parent:
        if kind == "link":
            return f"link to {os.readlink(name, dir_fd=parent)}"
        descriptor = os.open(name, FILE, dir_fd=parent)
        with os.fdopen(descriptor, "rb") as file:
            content = file.read(MAX_COMPARED_BYTES + 1)
        if len(content) <= MAX_COMPARED_BYTES and b"\0" not in content:
            return content.decode()
    return None
