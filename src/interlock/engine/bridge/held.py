"""What a lane takes its agent for (H-11, H-12, H-18): these functions alone write it."""

from __future__ import annotations

from interlock.engine.bridge.lane_state import LaneState
from interlock.protocol.box import Box
from interlock.protocol.payloads import AgentOffer


def take_offer(state: LaneState, offer: AgentOffer) -> None:
    """Take over what the runner says of an agent that is not open, for its next opening."""
    state.permission, state.trusted_kinds = "never" if state.fell else offer.permission, offer.trusted_kinds
    state.holding, state.offered_box = offer.holding, offer.box


def take_asking(state: LaneState, *, asks: bool) -> bool:
    """Take over whether the agent says that it asks; returns whether it is taken to ask."""
    state.permission = "asks" if asks and not state.fell else "never"
    return state.permission == "asks"


def take_box(state: LaneState, box: Box | None) -> None:
    """Take over the box that the runner has stated of this opening; None without one, or after its end."""
    state.box = box


def has_fallen(state: LaneState) -> None:
    """Believe no more in this session that its agent asks (H-12)."""
    state.permission, state.fell = "never", True


def distrust(state: LaneState) -> None:
    """Forget all that speaks for the agent: its stored state was changed by hand (H-5)."""
    state.permission, state.trusted_kinds, state.fell = "never", False, True
    state.box = state.offered_box = state.holding = None
