"""Pure: a step of a plan in an agent's words, as a frame has it (J-14)."""

from __future__ import annotations

from typing import Any

from interlock.protocol.payloads import PlanStep


def plan_step(content: Any, status: Any, priority: Any = None) -> PlanStep:
    """Read a step as tolerantly as agents are different: a status that is not known is one that has not begun."""
    text = content if isinstance(content, str) else ""
    rank = priority if priority in ("high", "medium", "low") else None
    if status == "completed":
        return PlanStep(content=text, status="completed", priority=rank)
    return PlanStep(content=text, status="in_progress" if status == "in_progress" else "pending", priority=rank)
