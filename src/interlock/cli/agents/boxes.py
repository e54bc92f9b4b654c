"""Descriptions of the boxes that runners start agents in (H-18)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from interlock.cli.display.terminal import one_line
from interlock.protocol.box import Box
from interlock.protocol.box import phrase as phrase_box


def box_of(offered: Mapping[str, Any]) -> Box | None:
    """Return the box that a runner reports for starting an agent."""
    return msgspec.convert(offered.get("box"), Box | None)


def boxed(offered: Mapping[str, Any]) -> str:
    """Describe an agent's box on one line (H-18)."""
    box = box_of(offered)
    return "not stated by its runner" if box is None else one_line(phrase_box(box), None)


def boxes(offered: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return one line for each box that agents have, with their names; none for agents without walls (H-18)."""
    found: dict[str, list[str]] = {}
    for one in offered:
        box = box_of(one)
        if box is not None and box.walls != "none":
            found.setdefault(boxed(one), []).append(one_line(str(one.get("agent_id", ""))))
    return [f"{', '.join(names)} {held}; the state directory is hidden" for held, names in found.items()]


def unwalled(offered: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return one sentence for each reason why agents have no walls (H-15)."""
    reasons: dict[str, list[str]] = {}
    for one in offered:
        if (box := box_of(one)) is not None and box.walls == "none":
            why = one_line(str(one.get("unwalled") or "its runner does not tell why"), 300)
            reasons.setdefault(why, []).append(one_line(str(one.get("agent_id", ""))))
    return [f"no walls around {', '.join(names)}, which can read the keys of this state directory: {why}"
            for why, names in reasons.items()]
