"""Texts as PostgreSQL can hold them: all but the character NUL, which a person or a program may well have written."""

from __future__ import annotations

from collections.abc import Iterable

from interlock.ports.ledger import LaneName

NUL = "\0"
_ESCAPE = "\U0010fffe"
"""Stands for no character, so that no text has it; one that has it all the same comes back as it was."""


def held(text: str) -> str:
    """Write a text so that PostgreSQL can hold it."""
    if NUL in text or _ESCAPE in text:
        return text.replace(_ESCAPE, _ESCAPE + "1").replace(NUL, _ESCAPE + "0")
    return text


def given(text: str) -> str:
    """Read what `held` wrote."""
    return text.replace(_ESCAPE + "0", NUL).replace(_ESCAPE + "1", _ESCAPE) if _ESCAPE in text else text


def held_lane(lane: LaneName) -> LaneName:
    """Write a lane's tenant and name as `held` does."""
    return LaneName(held(lane.tenant_id), held(lane.name))


def lane_columns(lanes: Iterable[LaneName]) -> tuple[list[str], list[str]]:
    """Return the tenants and the names of lanes, in the same order, as statements take them."""
    named = list(lanes)
    return [lane.tenant_id for lane in named], [lane.name for lane in named]
