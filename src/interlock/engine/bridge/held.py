"""How a session's agent is held now, as the session, its approvals and the audit log name it (H-10), and what it is
taken for (H-11, H-12, H-18)."""

from __future__ import annotations

import msgspec

from interlock.engine.bridge.lane_state import LaneState
from interlock.protocol.box import Box, is_closed
from interlock.protocol.hold import PROGRAMS_HELD, Holding
from interlock.protocol.payloads import AgentOffer

UNASKED = "it used a tool without a yes"
OPEN_MODE = "it does not ask in the mode that it is in"


def stated_box(state: LaneState) -> Box | None:
    """Return the box that the runner has stated of the opening that is open now; None without such a statement."""
    return state.box if state.opening == "open" else None


def expected_box(state: LaneState) -> Box | None:
    """Return the stated box of an open agent, else the one that its runner offers to start it in."""
    return state.box if state.opening == "open" else state.offered_box


def holding_now(state: LaneState) -> Holding:
    """What is known to hold the session's tools: what its runner says, unless the session has seen worse."""
    box = stated_box(state) or state.offered_box
    if box is not None and box.walls != "none" and box.programs:
        return Holding(held="box", why=PROGRAMS_HELD)  # The kernel holds them, whatever it asks.
    if state.permission == "asks":
        return state.holding if state.holding is not None and state.holding.held != "command" else Holding(held="asks")
    if state.let_through and is_closed(box):
        return Holding(held="box", why=f"rule {state.let_through}")
    if state.let_through:
        return Holding(held="none", why=f"rule {state.let_through}")
    if state.fell:
        return Holding(held="command", why=UNASKED)
    if state.holding is None or state.holding.held == "command":
        return state.holding or Holding(held="command")
    return msgspec.structs.replace(state.holding, held="command", why=OPEN_MODE)


# --- what the lane takes an agent for: these alone write it ---
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
