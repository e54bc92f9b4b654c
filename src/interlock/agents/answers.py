"""Match a person's words to the choices of a question. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

_LISTS = re.compile(r"\s*[,;\n]\s*")


def picked(text: str, labels: Sequence[str]) -> int | None:
    """Return the index of the choice that the words name: by its label, in any case, else by its number from 1."""
    words = text.strip().casefold()
    found = next((index for index, label in enumerate(labels) if label.strip().casefold() == words), None)
    if found is None and words.isdecimal() and 1 <= int(words) <= len(labels):
        return int(words) - 1
    return found


def picked_several(text: str, labels: Sequence[str]) -> tuple[list[int], list[str]]:
    """Return the choices in a list, separated by commas or as a JSON array, each once; and the parts that match none.
    """
    one = picked(text, labels)
    if one is not None:
        return [one], []
    found: list[int] = []
    rest: list[str] = []
    for part in _parts(text):
        index = picked(part, labels)
        if index is None:
            rest.append(part)
        elif index not in found:
            found.append(index)
    return found, rest


def _parts(text: str) -> list[str]:
    try:
        return msgspec.json.decode(text, type=list[str])
    except msgspec.MsgspecError:
        return [part for part in _LISTS.split(text.strip()) if part]
