"""Integers in JSON: `1.0` and `1e0` are the integer 1, in frames and in request bodies alike.

JSON has one type of number, and some encoders (Lua's, Java's for a double) write an integral one with a fraction.
msgspec is strict about `int`, so a float that it refuses is rewritten at exactly that place and parsed again; all other
bytes are unchanged, since the digest of a tool's input is over its bytes (P-2).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

import msgspec

T = TypeVar("T")

MAX_REWRITTEN = 256
"""Integers written as floats that are accepted in one frame or body; beyond it the message is refused."""
LARGEST_EXACT = 2**53
"""Above this a float cannot represent every integer."""

_AT_A_FLOAT = re.compile(r"Expected `[^`]*\bint\b[^`]*`, got `float` - at `\$(.*)`")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
_object_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
_array_decoder = msgspec.json.Decoder(list[msgspec.Raw])


def whole(value: object) -> int | None:
    """Return the integer value of a decoded number; None for anything else."""
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer() and abs(value) <= LARGEST_EXACT:
        return int(value)
    return None


def decode_whole(decode: Callable[[bytes | msgspec.Raw], T], raw: bytes | msgspec.Raw) -> T:
    """Decode JSON, with integral floats as integers where integers are expected. Raises what `decode` raises."""
    for _ in range(MAX_REWRITTEN):
        try:
            return decode(raw)
        except msgspec.ValidationError as error:
            found = _AT_A_FLOAT.fullmatch(str(error))
            rewritten = _rewritten(bytes(raw), _STEP.findall(found[1])) if found is not None else None
            if rewritten is None:
                raise
            raw = rewritten
    return decode(raw)


def _rewritten(raw: bytes, steps: list[tuple[str, str]]) -> bytes | None:
    """Return the JSON with the number at `steps` written as an integer; None if there is no integral float. A step
    "..." is any value of an object, since msgspec does not name its key."""
    if not steps:
        number = whole(msgspec.json.decode(raw)) if raw.strip()[:1] in b"-0123456789" else None
        return None if number is None else str(number).encode()
    (name, index), *rest = steps
    if index.isdecimal():
        items = _array_decoder.decode(raw)
        part = _rewritten(bytes(items[int(index)]), rest)
        if part is None:
            return None
        items[int(index)] = msgspec.Raw(part)
        return msgspec.json.encode(items)
    members = _object_decoder.decode(raw)
    changed = False
    for key in [name] if name else list(members):
        part = _rewritten(bytes(members[key]), rest) if key in members else None
        if part is not None and part != bytes(members[key]):
            members[key] = msgspec.Raw(part)
            changed = True
    return msgspec.json.encode(members) if changed else None
