"""Frames of RAWP-DPS 7 and 17 compared with their own tables: wrong or missing fields are refused with their place."""

from __future__ import annotations

import copy
import json
from typing import Any, NamedTuple

import pytest

from interlock.protocol.frames import FRAMES, Class, Direction, InvalidFrame, decode

UUID = "7d444840-9dc0-41d5-bff0-12c3f7b6a5e1"
TEXTS = [1, True, None, [], {}]
NUMBERS = ["1", True, None, [], {}]
COUNTS = [*NUMBERS, -1, 1.5, 2**64 - 1, 1e300]
FLAGS = ["true", 1, 0, None, [], {}]
TEXT_LISTS = ["x", 1, {}, [1], [None], [["x"]]]


class Seed(NamedTuple):
    """A frame of the seeds: its sender, a payload with every field, and by field the refused values. Fields in
    `optional` may be absent; all others must be there."""

    sender: str
    payload: dict[str, Any]
    wrong: dict[str, list[Any]]
    optional: frozenset[str] = frozenset()

    @property
    def senders(self) -> list[Direction]:
        return [Direction.C, Direction.M] if self.sender == "both" else [Direction[self.sender]]

    def changed(self, field: str, *value: Any) -> Any:
        """Return the payload with a field of another value, or, without a value, absent."""
        payload = copy.deepcopy(self.payload)
        *path, last = field.split(".")
        inner = payload
        for name in path:
            inner = inner[name]
        if value:
            inner[last] = value[0]
        else:
            del inner[last]
        return payload


def words(*values: str) -> list[Any]:
    """Values that an enumeration refuses: other types, another case, another value."""
    return [*TEXTS, "", "x", values[0].swapcase(), values[0] + " "]


def fields(seeds: dict[str, Seed], wrong: list[Any] | None = None) -> list[tuple[str, str]]:
    """Every field of the seeds that has a table of what it refuses; with `wrong` those that refuse just that."""
    return [(kind, field) for kind, seed in seeds.items() for field, refused in seed.wrong.items()
            if wrong is None or refused is wrong]


def framed(kind: str, payload: Any) -> bytes:
    numbered = {"seq": 1} if FRAMES[kind].frame_class is Class.DURABLE else {}
    return json.dumps({"type": kind, "payload": payload, "message_id": "m", "session_id": UUID, "timestamp": "",
                       **numbered}).encode()


def check_sender(kind: str, seed: Seed) -> None:
    """A frame is accepted from the side that sends it, and from no other; unknown fields are ignored (E-1)."""
    raw = framed(kind, seed.payload)
    for direction in (Direction.C, Direction.M):
        if direction in seed.senders:
            assert decode(raw, direction).type == kind
            decode(framed(kind, {**seed.payload, "x_new": [1.0]}), direction)
        else:
            with pytest.raises(InvalidFrame, match="direction"):
                decode(raw, direction)


def check_field(kind: str, seed: Seed, field: str) -> None:
    """A field is refused by its place if it is wrong, or missing and not optional."""
    for direction in seed.senders:
        for wrong in seed.wrong[field]:
            if wrong is None and field in seed.optional:
                continue
            with pytest.raises(InvalidFrame) as caught:
                decode(framed(kind, seed.changed(field, wrong)), direction)
            assert caught.value.path.startswith(f"$.payload.{field}"), wrong
        if field in seed.optional:
            decode(framed(kind, seed.changed(field)), direction)
            continue
        with pytest.raises(InvalidFrame, match="missing") as caught:
            decode(framed(kind, seed.changed(field)), direction)
        assert caught.value.path == f"$.payload.{field}"


def check_words(kind: str, seed: Seed, field: str, accepted: list[str]) -> None:
    """Each word of an enumeration is accepted."""
    for word in accepted:
        assert decode(framed(kind, seed.changed(field, word)), seed.senders[0]).type == kind


def check_integral_float(kind: str, seed: Seed, field: str, written: str) -> None:
    """A count that is written with a fraction of zero is that integer."""
    raw = framed(kind, seed.changed(field, "HERE")).replace(b'"HERE"', written.encode())
    found: Any = decode(raw, seed.senders[0]).payload
    for name in field.split("."):
        found = getattr(found, name)
    assert (type(found), found) == (int, int(float(written)))
