"""What a lane assumes about its agent: its restrictions, which only these functions write, and who owns its context
(H-11, H-12, H-18, B-1)."""

from __future__ import annotations

from interlock.engine.bridge.lane_state import LaneState
from interlock.protocol.box import Box
from interlock.protocol.payloads import AgentOffer


def take_offer(state: LaneState, offer: AgentOffer) -> None:
    """Store the runner's offer for an agent that is not open, for its next opening."""
    state.permission, state.trusted_kinds = "never" if state.fell else offer.permission, offer.trusted_kinds
    state.holding, state.offered_box = offer.holding, offer.box
    state.context.owner = offer.context_owner


def take_asking(state: LaneState, *, asks: bool) -> bool:
    """Store whether the agent reports that it asks; returns whether it is assumed to ask."""
    state.permission = "asks" if asks and not state.fell else "never"
    return state.permission == "asks"


def take_box(state: LaneState, box: Box | None) -> None:
    """Store the box that the runner reported for this opening; None without one, or after its end."""
    state.box = box


def has_fallen(state: LaneState) -> None:
    """Stop assuming in this session that its agent asks (H-12)."""
    state.permission, state.fell = "never", True


def distrust(state: LaneState) -> None:
    """Forget everything in the agent's favour: its stored state was changed by hand (H-5)."""
    state.permission, state.trusted_kinds, state.fell = "never", False, True
    state.box = state.offered_box = state.holding = None
