"""Strict parsing of a request's body: I-JSON, bounded depth, no duplicate key, and the typed form; every error has a
place."""

from __future__ import annotations

import asyncio
import difflib
import json
import math
import re
from collections.abc import Collection
from typing import Any, NamedTuple, cast

import msgspec
import rfc8785

from interlock.protocol.integers import decode_whole
from interlock.protocol.limits import KIB, MAX_JSON_DEPTH
from interlock.protocol.problems import Place, Problem

MAX_SAFE_INTEGER = 2**53 - 1
THREAD_BYTES = 256 * KIB
"""A larger body is parsed on a thread, so that it does not block the loop."""
MAX_ERRORS = 20
"""Maximum places that one response names."""


class _Twice(NamedTuple):
    """Represents an object with a duplicate key."""

    key: str


class JsonBody(NamedTuple):
    """A parsed body: its value, and its form of RFC 8785."""

    value: Any
    form: bytes

    def without(self, names: Collection[str]) -> bytes:
        """Return the RFC 8785 form of an object without the members `names`."""
        return rfc8785.dumps({name: value for name, value in self.value.items() if name not in names})


async def read_json(raw: bytes) -> JsonBody:
    """Parse a body as I-JSON (RFC 7493). Raises Problem InvalidPayload with the places that are not."""
    return await asyncio.to_thread(read, raw) if len(raw) > THREAD_BYTES else read(raw)


def read(raw: bytes) -> JsonBody:
    """Do what `read_json` does, synchronously."""
    value = _plain(raw)
    if value is None:
        value = _with_care(raw)
        return JsonBody(value, rfc8785.dumps(value))
    # ASCII names are sorted the same by all implementations; plain bodies have no floats.
    return JsonBody(value,
                    _sorted_encoder.encode(value) if raw.isascii() and b"\\u" not in raw else rfc8785.dumps(value))


def parse_json(raw: bytes) -> Any:
    """Parse I-JSON, synchronously. Raises Problem InvalidPayload."""
    value = _plain(raw)
    return _with_care(raw) if value is None else value


class _Float(Exception):
    """Raised if a body holds a number that is not an integer."""


def _a_float(_text: str) -> Any:
    raise _Float


_plain_decoder = msgspec.json.Decoder(float_hook=_a_float)
_plain_encoder = msgspec.json.Encoder()
_sorted_encoder = msgspec.json.Encoder(order="sorted")
_DIGITS = bytes(ord("0") if chr(byte).isdecimal() and byte < 128 else ord(" ") for byte in range(256))
"""Maps every digit to 0 and every other byte to a blank."""
_LONG_NUMBER = b"0" * 16
"""What such a map shows of digits that may be an integer beyond 2^53. It finds them in a fraction of the time that an
expression takes."""


def _plain(raw: bytes) -> Any:
    """Parse a body that is encoded as this gateway would encode it: then it has no duplicate key, every string is
    complete, and the other requirements of I-JSON show in its bytes. None if it is not, or is `null`: then it is parsed
    carefully."""
    if raw.count(b"{") + raw.count(b"[") > MAX_JSON_DEPTH or _LONG_NUMBER in raw.translate(_DIGITS):
        return None
    try:
        value = _plain_decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, _Float):
        return None
    return value if _plain_encoder.encode(value) == raw else None


def _with_care(raw: bytes) -> Any:
    try:
        value = json.loads(raw.decode("utf-8"), object_pairs_hook=_object)
    except UnicodeDecodeError as error:
        raise _invalid(Place("", f"not UTF-8 at byte {error.start}")) from None
    except json.JSONDecodeError as error:
        raise _invalid(Place("", f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}")) from None
    except RecursionError:
        raise _invalid(_too_deep("")) from None
    except ValueError:
        # Python refuses to convert integers of thousands of digits.
        raise _invalid(Place("", "an integer beyond 2^53")) from None
    faults = _faults(value)
    if faults:
        raise _invalid(*faults)
    return value


def _object(pairs: list[tuple[str, Any]]) -> Any:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            return _Twice(key)
        seen.add(key)
    return found


def _faults(top: Any) -> list[Place]:
    """Walk a value without recursion and return what I-JSON does not allow."""
    faults: list[Place] = []
    waiting: list[tuple[Any, str, int]] = [(top, "", 0)]
    while waiting and len(faults) < MAX_ERRORS:
        value, pointer, depth = waiting.pop()
        if isinstance(value, _Twice):
            faults.append(Place(f"{pointer}/{_escaped(value.key)}", "the key appears twice"))
        elif isinstance(value, str):
            if not _is_text(value):
                faults.append(Place(pointer, "half of a surrogate pair"))
        elif isinstance(value, bool):
            continue
        elif isinstance(value, int):
            if abs(value) > MAX_SAFE_INTEGER:
                faults.append(Place(pointer, "an integer beyond 2^53"))
        elif isinstance(value, float):
            if not math.isfinite(value):
                faults.append(Place(pointer, "a number that is not finite"))
        elif isinstance(value, dict | list):
            if depth >= MAX_JSON_DEPTH:
                faults.append(_too_deep(pointer))
                continue
            members = cast("dict[str, Any]", value).items() if isinstance(value, dict) else enumerate(
                cast("list[Any]", value))
            for key, member in members:
                if isinstance(key, str) and not _is_text(key):
                    faults.append(Place(pointer, "a key with half of a surrogate pair"))
                    continue
                waiting.append((member, f"{pointer}/{_escaped(str(key))}", depth + 1))
    return faults


def _too_deep(pointer: str) -> Place:
    return Place(pointer, f"nested deeper than {MAX_JSON_DEPTH}")


def _is_text(value: str) -> bool:
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _invalid(*places: Place) -> Problem:
    first = places[0]
    where = f" at {first.pointer}" if first.pointer else ""
    return Problem("InvalidPayload", f"The body is not taken: {first.detail}{where}.", errors=places)


_STEP = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")
_MISSING = re.compile(r"Object missing required field `(.*)`")


def typed(decoder: msgspec.json.Decoder[Any], raw: bytes) -> Any:
    """Decode a body that `read_json` has accepted. Raises Problem InvalidPayload with the place as a JSON pointer."""
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return _typed_whole(decoder, raw)


def _typed_whole(decoder: msgspec.json.Decoder[Any], raw: bytes) -> Any:
    """Decode a body that may write integers as floats."""
    try:
        return decode_whole(decoder.decode, raw)
    except msgspec.ValidationError as error:
        sentence, _, path = str(error).partition(" - at ")
        raise _refused(sentence, pointer_of(path.strip("`")), decoder.type) from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise _invalid(Place("", str(error))) from None


def pointer_of(path: str) -> str:
    """Write msgspec's `$.a[0].b` as the JSON pointer `/a/0/b`."""
    return "".join("/" + _escaped(name or index) for name, index in _STEP.findall(path.removeprefix("$")))


def _refused(sentence: str, pointer: str, kind: Any) -> Problem:
    hint = None
    if unknown := _UNKNOWN.fullmatch(sentence):
        pointer += "/" + _escaped(unknown[1])
        near = difflib.get_close_matches(unknown[1], sorted(_names(kind)), 1)
        sentence = "is not a known field"
        hint = f"Did you mean `{near[0]}`?" if near else None
    elif missing := _MISSING.fullmatch(sentence):
        pointer += "/" + _escaped(missing[1])
        sentence = "is missing"
    where = f" at {pointer}" if pointer else ""
    return Problem("InvalidPayload", f"The body is invalid{where}: {sentence}.",
                   errors=(Place(pointer, sentence),), hint=hint)


def _names(kind: Any) -> set[str]:
    """Collect the field names of a struct and of the structs inside it."""
    schema = msgspec.json.schema_components([kind])[1]
    return {name for part in schema.values() for name in part.get("properties", {})}
