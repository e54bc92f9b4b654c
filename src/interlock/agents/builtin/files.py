"""The tools that read, write, edit and list files of the workspace. They block: the caller runs them in a thread."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from interlock.agents.builtin.places import Root, ToolFailed, is_hidden, opened, resolved, shown

MAX_FILE_BYTES = 4 * 1024 * 1024
"""A larger file is neither read nor edited; `search` and `shell` can access parts of it."""
MAX_READ_LINES = 2_000
MAX_READ_CHARS = 48_000
MAX_LINE_CHARS = 2_000
"""A longer line is cut."""
MAX_LISTED = 1_000
MAX_DEPTH = 5
MAX_MISS_CHARS = 80
INSTRUCTIONS_FILE = "AGENTS.md"
MAX_INSTRUCTION_CHARS = 32_768
"""Limit of the instructions that are sent with every request."""


def read(workspace: Root, path: str, offset: int = 1, limit: int = MAX_READ_LINES) -> str:
    """Return lines of a text file from line `offset` on, each after its number. Raises ToolFailed."""
    if offset < 1 or limit < 1:
        raise ToolFailed("`offset` and `limit` count lines from 1.")
    lines = text_of(workspace, path).split("\n")
    if lines and not lines[-1]:
        lines.pop()
    if offset > max(len(lines), 1):
        raise ToolFailed(f"{path} has {len(lines)} lines; `offset` {offset} is beyond its end.")
    found: list[str] = []
    chars = 0
    for number, line in enumerate(lines[offset - 1 : offset - 1 + min(limit, MAX_READ_LINES)], offset):
        cut = f"{line[:MAX_LINE_CHARS]}… ({len(line)} characters)" if len(line) > MAX_LINE_CHARS else line
        chars += len(cut) + 8
        if chars > MAX_READ_CHARS and found:
            break
        found.append(f"{number}\t{cut}")
    last = offset + len(found) - 1
    more = f"\n({len(lines) - last} more lines; continue with offset {last + 1})" if last < len(lines) else ""
    return "\n".join(found) + more


def instructions(workspace: Root) -> str:
    """Return the workspace's instructions for agents, the first MAX_INSTRUCTION_CHARS; "" if none can be read."""
    try:
        text = text_of(workspace, INSTRUCTIONS_FILE).strip()
    except ToolFailed:
        return ""
    if len(text) > MAX_INSTRUCTION_CHARS:
        return f"{text[:MAX_INSTRUCTION_CHARS]}\n({INSTRUCTIONS_FILE} continues: read it.)"
    return text


def text_of(workspace: Root, path: str) -> str:
    """Return a whole text file. Raises ToolFailed if it is not one, or too large."""
    with opened(workspace, resolved(workspace, path), os.O_RDONLY) as file:
        kind = os.fstat(file)
        if not stat.S_ISREG(kind.st_mode):
            what = "a directory; list it" if stat.S_ISDIR(kind.st_mode) else "not a regular file"
            raise ToolFailed(f"{path} is {what}.")
        if kind.st_size > MAX_FILE_BYTES:
            raise ToolFailed(f"{path} has {kind.st_size} bytes; files of up to {MAX_FILE_BYTES} are read. Search it, "
                             "or read a part of it with the shell.")
        data = b"".join(iter(lambda: os.read(file, 1 << 20), b""))
    if b"\0" in data:
        raise ToolFailed(f"{path} is not text ({len(data)} bytes).")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ToolFailed(f"{path} is not UTF-8 text ({len(data)} bytes).") from None


def write(workspace: Root, path: str, content: str, *, append: bool = False) -> str:
    """Create, replace or append to a file; return the tool's answer. Raises ToolFailed."""
    place = resolved(workspace, path)
    if place == workspace.resolve():
        raise ToolFailed("The workspace itself is not a file.")
    there = place.exists()
    _put(workspace, place, content, append=append)
    lines = content.count("\n") + (0 if content.endswith("\n") or not content else 1)
    did = "written" if not there else "added to" if append else "changed"
    return f"{shown(workspace, place)}: {did}, {lines} lines"


def edit(workspace: Root, path: str, old_text: str, new_text: str, every: bool = False) -> str:
    """Replace `old_text`, which must occur exactly once unless `every`, by `new_text`. Raises ToolFailed."""
    if not old_text:
        raise ToolFailed("`old_text` is empty; use write for a new file.")
    if old_text == new_text:
        raise ToolFailed("`old_text` and `new_text` are the same.")
    before = text_of(workspace, path)
    found = before.count(old_text)
    if found == 0:
        raise ToolFailed(f"{path} does not contain {old_text[:MAX_MISS_CHARS]!r}; read it again, white space counts.")
    if found > 1 and not every:
        raise ToolFailed(f"{path} contains `old_text` {found} times; include more of the text around it, or set `all`.")
    place = resolved(workspace, path)
    _put(workspace, place, before.replace(old_text, new_text))
    return f"{shown(workspace, place)}: {found} {'place' if found == 1 else 'places'} changed"


def _put(workspace: Root, place: Path, content: str, *, append: bool = False) -> None:
    with opened(workspace, place, os.O_WRONLY | os.O_CREAT | (os.O_APPEND if append else 0)) as file:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise ToolFailed(f"{shown(workspace, place)} is not a regular file.")
        data = content.encode("utf-8", "replace")
        try:
            if not append:
                os.ftruncate(file, 0)
            while data:
                data = data[os.write(file, data) :]
        except OSError as error:
            raise ToolFailed(f"{shown(workspace, place)}: {error.strerror}.") from None


def listing(workspace: Root, path: str = ".", depth: int = 1) -> str:
    """List a directory, an entry per line: directories end with a slash, links show their target. Raises ToolFailed."""
    top = resolved(workspace, path)
    if not top.is_dir():
        raise ToolFailed(f"{path} is not a directory.")
    found: list[str] = []
    over = _listed(workspace, top, "", min(max(depth, 1), MAX_DEPTH), found)
    if not found:
        return "(empty)"
    return "\n".join(found) + (f"\n(more than {MAX_LISTED} entries; list a part of it)" if over else "")


def _listed(workspace: Root, directory: Path, before: str, depth: int, found: list[str]) -> bool:
    if is_hidden(workspace, directory):
        return False  # As behind a wall: its own name is listed, its content is not.
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except OSError as error:
        found.append(f"{before}({error.strerror})")
        return False
    for entry in entries:
        if len(found) >= MAX_LISTED:
            return True
        inner = entry.is_dir(follow_symlinks=False)
        points = f" -> {Path(entry.path).readlink()}" if entry.is_symlink() else ""
        found.append(f"{before}{entry.name}{'/' if inner else ''}{points}")
        deeper = inner and depth > 1 and entry.name != ".git"
        if deeper and _listed(workspace, Path(entry.path), f"{before}{entry.name}/", depth - 1, found):
            return True
    return False
