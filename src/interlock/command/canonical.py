"""Canonical JSON (RFC 8785) on the restricted schema of U-2, so that one value has exactly one encoding.

Allowed are strings, booleans, integers with |n| < 2^53, objects with ASCII names and arrays. Implementations of RFC
8785 differ for floats, null, other types and names beyond ASCII, so these are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

MAX_INTEGER = 2**53 - 1
"""An integer beyond this, either side of zero, is refused: not every reader of JSON keeps it exactly (RFC 7493)."""
MAX_DEPTH = 16
"""Objects and arrays nested deeper than this are refused, which also ends a value that contains itself."""

_encoder = msgspec.json.Encoder(order="sorted")


class NotCanonical(ValueError):
    """A value has no canonical form; the sentence names the place."""


def canonical(value: Mapping[str, object]) -> bytes:
    """Encode an object in canonical form. Members that are None are omitted. Raises NotCanonical."""
    members = {name: member for name, member in value.items() if member is not None}
    # Nearly all are plain, which is checked quickly; the copy names the place of an error.
    plain = members if is_plain(members) else plain_form(value)
    try:
        return _encoder.encode(plain)
    except UnicodeEncodeError as error:
        raise NotCanonical("A string has half of a surrogate pair, which UTF-8 cannot carry.") from error


def plain_form(value: object, place: str = "$", depth: int = 0) -> Any:
    """Return a copy that has only plain allowed types, without members that are None. Raises NotCanonical."""
    kind = type(value)
    if kind is str or kind is bool:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        if not -MAX_INTEGER <= value <= MAX_INTEGER:
            raise NotCanonical(f"The integer at {place} is not below 2^53.")
        return int(value)
    if depth >= MAX_DEPTH:
        raise NotCanonical(f"The value at {place} is nested deeper than {MAX_DEPTH}.")
    if isinstance(value, Mapping):
        members = cast("Mapping[object, object]", value)
        return {
            _name(name, place): plain_form(member, f"{place}.{name}", depth + 1)
            for name, member in members.items()
            if member is not None
        }
    if isinstance(value, list | tuple):
        elements = cast("list[object]", value)
        return [plain_form(element, f"{place}[{i}]", depth + 1) for i, element in enumerate(elements)]
    raise NotCanonical(f"The value at {place} is of type {kind.__name__}; canonical JSON takes strings, booleans, "
                       "integers, objects and arrays.")


def is_plain(value: object, depth: int = 0) -> bool:
    """Return whether a value consists of plain types and satisfies the schema, which excludes null."""
    kind = type(value)
    if kind is str or kind is bool:
        return True
    if kind is int:
        return -MAX_INTEGER <= cast("int", value) <= MAX_INTEGER
    if depth >= MAX_DEPTH:
        return False
    if kind is dict:
        members = cast("dict[str, object]", value)
        for name, member in members.items():
            kind = type(name)
            if kind is not str or not name.isascii():
                return False
            kind = type(member)
            if kind is not str and kind is not bool and not is_plain(member, depth + 1):
                return False
        return True
    if kind is list:
        return all(is_plain(element, depth + 1) for element in cast("list[object]", value))
    return False


def _name(name: object, place: str) -> str:
    # Among ASCII names the order by UTF-16 units, which RFC 8785 asks for, is the order by bytes, which msgspec writes.
    if not isinstance(name, str) or not name.isascii():
        raise NotCanonical(f"A member's name at {place} is not ASCII text.")
    return str.__str__(name)
