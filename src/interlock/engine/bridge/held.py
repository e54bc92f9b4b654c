"""How a session's agent is held now, as the session, its approvals and the audit log name it (H-10)."""

from __future__ import annotations

import msgspec

from interlock.engine.bridge.lane_state import LaneState
from interlock.protocol.box import Box, is_closed
from interlock.protocol.hold import PROGRAMS_HELD, Holding

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
