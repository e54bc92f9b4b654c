"""Common parts of all forms of an answer, read from a stream of server-sent events."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from interlock.model_stand_in.answers import ModelAnswer, ModelCall
from interlock.model_stand_in.pieces import StreamPiece

CALLS = (ModelCall("shell", '{"command":"ls"}'), ModelCall("shell", '{"command":"pwd"}'))
CALLING = ModelAnswer(("one ", "two"), CALLS, thinking="hm", tokens=7)
PLAIN = ModelAnswer(("one ", "two"))


def events(pieces: Iterable[StreamPiece]) -> list[Any]:
    """The JSON of each event; `[DONE]` as that word."""
    text = b"".join(piece.data for piece in pieces).decode()
    data = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [one if one == "[DONE]" else json.loads(one) for one in data]


def delays(pieces: Iterable[StreamPiece]) -> int:
    """How many of the pieces a delay precedes."""
    return sum(piece.after_delay for piece in pieces)
