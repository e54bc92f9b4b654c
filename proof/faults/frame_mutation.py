"""Malformed frames, made from sound ones: seeded, so that a run can be repeated. Pure."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from random import Random
from typing import Any, cast

ODD: tuple[Any, ...] = (  # pyright: ignore[reportUnknownVariableType] - empty lists and dicts
    None, True, False, 0, -1, 1.5, 2**31, 2**53 + 1, 2**63, 2**64, -(2**63), 1e308, "", " ", "x" * 5_000, "\u0000",
    "\ud800", "\u202e", "../../etc/passwd", "' OR 1=1 --", "{}", [], {}, [[]], [None], {"": None},
    {"type": "session.history"}, [{"a": [{"b": {}}]}] * 3,
)
"""Values that replace others."""
RAW: tuple[bytes, ...] = (b"NaN", b"Infinity", b"1e999", b"-0", b"[" * 2_000 + b"]" * 2_000, b'"\\ud800"', b"007")
"""What no encoder of ours would write."""
Frame = dict[str, Any]


def mutate(frame: Frame, draw: Random) -> bytes:
    """Change a frame once or a few times: its values, its fields, or its bytes."""
    mutated = copy.deepcopy(frame)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        draw.choice((_replace, _replace, _remove, _add, _rename, _swap))(mutated, draw)
    raw = json.dumps(mutated).encode()
    kind = draw.random()
    if kind < 0.05:
        return _bytes(raw, draw)
    if kind < 0.1:
        return _literal(mutated, draw)
    if kind < 0.15:
        return raw[:1] + b'"type":"agent.text.done",' + raw[1:]  # A key twice.
    return raw


def _places(value: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Every (container, key) of a document."""
    items: Iterable[tuple[Any, Any]] = (
        cast("Frame", value).items() if isinstance(value, dict)
        else enumerate(cast("list[Any]", value)) if isinstance(value, list) else ())
    for key, inner in items:
        found.append((cast("Any", value), key))
        _places(inner, found)
    return found


def _replace(frame: Frame, draw: Random) -> None:
    container, key = draw.choice(_places(frame, []) or [(frame, "type")])
    container[key] = copy.deepcopy(draw.choice(ODD))


def _remove(frame: Frame, draw: Random) -> None:
    places = _places(frame, [])
    if places:
        container, key = draw.choice(places)
        del container[key]


def _add(frame: Frame, draw: Random) -> None:
    containers: list[Frame] = [frame, *(
        inner for container, key in _places(frame, []) if isinstance(inner := container[key], dict))]
    draw.choice(containers)[draw.choice(("extra", "seq", "session_id", "metadata", "offset", ""))] = copy.deepcopy(
        draw.choice(ODD))


def _rename(frame: Frame, draw: Random) -> None:
    if not frame:
        return
    key = draw.choice(list(frame))
    frame[key.upper()] = frame.pop(key)


def _swap(frame: Frame, draw: Random) -> None:
    places = _places(frame, [])
    if len(places) < 2:
        return
    (one, first), (other, second) = draw.sample(places, 2)
    there = isinstance(other, list) or second in other
    before: Any = copy.deepcopy(cast("Any", other)[second]) if there else None
    one[first] = before


def _bytes(raw: bytes, draw: Random) -> bytes:
    """Flip, cut or insert; what comes is text all the same, as a WebSocket's text message must be."""
    mutated = bytearray(raw)
    at = draw.randrange(len(mutated))
    match draw.randrange(3):
        case 0:
            mutated[at] = draw.randrange(0x20, 0x7F)
        case 1:
            del mutated[at:]
        case _:
            mutated[at:at] = draw.choice((b"\x00", b"}", b"]", b'"', b"\\", b",,"))
    return bytes(mutated)


def _literal(frame: Frame, draw: Random) -> bytes:
    """A value that is not JSON, or hardly any, in the place of another."""
    container, key = draw.choice(_places(frame, []) or [(frame, "type")])
    container[key] = "@literal@"
    return json.dumps(frame).encode().replace(b'"@literal@"', draw.choice(RAW))
