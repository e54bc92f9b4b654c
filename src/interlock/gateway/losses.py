"""Why frames were lost, in words for people (D-3, D-5)."""

from __future__ import annotations

from interlock.engine.bridge.losses import FULL
from interlock.protocol.envelope import Frame

LOSSES = {"RING": FULL, "DROP": FULL, "NONE": "this session is not buffered"}
"""By the policy that was applied (D-3)."""
PLACE_LOST = {
    "bytes": "this gateway, which observes, was behind by more than the runner's buffer holds",
    "absent": "this gateway, which observes, was away for more than a day",
    "joined": "this gateway joined the session when they were no longer kept",
}
"""By the history's `metadata.place_lost`: why an observer has a hole (D-5)."""


def why_lost(history: Frame) -> str:
    """Say why a history's frames are lost."""
    place = history.metadata.get("place_lost")
    policy = history.payload.buffer_status.policy_applied
    return PLACE_LOST.get(place if isinstance(place, str) else "", LOSSES[policy])
