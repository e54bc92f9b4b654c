"""Parsing of the config file: every mistake is collected, with file, line and the nearest known key (G-1)."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast, get_args, get_origin

import msgspec

from interlock.config.config_error import ConfigError
from interlock.config.contexts import DefaultsSection
from interlock.config.notices import NOTICE_TABLES
from interlock.config.sections import Config
from interlock.protocol.identifiers import AGENT_ID

_NAMED = {"agents": "not an agent id", "oidc": "not a name for an issuer", "webhooks": "not a name for a webhook",
          **dict.fromkeys(NOTICE_TABLES, "not a name for a notice"),
          "hooks": "not a name for a hook", "cron": "not an id for a cron job"}
"""Tables whose members have names that people choose."""
TYPE = re.compile(r"`([a-z |]+)`")
TYPE_WORDS = {"object": "a table", "array": "a list", "str": "a text", "int": "a whole number", "float": "a number",
              "bool": "true or false"}
"""Names for a config file's values, by the names of the library that checks them."""
DEFAULTS = "defaults"
"""`[agents.defaults]` applies to all agents, and is not an agent."""


def load(path: Path) -> Config:
    """Read the config file; a missing one is all defaults. Raises ConfigError."""
    if path.is_symlink() and not path.exists():
        raise ConfigError([f"{path}: a link that leads nowhere. Mend it, or remove it."])
    if path.exists() and not path.is_file():
        raise ConfigError([f"{path}: not a file. Put the config there, or remove it."])
    try:
        text = path.read_text("utf-8-sig")
    except FileNotFoundError:
        return Config()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([f"{path}: cannot be read: {error}"]) from None
    return parse(text, str(path))


def parse(text: str, file: str) -> Config:
    """Parse a config's text; `file` is its name in errors. Raises ConfigError."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([_toml_sentence(file, str(error))]) from None
    reader = _Reader(file, text)
    agents = data.get("agents")
    defaults = cast("dict[str, Any]", agents).pop(DEFAULTS, None) if isinstance(agents, dict) else None
    config = reader.struct(Config, data, ())
    if defaults is not None:
        section = reader.struct(DefaultsSection, defaults, ("agents", DEFAULTS))
        config = msgspec.structs.replace(config, defaults=section) if config is not None and section is not None \
            else config
    for table, what in _NAMED.items() if config else ():
        for name in getattr(config, table):
            if AGENT_ID.fullmatch(name) is None:
                reader.mistake((table, name), f'"{name}" is {what}: use a-z, 0-9, "-" and "_", at most 64.')
    if reader.sentences or config is None:
        raise ConfigError(reader.sentences)
    return config


def check(path: Path) -> list[str]:
    """Return the mistakes of the config file, one sentence each; [] if there are none."""
    try:
        load(path)
    except ConfigError as error:
        return error.sentences
    return []


_AT_LINE = re.compile(r"(.*) \(at line (\d+), column \d+\)")


def _toml_sentence(file: str, message: str) -> str:
    found = _AT_LINE.fullmatch(message)
    return f"{file}:{found[2]}: not TOML: {found[1]}." if found else f"{file}: not TOML: {message}."


_HEADER = re.compile(r"\s*(\[\[?)\s*([^\]]+?)\s*\]\]?\s*(?:#.*)?")
_KEY = re.compile(r"\s*((?:[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|\"[^\"]*\"))*)\s*=")
_PART = re.compile(r"[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*'")

_Path = tuple[str | int, ...]


def key_lines(text: str) -> dict[_Path, int]:
    """Return the line (from 1) of each table and key; members of an array of tables are counted from 0."""
    lines: dict[_Path, int] = {}
    counts: dict[_Path, int] = {}
    table: _Path = ()
    fence = ""
    for number, line in enumerate(text.splitlines(), 1):
        if fence:
            fence = "" if fence in line else fence
            continue
        if header := _HEADER.fullmatch(line):
            table = _resolved(_parts(header[2]), counts)
            if header[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            lines.setdefault(table, number)
        elif key := _KEY.match(line):
            lines.setdefault((*table, *_parts(key[1])), number)
        for quotes in ('"""', "'''"):
            if line.count(quotes) % 2:
                fence = quotes
    return lines


def _parts(dotted: str) -> _Path:
    return tuple(part.strip("\"'") for part in _PART.findall(dotted))


def _resolved(path: _Path, counts: Mapping[_Path, int]) -> _Path:
    """Return the path with the index of the newest member after each array of tables."""
    out: _Path = ()
    for position, part in enumerate(path):
        out = (*out, part)
        if out in counts and position < len(path) - 1:
            out = (*out, counts[out])
    return out


class _Reader:
    """Converts tables to structs and collects every mistake instead of stopping at the first."""

    def __init__(self, file: str, text: str) -> None:
        self.sentences: list[str] = []
        self._file = file
        self._lines = key_lines(text)

    def mistake(self, path: _Path, sentence: str) -> None:
        at = path
        while at and at not in self._lines and (*at, 0) not in self._lines:
            at = at[:-1]
        if at not in self._lines and at:
            at = (*at, 0)  # The first member of an array of tables represents the array.
        place = f"{self._file}:{self._lines[at]}" if at else self._file
        self.sentences.append(f"{place}: {sentence}")

    def struct(self, kind: type[Any], table: object, path: _Path) -> Any | None:
        """Read a table as a struct; None if it has mistakes, which are recorded."""
        if not isinstance(table, dict):
            self.mistake(path, f"{_name(path)} is a table, write it as [{_dotted(path)}].")
            return None
        before = len(self.sentences)
        fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
        values: dict[str, Any] = {}
        for key, value in cast("dict[str, Any]", table).items():
            if key not in fields:
                near = difflib.get_close_matches(key, fields, 1)
                remedy = f'did you mean "{near[0]}"?' if near else f"known: {', '.join(fields)}."
                self.mistake((*path, key), f'{_name(path)} has no key "{key}"; {remedy}')
                continue
            values[fields[key].name] = self._value(fields[key].type, value, (*path, key))
        for key, field in fields.items():
            if field.required and key not in table:
                self.mistake(path, f'{_name(path)} needs the key "{key}".')
        if len(self.sentences) > before:
            return None
        try:
            return kind(**values)
        except ValueError as error:
            key, _, sentence = str(error).partition(": ")
            self.mistake((*path, key), f'"{key}" in {_name(path)}: {sentence}.')
            return None

    def _value(self, kind: Any, value: object, path: _Path) -> Any:
        arguments = get_args(kind)
        inner: Any = arguments[-1] if arguments else None
        if _is_struct(kind):
            return self.struct(kind, value, path)
        if get_origin(kind) is dict and _is_struct(inner) and isinstance(value, dict):
            table = cast("dict[str, Any]", value)
            return {key: self.struct(inner, member, (*path, key)) for key, member in table.items()}
        if get_origin(kind) is list and _is_struct(inner) and isinstance(value, list):
            members = cast("list[Any]", value)
            return [self.struct(inner, member, (*path, index)) for index, member in enumerate(members)]
        if get_origin(kind) in {dict, list} and _is_struct(inner):
            header = f"[{_dotted(path)}.NAME]" if get_origin(kind) is dict else f"[[{_dotted(path)}]]"
            self.mistake(path, f'"{path[-1]}" in {_name(path[:-1])}: write each one as a table {header}.')
            return None
        try:
            return msgspec.convert(value, kind, strict=True)
        except msgspec.ValidationError as error:
            sentence = _in_words(str(error).partition(" - at ")[0])
            self.mistake(path, f'"{path[-1]}" in {_name(path[:-1])}: {sentence[0].lower()}{sentence[1:]}.')
            return None


def _in_words(sentence: str) -> str:
    """Name types as TOML does instead of as JSON and Python do."""
    return TYPE.sub(lambda found: " or ".join(TYPE_WORDS.get(word, word) for word in found[1].split(" | ")
                                               if word != "null"), sentence)


def _is_struct(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _dotted(path: _Path) -> str:
    return ".".join(str(part) for part in path if isinstance(part, str))


def _name(path: _Path) -> str:
    return f"[{_dotted(path)}]" if path else "the file"
