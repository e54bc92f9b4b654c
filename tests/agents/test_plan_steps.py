"""A step of a plan, as agents write it (J-14)."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.agents.plan_steps import plan_step
from interlock.protocol.payloads import PlanStep

pytestmark = pytest.mark.req("J-14")


@pytest.mark.parametrize(("written", "read"), [
    (("a", "completed", "high"), PlanStep(content="a", status="completed", priority="high")),
    (("a", "in_progress"), PlanStep(content="a", status="in_progress")),
    (("a", "blocked", "urgent"), PlanStep(content="a")),
    ((None, 7, ["high"]), PlanStep(content="")),
])
def test_an_unknown_status_does_not_lose_the_step(written: tuple[Any, ...], read: PlanStep) -> None:
    assert plan_step(*written) == read
