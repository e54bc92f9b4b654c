"""Find the files that a git repository's settings make git run or read, and the effects of its attributes (H-17). Pure.

git does not ask before it runs a hook, a filter or an alias. The settings decide which files these are, so a path alone
does not show it.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple

_PROGRAMS = frozenset({
    "core.alternaterefscommand", "core.askpass", "core.editor", "core.fsmonitor", "core.gitproxy", "core.pager",
    "core.sshcommand", "credential.helper", "diff.external", "gpg.program", "imap.tunnel", "interactive.difffilter",
    "sendemail.cccmd", "sendemail.headercmd", "sendemail.sendmailcmd", "sendemail.smtpserver", "sendemail.tocmd",
    "sequence.editor", "uploadpack.packobjectshook",
})
_PROGRAMS_OF_ONE = frozenset({
    ("browser", "cmd"), ("browser", "path"), ("credential", "helper"), ("diff", "command"), ("diff", "textconv"),
    ("difftool", "cmd"), ("difftool", "path"), ("filter", "clean"), ("filter", "process"), ("filter", "smudge"),
    ("gpg", "defaultkeycommand"), ("gpg", "program"), ("guitool", "cmd"), ("man", "cmd"), ("man", "path"),
    ("merge", "driver"), ("mergetool", "cmd"), ("mergetool", "path"), ("remote", "receivepack"),
    ("remote", "uploadpack"), ("tar", "command"), ("trailer", "cmd"), ("trailer", "command"),
})
"""Section and variable of settings that exist per filter, driver, tool or remote."""
_DIRECTORIES = {"core.hookspath": "git runs it as a hook: core.hooksPath names its directory",
                "init.templatedir": "git copies it into new repositories: init.templateDir names its directory"}
_SWITCHES = frozenset({"on", "off", "true", "false", "yes", "no", "1", "0", ""})
_DRIVERS = {("filter", "clean"), ("filter", "process"), ("filter", "smudge"), ("diff", "command"), ("diff", "textconv"),
            ("merge", "driver")}
"""Settings of a driver that an attribute with the section's name switches on."""
_ATTRIBUTE = re.compile(r"(?:^|\s)(filter|diff|merge)=(\S+)")
MAX_NAMED = 5
"""Settings that one reason names."""
MAX_KEY_CHARS = 60
"""Characters of a setting's key in a reason: with longer ones fewer files would be listed."""


class GitSetting(NamedTuple):
    """One setting: its key as git prints it (section and variable in lower case), its value, and the directory that a
    relative path of another settings file starts from."""

    key: str
    value: str
    directory: str

    @property
    def parts(self) -> tuple[str, str, str]:
        """Section, subsection ("" if there is none) and variable."""
        section, _, rest = self.key.partition(".")
        subsection, _, variable = rest.rpartition(".")
        return section, subsection, variable

    @property
    def shown(self) -> str:
        """Return the key for display: an agent may have written it."""
        text = "".join(one if one.isprintable() else "?" for one in self.key)
        return text if len(text) <= MAX_KEY_CHARS else f"{text[:MAX_KEY_CHARS]}…"

    @property
    def is_program(self) -> bool:
        """Return whether git runs the value as a program."""
        section, subsection, variable = self.parts
        if section == "alias" or (section, variable) == ("submodule", "update"):
            return self.value.startswith("!")
        if section == "pager" or self.key == "core.fsmonitor":
            return self.value.casefold() not in _SWITCHES  # A switch, or a program.
        return self.key in _PROGRAMS or bool(subsection and (section, variable) in _PROGRAMS_OF_ONE)

    @property
    def is_settings(self) -> bool:
        """Return whether the value is the path of another file of settings."""
        return self.parts[0] in ("include", "includeif") and self.parts[2] == "path"


def settings(listing: bytes, directory: str, *, origins: bool = False) -> list[GitSetting]:
    """Read what `git config --list --null` prints, with `--show-origin` if `origins`. `directory` is where git ran."""
    found: list[GitSetting] = []
    fields = listing.decode("utf-8", "surrogateescape").split("\0")[:-1]
    pairs = zip(fields[::2], fields[1::2], strict=False) if origins else (("", one) for one in fields)
    for origin, one in pairs:
        key, _, value = one.partition("\n")
        kind, _, file = origin.partition(":")
        above = posixpath.join(directory, posixpath.dirname(file)) if kind == "file" else directory
        found.append(GitSetting(key, value, above))
    return found


class GitPrograms:
    """The files that one repository's settings name. Paths are absolute; case is ignored, as on some file systems."""

    def __init__(self, found: Sequence[GitSetting], top: str, home: str) -> None:
        """Create the search. `top` is the directory of the repository's files, from which git runs programs; `home` is
        that of its user."""
        self._top = top
        self._home = home
        self.files: dict[str, str] = {}
        """Files of settings that the settings name, and the key of each."""
        self.attributes: set[str] = set()
        """Files of attributes that the settings name."""
        self._programs: dict[str, str] = {}
        self._directories: dict[str, str] = {}
        self._drivers: dict[tuple[str, str], str] = {}
        for one in found:
            self._add(one)

    def _add(self, one: GitSetting) -> None:
        section, subsection, variable = one.parts
        if not one.value:
            return  # It resets what an outer file sets.
        if (why := _DIRECTORIES.get(one.key)) is not None:
            self._directories[self._path(one.value, self._top)] = why
        elif one.key == "core.attributesfile":
            self.attributes.add(self._path(one.value, self._top))
        elif one.is_settings:
            self.files[self._path(one.value, one.directory)] = f"{section}.path"
        elif one.is_program:
            for word in _words(one.value):
                self._programs.setdefault(self._path(word, self._top), one.shown)
        if (section, variable) in _DRIVERS and subsection:
            self._drivers[section, subsection] = one.shown

    def _path(self, value: str, directory: str) -> str:
        if value == "~" or value.startswith("~/"):
            value = posixpath.join(self._home, value[2:])
        return posixpath.normpath(posixpath.join(directory, value)).casefold()

    def why(self, path: str, kind: str = "file") -> str | None:
        """Return why git runs or reads the file or link at a path unasked; None if no setting names it. A link in place
        of a directory exposes what its target contains."""
        path = posixpath.normpath(path).casefold()
        if (key := _at(self._programs, path, kind)) is not None:
            return f"git runs it: {key} names it"
        if (key := _at(self.files, path, kind)) is not None:
            return f"git reads it: {key} names it, and settings can name programs that git runs"
        return next((why for directory, why in self._directories.items()
                     if path == directory or path.startswith(directory.rstrip("/") + "/")), None) \
            or _at(self._directories, path, kind)

    def switched_on(self, old: str, new: str) -> str | None:
        """Return the program that a changed file of attributes makes git run on the files that it names."""
        before = set(old.splitlines())
        for line in new.splitlines():
            if line in before or line.lstrip().startswith("#"):
                continue
            for kind, name in _ATTRIBUTE.findall(line):
                if (key := self._drivers.get((kind, name))) is not None:
                    return f"it has git run the program of {key} on files that it names"
        return None


def new_programs(old: Sequence[GitSetting], new: Sequence[GitSetting]) -> str | None:
    """Return why a changed file of settings runs programs: its new settings. None if there are none."""
    before = {(one.key, one.value) for one in old}
    keys = list(dict.fromkeys(one.shown for one in new if (one.key, one.value) not in before
                              and (one.is_program or one.is_settings or one.key in _DIRECTORIES)))
    if not keys:
        return None
    more = f" and {len(keys) - MAX_NAMED} more" if len(keys) > MAX_NAMED else ""
    return f"git reads it, and it sets what git runs: {', '.join(keys[:MAX_NAMED])}{more}"


def _at(named: Mapping[str, str], path: str, kind: str) -> str | None:
    if kind != "link":
        return named.get(path)
    return next((found for one, found in named.items() if one == path or one.startswith(f"{path}/")), None)


def _words(value: str) -> list[str]:
    """Return the words of a shell's line, whatever separates them."""
    value = value.removeprefix("!")
    lexer = shlex.shlex(value, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        return [word for word in lexer if word]
    except ValueError:
        return value.split()
