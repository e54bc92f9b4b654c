"""The conditions of a decision besides the lane and its inputs: instants, policy, and reasons not to start work."""

from __future__ import annotations

from typing import NamedTuple

from interlock.command.policy.policy import RuleSet
from interlock.protocol.payloads import AgentOffer

NO_RULES = RuleSet()


class Conditions(NamedTuple):
    """The conditions of one decision, as data."""

    now_ms: int
    """By the deadline clock."""
    wall_ms: int
    """Wall-clock time: shown to people, and compared with policy's hours and with signatures."""
    policy: RuleSet = NO_RULES
    draining: bool = False
    """Whether waiting work must not start (C-5)."""
    unsigned: str | None = None
    """Why the tenant's audit log cannot be signed, so that nothing new is accepted (U-3)."""
    offer: AgentOffer | None = None
    """The current offer of the session's runner for its agent."""
