"""Writing of TOML from plain values, for the imported config (G-1)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def to_toml(data: Mapping[str, Any]) -> str:
    """Return tables as TOML: lists of tables at the top as arrays of tables, all else as values."""
    lines = [line for key, value in data.items() if not _is_table(value) and not _is_tables(value)
             for line in (f"{_key(key)} = {value_toml(value)}",)]
    for key, value in data.items():
        if _is_table(value):
            lines += _table((key,), cast("Mapping[str, Any]", value))
        elif _is_tables(value):
            for member in cast("list[Mapping[str, Any]]", value):
                lines += ["", f"[[{_key(key)}]]"]
                lines += [f"{_key(name)} = {value_toml(one)}" for name, one in member.items()]
    return "\n".join(lines).strip() + "\n"


def value_toml(value: object) -> str:
    """Return a value on one line; tables inline, without members that are None."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # JSON's string form is a TOML basic string, DEL apart.
        return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")
    if isinstance(value, list):
        return "[" + ", ".join(value_toml(member) for member in cast("list[object]", value)) + "]"
    if isinstance(value, dict):
        pairs = [(key, member) for key, member in cast("dict[str, object]", value).items() if member is not None]
        return "{" + ", ".join(f"{_key(key)} = {value_toml(member)}" for key, member in pairs) + "}"
    return str(value)


def _table(path: tuple[str, ...], table: Mapping[str, Any]) -> Iterator[str]:
    plain = {name: value for name, value in table.items() if not _is_table(value)}
    inner = {name: cast("Mapping[str, Any]", value) for name, value in table.items() if _is_table(value)}
    if plain or not inner:
        yield from ("", f"[{'.'.join(map(_key, path))}]")
        yield from (f"{_key(name)} = {value_toml(value)}" for name, value in plain.items())
    for name, value in inner.items():
        yield from _table((*path, name), value)


def _is_table(value: object) -> bool:
    return isinstance(value, dict)


def _is_tables(value: object) -> bool:
    return isinstance(value, list) and bool(cast("list[object]", value)) and all(
        isinstance(member, dict) for member in cast("list[object]", value))


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else value_toml(name)
