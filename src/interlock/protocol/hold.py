"""How an agent is held, in one word, and the evidence for it (H-10): in hello, in sessions, on approvals, in audit."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Literal

import msgspec

Held = Literal["asks", "box", "command", "none"]
MEANINGS: Mapping[Held, str] = {
    "asks": "each tool call is held",
    "box": "walls of the runner hold it",
    "command": "the whole command is held",
    "none": "nothing is held",
}
"""The words, and the sentence for each."""
PROGRAM, BELOW = "program", "below"
"""The tool that a held program's start is shown as, and the option by which it may start any program (H-16)."""
PROGRAMS_HELD = "each program that it starts is held"
NOT_CHECKED = "not checked"
CHANGED = "changed since its check"
CHECKING = "being checked"
INCONCLUSIVE = "its check saw nothing run unasked, and did not see it ask"
READS_UNASKED = "except for shell commands that it takes for reading"
MAX_WHY_CHARS = 200
PHRASES_KEPT = 256
"""Cached phrases: every command's audit record has one, and agents are held in few ways."""


class Holding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The word, and its evidence: `why` in a few words, and the check's version and time (ISO 8601, UTC)."""

    held: Held
    why: str = ""
    version: str | None = None
    checked: str | None = None


@lru_cache(PHRASES_KEPT)
def phrase(holding: Holding) -> str:
    """Return one line: `asks (checked 2026-11-22, v1.52.0)`, `command (not checked)`, `none (rule let-it)`."""
    rests_on = [holding.why[:MAX_WHY_CHARS]] if holding.why else []
    if holding.checked:
        rests_on.append(f"checked {holding.checked[:10]}")
    if holding.version:
        rests_on.append(f"v{holding.version[:MAX_WHY_CHARS].removeprefix('v')}")
    return f"{holding.held} ({', '.join(rests_on)})" if rests_on else holding.held
