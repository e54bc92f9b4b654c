"""What a decision goes by beside the lane and its inputs: instants, policy, and what keeps work from starting."""

from __future__ import annotations

from typing import NamedTuple

from interlock.command.policy import RuleSet
from interlock.protocol.payloads import AgentOffer

NO_RULES = RuleSet()


class Conditions(NamedTuple):
    """The circumstances of one decision, as data."""

    now_ms: int
    """On the line that clocks run by."""
    wall_ms: int
    """What is shown, and what policy's hours and signatures are held against."""
    policy: RuleSet = NO_RULES
    draining: bool = False
    """Whether what waits is kept from starting (C-5)."""
    unsigned: str | None = None
    """Why the tenant's audit log cannot be signed, so that nothing new is accepted (U-3)."""
    offer: AgentOffer | None = None
    """What the session's runner says of its agent now."""
