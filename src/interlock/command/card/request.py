"""The parts of a request, parsed once for its title and its card."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

MAX_DEPTH = 64


class ReceivedRequest(NamedTuple):
    """A request as received: `input` is its raw input's bytes, `content` ACP's list of texts and diffs as bytes.

    `title` is the agent's own words. With `described` the input does not contain the effect (H-2).
    """

    tool_name: str
    input: bytes
    title: str = ""
    kind: str | None = None
    content: bytes | None = None
    locations: tuple[str, ...] = ()
    described: bool = False


class InputMember(NamedTuple):
    """A member of an object; names may be duplicated."""

    name: str
    value: Any


class FileEdit(NamedTuple):
    """A change of one file. `old` is None if the previous text is unknown; with `patch`, `new` is a diff."""

    path: str
    new: str
    old: str | None = None
    patch: bool = False


@dataclass(slots=True)
class Parts:
    """The parts of a request. `rest` holds every member that neither a command line nor an edit nor `words` shows:
    nothing is omitted."""

    lines: list[str] = field(default_factory=list[str])
    edits: list[FileEdit] = field(default_factory=list[FileEdit])
    words: list[str] = field(default_factory=list[str])
    """The agent's description of its request."""
    urls: list[str] = field(default_factory=list[str])
    paths: list[str] = field(default_factory=list[str])
    rest: list[InputMember] = field(default_factory=list[InputMember])
    shown: list[str] = field(default_factory=list[str])
    """Texts of the request's content."""
    unreadable: str | None = None
    """The input, if it is not a JSON object."""


_PATHS = ("file_path", "path", "filePath", "fileName", "file_name", "filename", "filepath", "pathname", "notebook_path",
          "notebookPath", "target_file", "absolute_path", "file", "uri")
_OLD = ("old_string", "oldString", "oldText", "old_text", "old_str", "oldStr", "old")
_NEW = ("new_string", "newString", "newText", "new_text", "new_str", "newStr", "new", "new_source", "newSource")
_WHOLE = ("content", "contents", "file_text", "fileText", "text")
_PATCHES = ("patch", "diff", "patch_text", "patchText", "input")
_COMMANDS = ("command", "cmd", "commandLine", "command_line", "script")
_WORDS = ("description", "explanation", "justification", "reason", "title")
_SURROUNDINGS = frozenset({"cwd", "dir", "dir_path", "directory", "env", "environment", "input", "shell", "stdin",
                           "workdir", "working_directory"})
"""Members that determine where and with what a command runs: a command that was allowed with them ran with them."""
_ABSENT = object()
_LINKS = ("url", "uri", "href", "endpoint")
_EDITOR = frozenset({"create", "str_replace", "insert", "view", "undo_edit"})
"""Values of a text editor's `command`, which no shell gets."""


def parts(request: ReceivedRequest) -> Parts:
    """Split a request into its parts. Never raises."""
    found = Parts()
    members = _members(request.input)
    if members is None:
        found.unreadable = request.input.decode("utf-8", "backslashreplace")
    else:
        _read(found, members)
    if request.content:
        _content(found, request.content)
    return found


CHANGES = frozenset({"delete", "edit", "move"})


def lacks_effect(kind: str | None, input_bytes: bytes) -> bool:
    """Return whether an input does not contain the request's effect: it is missing, or of a kind whose action it does
    not hold (H-2)."""
    if not input_bytes or input_bytes == b"{}":
        return True
    found = parts(ReceivedRequest("", input_bytes))
    if kind == "execute":
        return not found.lines
    if kind in CHANGES:
        return not found.edits and not found.paths
    return not (found.lines or found.edits or found.rest or found.words)


def same_input(one: bytes, other: bytes) -> bool:
    """Return whether two inputs are equal, apart from white space and the order of members."""
    try:
        return one == other or json.loads(one) == json.loads(other)
    except (ValueError, RecursionError):
        return False


def same_effect(ran: bytes, allowed: bytes, content: bytes | None = None) -> bool:
    """Return whether what ran is what was allowed: the same input, the same command in the same surroundings, or the
    edit of one file that makes the change which `allowed` or its `content` shows. Agents describe one action
    differently in their requests and in their reports."""
    if same_input(ran, allowed):
        return True
    reported, shown = parts(ReceivedRequest("", ran)), parts(ReceivedRequest("", allowed))
    if not reported.edits:
        return _same_command(ran, allowed, reported, shown)
    changes = parts(ReceivedRequest("", b"{}", content=content)).edits if content else shown.edits
    return len(changes) == 1 and all(_makes(edit, changes[0]) for edit in reported.edits)


def _same_command(ran: bytes, allowed: bytes, reported: Parts, shown: Parts) -> bool:
    """Return whether a report of a command adds nothing to the one that was allowed; a report without a command
    matches."""
    one, other = _decoded(ran), _decoded(allowed)
    if one is None or other is None or any(name not in _WORDS and other.get(name, _ABSENT) != value
                                           for name, value in one.items()):
        return False
    left_out = other.keys() - one.keys()
    return not reported.lines or (reported.lines == shown.lines and not left_out & _SURROUNDINGS)


def announces(announced: bytes, requested: bytes, content: bytes | None = None) -> bool:
    """Return whether an announcement matches the request: it is equal, a part of it, or the same action in another
    form."""
    if same_effect(announced, requested, content):
        return True
    one, other = _decoded(announced), _decoded(requested)
    if one is None or other is None or any(other.get(name, value) != value for name, value in one.items()):
        return False
    return one.keys() <= other.keys() or (bool(parts(ReceivedRequest("", announced)).lines) and (
        parts(ReceivedRequest("", announced)).lines == parts(ReceivedRequest("", requested)).lines))


def _makes(edit: FileEdit, change: FileEdit) -> bool:
    """Return whether an edit makes a change from a whole text to a whole text. If its old text does not occur verbatim
    (agents search for it without its spaces), its new text must at least be in the result."""
    if change.patch:
        return _in_patch(edit, change)
    if edit.path != change.path:
        return False
    if edit.old is None or change.old is None:
        return edit.new == change.new
    if edit.old not in change.old:
        return edit.new in change.new
    return change.new in (change.old.replace(edit.old, edit.new, 1), change.old.replace(edit.old, edit.new))


def _in_patch(edit: FileEdit, change: FileEdit) -> bool:
    """Return whether a diff of one file removes only what the edit removes, and adds only what it adds."""
    body = [line for line in change.new.split("\n") if not line.startswith(("+++ ", "--- "))]
    added, removed = ([line[1:] for line in body if line.startswith(sign)] for sign in "+-")
    new, old = edit.new.split("\n"), (edit.old or "").split("\n")
    files = {name.lstrip("/") for name in change.path.split(", ")} - {"dev/null"}
    return files == {edit.path.lstrip("/")} and set(added) <= set(new) and (
        edit.old is None or set(removed) <= set(old)) and any(line in added for line in new)


def _decoded(raw: bytes) -> dict[str, Any] | None:
    try:
        value: Any = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _read(found: Parts, members: list[InputMember]) -> None:
    names = [member.name for member in members]
    once = {member.name: member.value for member in members if names.count(member.name) == 1}
    used = _edits(found, once) or _command(found, once)
    for member in members:
        if member.name in used and names.count(member.name) == 1:
            continue
        if member.name in _WORDS and isinstance(member.value, str):
            found.words.append(member.value)
            continue
        if member.name in _LINKS and isinstance(member.value, str) and "://" in member.value:
            found.urls.append(member.value)
        elif member.name in _PATHS and isinstance(member.value, str):
            found.paths.append(member.value)
        found.rest.append(member)


def _command(found: Parts, once: dict[str, Any]) -> frozenset[str]:
    for name in _COMMANDS:
        value = once.get(name)
        words = cast("list[Any]", value) if isinstance(value, list) else []
        if words and all(isinstance(word, str) and not isinstance(word, _Number) for word in words):
            value = shlex.join(words)
        if isinstance(value, str) and not isinstance(value, _Number):
            found.lines.append(value)
            return frozenset({name})
    return frozenset()


def _edits(found: Parts, once: dict[str, Any]) -> frozenset[str]:
    """Find an edit of one file in the forms that agents use; returns the members that it shows."""
    where = next((name for name in _PATHS if isinstance(once.get(name), str)), None)
    if where is None:
        return _patch(found, once)
    path = once[where]
    if isinstance(once.get("edits"), list):
        pairs = [_pair(cast("list[InputMember]", one)) for one in once["edits"] if _is_object(one)]
        if pairs and all(pairs) and len(pairs) == len(once["edits"]):
            found.edits += [FileEdit(path, new, old) for old, new in [pair for pair in pairs if pair is not None]]
            return frozenset({where, "edits"})
    verb = frozenset({"command"}) if str(once.get("command")) in _EDITOR else frozenset[str]()
    old, new = _first(once, _OLD), _first(once, _NEW)
    if new is not None:
        found.edits.append(FileEdit(path, once[new], once[old] if old is not None else None))
        return verb | {where, new, *([old] if old is not None else [])}
    whole = _first(once, _WHOLE)
    if whole is not None:
        found.edits.append(FileEdit(path, once[whole]))
        return verb | {where, whole}
    return _patch(found, once)


def _patch(found: Parts, once: dict[str, Any]) -> frozenset[str]:
    for name in _PATCHES:
        value = once.get(name)
        if isinstance(value, str) and value.lstrip().startswith(("*** Begin Patch", "diff --git ", "--- ")):
            found.edits.append(FileEdit(patched(value), value, patch=True))
            return frozenset({name})
    return frozenset()


def patched(patch: str) -> str:
    """Return the files that a patch names, as its lines write them."""
    starts = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "+++ ", "--- ")
    names = [line[len(start):].split("\t")[0].removeprefix("a/").removeprefix("b/")
             for line in patch.split("\n") for start in starts if line.startswith(start)]
    return ", ".join(dict.fromkeys(name for name in names if name != "/dev/null")) or "files"


def _content(found: Parts, raw: bytes) -> None:
    try:
        items: Any = json.loads(raw)
    except (ValueError, RecursionError):
        found.shown.append(raw.decode("utf-8", "backslashreplace"))
        return
    for item in cast("list[Any]", items) if isinstance(items, list) else [items]:
        one = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
        path, new, old = one.get("path"), one.get("newText"), one.get("oldText")
        inner = one.get("content")
        text = cast("dict[str, Any]", inner).get("text") if isinstance(inner, dict) else None
        if one.get("type") == "diff" and isinstance(path, str) and isinstance(new, str) \
                and isinstance(old, str | None):
            found.edits.append(FileEdit(path, new, old if old is not None else ""))
        elif one.get("type") == "content" and isinstance(text, str):
            found.shown.append(text)
        else:
            found.shown.append(json.dumps(item, ensure_ascii=False))


def _pair(members: list[InputMember]) -> tuple[str | None, str] | None:
    once = {member.name: member.value for member in members}
    old, new = _first(once, _OLD), _first(once, _NEW)
    extra = once.keys() - {old, new}
    if new is None or len(once) != len(members) or extra:
        return None
    return once[old] if old is not None else None, once[new]


def _first(once: dict[str, Any], names: tuple[str, ...]) -> str | None:
    return next((name for name in names if isinstance(once.get(name), str)), None)


def _is_object(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, InputMember) for one in cast("list[object]", value))


def _members(raw: bytes) -> list[InputMember] | None:
    """Return the members of a JSON object, including duplicates; None if it is not one. Nested objects are also lists
    of members."""
    try:
        value: Any = json.loads(raw or b"{}",
                                object_pairs_hook=lambda pairs: _Object(InputMember(*one) for one in pairs),
                                parse_float=_Number, parse_int=_Number, parse_constant=_Number)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, _Object) else None


class _Object(list[InputMember]):
    """An object as its members in order."""


class _Number(str):
    """A number as it was written."""

    __slots__ = ()


def written(value: Any, indent: int = 0) -> list[str]:
    """Return a value as lines: texts with their escapes decoded, numbers as they were written."""
    pad = "  " * indent
    if indent > MAX_DEPTH:
        return [f"{pad}{value!r}"]
    if isinstance(value, _Object):
        return [line for member in value for line in labelled(member.name, member.value, indent)] or [pad + "{}"]
    if isinstance(value, list):
        return [line for one in cast("list[Any]", value) for line in _item(one, indent)] or [pad + "[]"]
    if isinstance(value, _Number):
        return [pad + str(value)]
    if isinstance(value, str):
        return [pad + line for line in value.split("\n")]
    return [pad + json.dumps(value)]


def labelled(name: str, value: Any, indent: int = 0) -> list[str]:
    """Return one member as lines: its name, and its value beside or below it."""
    pad = "  " * indent
    lines = written(value, indent + 1)
    if len(lines) == 1 and not (isinstance(value, list) and value):
        return [f"{pad}{name}: {lines[0].strip() if isinstance(value, list) else lines[0][len(pad) + 2:]}"]
    return [f"{pad}{name}:", *lines]


def _item(value: Any, indent: int) -> list[str]:
    pad = "  " * indent
    first, *more = written(value, indent + 1)
    return [f"{pad}- {first[len(pad) + 2:]}", *more]
