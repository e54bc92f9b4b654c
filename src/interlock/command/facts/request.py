"""The only normaliser: it converts an agent's request, however it is spelled, to the facts that policy compares (H-6).

`facts(AgentRequest(…))` is the only way from bytes to facts. A caller passes all that it has of the permission request:
its input, title, locations and content, and the paths whose symbolic links the runner resolved.
"""

from __future__ import annotations

import json
import posixpath
import re
import shlex
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, cast
from urllib.parse import unquote

from interlock.command.facts import shell
from interlock.command.policy.patterns import SEPARATORS

MAX_FACTS = 1_000
"""Paths, commands, URLs or texts of one request; a request with more is unclear."""
MAX_NESTING = 32
"""Nesting depth of objects and lists; a deeper input is unclear."""
NOT_RESOLVED = ""
"""A member of `resolved_paths` that is not a path: the runner could not resolve all of them."""
MAX_DENY_TEXT_CHARS = 262_144
"""Text of a described request that deny rules search; a longer one matches every deny rule by command or path."""


class AgentRequest(NamedTuple):
    """An agent's request as received.

    `input` is the raw input's bytes, None or empty if the agent sends none. `content` is the request's content as JSON
    bytes (ACP: a list of diffs and texts). `locations` are the paths that it names beside the input. With `described`
    the input does not contain the effect (H-2). `resolved_paths` maps a path as it was sent to the real one, symbolic
    links followed on the runner; a path that is not in it is judged by its text alone, and with NOT_RESOLVED in it no
    allow rule covers the request.
    """

    input: bytes | None
    workspace: str = ""
    title: str = ""
    locations: tuple[str, ...] = ()
    content: bytes | None = None
    described: bool = False
    resolved_paths: Mapping[str, str] = {}


@dataclass(frozen=True)
class RequestFacts:
    """The parts of a request. An allow rule must cover each fact; a deny rule needs one.

    `paths` below the workspace are relative to it, others absolute; `lines` are command lines as a shell would get
    them. `beside` names what no rule by command covers: another directory, an environment, standard input. `unclear` is
    why no allow rule may cover the request, None if one may.
    """

    paths: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    unclear: str | None = None
    described: bool = False
    sources: tuple[str | bytes, ...] = ()
    """All text of the request, for deny rules that must search it: see `texts`."""
    workspace: str = ""
    directory: str = ""
    """The working directory of its commands; relative arguments are resolved against it."""
    command_only: bool = False
    """The input is one command line and its description: no other member changes what is done."""
    resolved_paths: Mapping[str, str] = field(default_factory=dict[str, str])
    spelled: tuple[str, ...] = ()
    """The paths of its members as they were sent, for the runner to resolve."""

    @cached_property
    def read(self) -> tuple[shell.CommandLine, ...]:
        """Return the parsed command lines; the grammar is loaded when a rule first needs it."""
        return tuple(shell.read(line) for line in self.lines)

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """Return all text of the request, in searchable form."""
        texts = (one.decode("utf-8", "replace") if isinstance(one, bytes) else one for one in self.sources)
        return tuple(_sound(text) for text in texts if text)

    @cached_property
    def why_unclear(self) -> str | None:
        """Return why not every fact could be determined, of the whole or of its first such command line; None if all
        were."""
        return next((why for why in (self.unclear, *(line.unclear for line in self.read)) if why is not None), None)

    @cached_property
    def vague(self) -> bool:
        """Return whether deny rules must search all text, since not every fact could be determined."""
        return self.described or self.why_unclear is not None

    def place(self, path: str) -> Iterator[str]:
        """Yield a path that a command names, and its target if it has symbolic links: relative below the workspace,
        otherwise absolute."""
        yield relative(path, self.workspace, self.directory)
        if path in self.resolved_paths:
            yield relative(self.resolved_paths[path], self.workspace)


def facts(request: AgentRequest) -> RequestFacts:
    """Normalise a request. Never raises: what cannot be parsed is unclear, and its text is kept for deny rules."""
    found = FactCollector(request.workspace)
    if request.input:
        found.document(request.input)
    elif not request.described:
        found.unclear = "the agent sent no input"
    for path in request.locations:
        found.path(path)
    if request.content:
        found.document(request.content, content=True)
    found.commands()
    sources = (request.title, *found.texts, *request.locations, request.input or b"", request.content or b"")
    if NOT_RESOLVED in request.resolved_paths:
        found.mark_unclear("the runner could not resolve its paths")
    paths = list(dict.fromkeys(found.paths))
    real = found.real_places(paths, request.resolved_paths)
    kept = list(dict.fromkeys(relative(path, request.workspace, found.directory) for path in (*paths, *real)))
    if len(kept) + len(found.lines) + len(found.urls) > MAX_FACTS:
        found.unclear = f"it has more than {MAX_FACTS} parts"
    return RequestFacts(
        tuple(map(_sound, kept[:MAX_FACTS])), tuple(found.lines[:MAX_FACTS]),
        tuple(map(_sound, found.urls[:MAX_FACTS])), tuple(found.beside),
        found.unclear, request.described, sources, request.workspace,
        found.directory, found.command_only, request.resolved_paths, tuple(paths[:MAX_FACTS]))


def _sound(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def local_path(path: str) -> str:
    """Return a path as a file system reads it: without the scheme of a `file:` URL."""
    return "/" + path[5:].lstrip("/") if path.lower().startswith("file:") else path


def relative(path: str, workspace: str, directory: str = "") -> str:
    """Return a path below the workspace relative to it, any other as an absolute one. Only the text is used."""
    path = local_path(path)
    if path.startswith("~"):
        return path
    if not workspace:
        return posixpath.normpath(posixpath.join(directory, path)) if path else path
    whole = posixpath.normpath(posixpath.join(workspace, directory, path))
    root = posixpath.normpath(workspace)
    if whole == root:
        return "."
    return whole.removeprefix(root.rstrip("/") + "/")


_COMMANDS = frozenset({
    "argv", "bash", "bashcommand", "cmd", "cmdline", "command", "commandline", "commands", "exec", "executable",
    "program", "script", "shell", "shellcommand",
})
_ARGUMENTS = frozenset({
    "args", "argumentlist", "arguments", "commandargs", "parameters",
})
_DIRECTORIES = frozenset({
    "chdir", "currentdirectory", "currentworkingdirectory", "cwd", "dirpath", "workdir", "workingdir",
    "workingdirectory",
})
_ENVIRONMENTS = frozenset({
    "env", "environ", "environment", "environmentvariables", "envvars",
})
_EXACT = frozenset({
    "argv0", "argvbase64", "envbase64", "mountnamespace",
})
"""Members of a held program's start: it is called by another name than its own, contains bytes that are not text, or is
named by a path that is another file for its process."""
_RIGHTS = re.compile("admin|bypass|danger|elevat|escalat|permission|privileg|sandbox|sudo|unsafe")
"""Substrings of a member's name that may give a command more rights than its words show."""
_ELSEWHERE = frozenset({
    "container", "gid", "group", "host", "hostname", "image", "machine", "pod", "remote", "remotehost", "runas",
    "server", "sshhost", "targethost", "uid", "user", "username", "vm",
})
"""Members that name another user or machine for a command."""
_AS_EVER = frozenset({"", "default", "false", "none", "use_default"})
"""Values with which such a member changes nothing."""
_INPUTS = frozenset({
    "inputdata", "standardinput", "stdin",
})
_PATHS = (
    "path", "paths", "file", "files", "filename", "filenames", "pathname", "pathnames", "dir", "dirs",
    "directory", "directories", "folder", "folders", "source", "src", "destination", "dest", "dst", "root",
    "target", "location", "locations", "filepattern",
)
"""Suffixes of names of members that are paths; a false match only makes an allow rule narrower."""
_LINKS = ("url", "urls", "uri", "uris", "href", "endpoint", "link")
_DATA = frozenset({
    "activeform", "body", "cellid", "celltype", "content", "contents", "data", "description", "editmode",
    "explanation", "filetext", "format", "header", "id", "insertline", "instructions", "justification", "kind",
    "language", "message", "mode", "newsource", "newstr", "newstring", "newtext", "note", "oldstr", "oldstring",
    "oldtext", "outputmode", "prompt", "query", "question", "reason", "regex", "replace", "replacement", "search",
    "status", "summary", "text", "thought", "thoughts", "title", "toolcallid", "type",
})
"""Members whose text is content, not where or what is run."""
_ABOUT = frozenset({
    "description", "explanation", "reason", "runinbackground", "timeout", "timeoutms", "timeoutseconds", "title",
})
"""Members beside a command line that do not change its effect."""
_EDITS = frozenset({
    "create", "insert", "str_replace", "undo_edit", "view",
})
"""Values of a text editor's `command`, beside a path; no shell gets it."""
_PATCH = re.compile(r"^(?:\*\*\* (?:Add|Update|Delete) File: (.+)|\*\*\* Move to: (.+)"
                    r"|(?:---|\+\+\+) (?:[ab]/)?([^\t\n]+).*"
                    r"|(?:rename|copy) (?:from|to) (.+)|diff --git (?:a/)?(\S+) (?:b/)?(\S+))$", re.MULTILINE)
_PATCH_BEGINS = re.compile(r"^(?:\*\*\* Begin Patch|diff --git |--- \S|\*\*\* (?:Add|Update|Delete) File)",
                           re.MULTILINE)
_LOOKS_LIKE_PATH = re.compile(r"(?:~|\.{1,2}(?:/|$)|/|[A-Za-z]:[\\/]|file:).*|.*/\.\.(?:/.*)?|\.[A-Za-z][\w.-]*"
                              r"|\S*[/\\]\S*|\S+\.[A-Za-z]\w{0,7}", re.DOTALL)
URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+|(?:data|javascript|mailto):\S+", re.IGNORECASE)


class FactCollector:
    """Collects facts."""

    def __init__(self, workspace: str) -> None:
        self.paths: list[str] = []
        self.lines: list[str] = []
        self.urls: list[str] = []
        self.texts: list[str] = []
        self.beside: list[str] = []
        self.directory = ""
        self.rights = False
        """The input has a member that may change with which rights a command runs, or where."""
        self.unclear: str | None = None
        self.command_only = False
        self._workspace = workspace
        self._programs: list[object] = []
        self._arguments: list[object] = []

    def document(self, raw: bytes, *, content: bool = False) -> None:
        """Parse JSON. A duplicate member counts with both values, and makes the whole unclear."""
        try:
            value: Any = json.loads(raw, object_pairs_hook=_Pairs, parse_constant=_refuse)
        except (ValueError, RecursionError):
            self.mark_unclear("its input is not JSON")
            return
        if not content and not isinstance(value, _Pairs):
            self.mark_unclear("its input is not a JSON object")
        if isinstance(value, _Pairs) and not content:
            names = [_plain(name) for name, _ in value.pairs]
            self.command_only = names.count("command") == 1 and all(
                name == "command" or name in _ABOUT for name in names)
        self._value("", value, 0)

    def path(self, path: str) -> None:
        """Add a path; one with control characters is unclear."""
        if any(ord(one) < 32 or 0xD800 <= ord(one) < 0xE000 for one in path):
            self.mark_unclear("a path has control characters")
        if any(map(_is_hidden, path)):
            self.mark_unclear("a path has invisible characters")
        if path.lower().startswith("file:") and "%" in path:
            self.paths.append(unquote(path, errors="replace"))
        if URL.fullmatch(path) and not path.lower().startswith("file:"):
            self.urls.append(path)
        else:
            self.paths.append(path)
            if "\\" in path:
                self.paths.append(path.replace("\\", "/"))

    def commands(self) -> None:
        """Combine programs and arguments."""
        arguments = [word for value in self._arguments for word in self._strings(value)]
        for value in self._programs:
            if isinstance(value, str):
                # `command` with `args` beside it is a program and its words; a line with spaces stays a line.
                self._line(value, arguments)
                continue
            words = self._strings(value)
            if words:
                self._line("", [*words, *arguments])
        if arguments and not self._programs:
            self.mark_unclear("it has arguments and no command")
        if self.rights and self.lines:
            self.beside.append("rights")
        if any(_is_hidden(one) for line in self.lines for one in line):
            self.mark_unclear("a command has invisible characters")

    def _line(self, begins: str, words: list[str]) -> None:
        """Add a command line from words. A tool may pass words to a program, or join them for a shell: with an operator
        both are checked."""
        start = [begins] if begins else []
        self.lines.append(" ".join([*start, *map(shlex.quote, words)]))
        if any(character in word for word in words for character in SEPARATORS):
            self.lines.append(" ".join([*start, *words]))

    def real_places(self, paths: Iterable[str], resolved: Mapping[str, str]) -> list[str]:
        """Return where the symbolic links of paths, and of the directory that commands run in, lead. An earlier runner
        sends a path relative to the workspace instead of as it was sent."""
        found = [resolved[name] for path in paths
                 for name in dict.fromkeys((path, relative(path, self._workspace, self.directory))) if name in resolved]
        where = resolved.get(self.directory) if self.directory else None
        if where is not None and _outside(relative(where, self._workspace)):
            self.beside.append("directory")
            found.append(where)
        return found

    def mark_unclear(self, why: str) -> None:
        """Exclude the request from allow rules; the first reason is kept."""
        self.unclear = self.unclear or why

    def _value(self, name: str, value: object, depth: int) -> None:
        if depth > MAX_NESTING or len(self.paths) + len(self._programs) + len(self.texts) > 4 * MAX_FACTS:
            self.mark_unclear("its input is too large or nested too deep to judge")
            return
        if isinstance(value, _Pairs):
            self._object(value, depth)
        elif isinstance(value, list):
            for member in cast("list[object]", value):
                self._value(name, member, depth + 1)
        elif isinstance(value, str):
            self.add_text(name, value)
        elif value is not None and name.endswith(_PATHS) and not isinstance(value, bool | int | float):
            self.mark_unclear("a path is not a text")

    def _object(self, value: _Pairs, depth: int) -> None:
        if value.twice:
            self.mark_unclear(f"its input has {json.dumps(value.twice)} twice")
        names = [_plain(name) for name, _ in value.pairs]
        has_path = any(name.endswith(_PATHS) for name in names)
        for name, (spelled, member) in zip(names, value.pairs, strict=True):
            if _LOOKS_LIKE_PATH.fullmatch(spelled) or "/" in spelled:
                self.path(spelled)  # Of a table of files by their path.
            if name in _COMMANDS and not (has_path and member in _EDITS):
                self._program(member)
            elif name in _ARGUMENTS:
                self._argument(member, depth)
            elif name in _DIRECTORIES:
                self._run_in(member)
            elif name in _ENVIRONMENTS:
                self._other("environment", member)
            elif name in _INPUTS:
                self._other("standard input", member)
            elif name in _EXACT:
                self._other("argument vector", member)
            elif _RIGHTS.search(name) or name in _ELSEWHERE:
                self._more(name, member, depth)
            else:
                self._value(name, member, depth + 1)

    def _program(self, member: object) -> None:
        if isinstance(member, str):
            self._programs.append(member)
        elif isinstance(member, list):
            words = cast("list[object]", member)
            if words and all(isinstance(word, str) for word in words):
                self._programs.append(words)
            elif words:
                self.mark_unclear("its command is neither a text nor a list of words")
                for word in words:
                    self._value("command", word, 1)
        elif member is not None:
            self.mark_unclear("its command is neither a text nor a list of words")
            self._value("", member, 1)

    def _argument(self, member: object, depth: int) -> None:
        if isinstance(member, _Pairs):  # The arguments of an MCP tool: an object of its own.
            self._value("", member, depth + 1)
            return
        self._arguments.append(member)
        if not isinstance(member, str) and not self._all_texts(member):
            self.mark_unclear("its arguments are not a list of words")

    def _run_in(self, member: object) -> None:
        if not isinstance(member, str):
            if member is not None:
                self.mark_unclear("its directory is not a text")
            return
        if self.directory and self.directory != member:
            self.mark_unclear("it names two directories")
        if member:
            self.directory = member
            if not self._workspace or _outside(relative(member, self._workspace)):
                self.beside.append("directory")
                self.path(member)

    def _more(self, name: str, member: object, depth: int) -> None:
        """Record members that may give a command other rights, or run it for another user or on another machine."""
        changes = member if not isinstance(member, str) else member.strip().lower() not in _AS_EVER
        if changes and not (isinstance(member, _Pairs) and not member.pairs):
            self.rights = True
        self._value(name, member, depth + 1)

    def _other(self, what: str, member: object) -> None:
        if member not in (None, "", []) and not (isinstance(member, _Pairs) and not member.pairs):
            self.beside.append(what)

    def add_text(self, name: str, text: str) -> None:
        """Add the text of a member: a URL, a patch, a path, or words that deny rules search."""
        if name in _DATA and not text.startswith("*** Begin Patch"):
            self.texts.append(text)
        elif name.endswith(_LINKS) or URL.fullmatch(text):
            if text.lower().startswith("file:"):
                self.path(text)
            else:
                self.urls.append(text)
        elif _PATCH_BEGINS.search(text):
            self._patch(text)
        elif name.endswith(_PATHS):
            self.path(text)
        else:
            self.texts.append(text)
            if "\n" not in text and _LOOKS_LIKE_PATH.fullmatch(text):
                self.path(text)

    def _patch(self, text: str) -> None:
        names = [name for found in _PATCH.finditer(text) for name in found.groups() if name and name != "/dev/null"]
        if not names:
            self.mark_unclear("its patch names no file")
        for name in names:
            self.path(name.strip())

    def _all_texts(self, value: object) -> bool:
        return isinstance(value, list) and all(isinstance(word, str) for word in cast("list[object]", value))

    def _strings(self, value: object) -> list[str]:
        if isinstance(value, str):
            return [value]
        words = cast("list[object]", value) if isinstance(value, list) else []
        return [word for word in words if isinstance(word, str)]


class _Pairs:
    """A JSON object as its pairs, including duplicates. `twice` is a duplicated name, None if there is none."""

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        self.pairs = pairs
        names = [name for name, _ in pairs]
        self.twice = Counter(names).most_common(1)[0][0] if len(set(names)) < len(names) else None


def _is_hidden(character: str) -> bool:
    """Return whether a character is invisible or changes how others are shown, so that the visible text differs from
    what is run."""
    return not character.isascii() and unicodedata.category(character) == "Cf"


def _outside(path: str) -> bool:
    return path.startswith(("/", "~", ".."))


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is not JSON")


def _plain(name: str) -> str:
    """Return a member's name without differences in spelling: `filePath`, `file_path` and `File-Path` are the same."""
    return name.replace("_", "").replace("-", "").replace(" ", "").lower()


def tokens(text: str) -> Iterator[str]:
    """Yield the parts of a text that could be paths: those between blanks, quotes and brackets."""
    yield from (part for part in re.split(r"[\s'\"`()<>,;:=\[\]{}|&]+", text) if part)
