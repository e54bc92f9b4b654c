"""A drain as `status`, `drain` and `doctor` show it (C-6)."""

from __future__ import annotations

from interlock.cli.display.terminal import one_line
from interlock.cli.display.values import ago
from interlock.protocol.drains import Drain


def drained(one: Drain) -> str:
    """Return scope, age, author and reason."""
    why = f" · {one_line(one.reason, 120)}" if one.reason else ""
    what = f"{one.scope} {one_line(one.id, 80)}" if one.id else one.scope
    return f"draining {what} · began {ago(one.at)} · by {one_line(one.by, 80)}{why}"
