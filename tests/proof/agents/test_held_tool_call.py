"""A third-party agent is held at one tool call, for a short time."""

from __future__ import annotations

import pytest

from agents.third_party import ThirdParty
from proof.agents.held_tool_call import hold_once, met

pytestmark = pytest.mark.long

HOLD_S = 2.0


@pytest.mark.on_cluster
@pytest.mark.req("A-5", "P-6", "A-7")
@pytest.mark.parametrize("decision", ["grant", "deny"])
def test_a_real_agent_is_held_at_a_tool_call(goose: ThirdParty, decision: str) -> None:
    seen = hold_once(goose.command, HOLD_S, decision)

    assert met(seen, decision), seen
