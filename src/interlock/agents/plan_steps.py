"""Convert a step of an agent's plan to the frame's format (J-14). Pure."""

from __future__ import annotations

from typing import Any

from interlock.protocol.payloads import PlanStep


def plan_step(content: Any, status: Any, priority: Any = None) -> PlanStep:
    """Convert a step tolerantly, since agents differ: an unknown status counts as not begun."""
    text = content if isinstance(content, str) else ""
    rank = priority if priority in ("high", "medium", "low") else None
    if status == "completed":
        return PlanStep(content=text, status="completed", priority=rank)
    return PlanStep(content=text, status="in_progress" if status == "in_progress" else "pending", priority=rank)
