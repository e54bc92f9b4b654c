"""The size of a text on the wire: every bound of E-5 is counted as encoded JSON."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

_encode = msgspec.json.Encoder().encode


def json_size(text: str) -> int:
    """Count the bytes of `text` inside a JSON string, without its quotes."""
    return len(_encode(text)) - 2


class Sized(NamedTuple):
    """A text and its `json_size`, counted once."""

    text: str
    size: int


def split_sized(text: str, max_bytes: int) -> list[Sized]:
    """Split `text` into neighbours of at most `max_bytes` each as encoded JSON; a code point is never split."""
    pieces: list[Sized] = []
    at = 0
    while True:
        # No code point takes less than one byte, so a longer piece cannot fit; one that is too large is cut in
        # proportion, which nearly always fits at the second attempt.
        piece = text[at : at + max_bytes]
        while (size := json_size(piece)) > max_bytes and len(piece) > 1:
            piece = piece[: min(len(piece) - 1, max(1, len(piece) * max_bytes // size))]
        pieces.append(Sized(piece, size))
        at += len(piece)
        if at >= len(text):
            return pieces


def split_text(text: str, max_bytes: int) -> list[str]:
    """Do what `split_sized` does, without the sizes."""
    return [piece.text for piece in split_sized(text, max_bytes)]
