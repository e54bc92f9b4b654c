"""Conversion of texts for PostgreSQL, which stores every character but NUL."""

from __future__ import annotations

from collections.abc import Iterable

from interlock.ports.ledger import LaneName

NUL = "\0"
_ESCAPE = "\U0010fffe"
"""A code point without a character, which no text should contain; a text that has it nevertheless is restored
correctly."""


def encoded(text: str) -> str:
    """Encode a text so that PostgreSQL can store it."""
    if NUL in text or _ESCAPE in text:
        return text.replace(_ESCAPE, _ESCAPE + "1").replace(NUL, _ESCAPE + "0")
    return text


def decoded(text: str) -> str:
    """Decode a result of `encoded`."""
    return text.replace(_ESCAPE + "0", NUL).replace(_ESCAPE + "1", _ESCAPE) if _ESCAPE in text else text


def encoded_lane(lane: LaneName) -> LaneName:
    """Encode a lane's tenant and name as `encoded` does."""
    return LaneName(encoded(lane.tenant_id), encoded(lane.name))


def lane_columns(lanes: Iterable[LaneName]) -> tuple[list[str], list[str]]:
    """Return the tenants and the names of lanes, in the same order, as statements take them."""
    named = list(lanes)
    return [lane.tenant_id for lane in named], [lane.name for lane in named]
