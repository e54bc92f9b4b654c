"""What only the gateway in control of a session may do, and how it gives control away (D-5)."""

from __future__ import annotations

from interlock.engine.bridge.lane import Lane
from interlock.protocol import payloads as p
from interlock.protocol.problems import Problem


def check_controlled(lane: Lane) -> None:
    """Raises Problem Conflict where another gateway controls the session: it says which."""
    if lane.state.controller:
        session_id = lane.state.session_id
        raise Problem("Conflict", f"gateway {lane.state.controller} controls session {session_id}; "
                      "this one only observes it",
                      hint=f"Ask it there, or take control on the runner's host: interlock runner take {session_id} "
                           f"--to {lane.gateway_id}. To put it away here: interlock sessions archive {session_id}")


def release_session(lane: Lane, who: dict[str, str], to: str) -> None:
    """Ask the runner to hand control to another gateway; it tells when it has (D-5). Raises Problem."""
    check_controlled(lane)
    if to == lane.gateway_id:
        raise Problem("Conflict", f"gateway {to} is this one, and controls the session already")
    lane.control("control.session.release", p.SessionRelease(to=to))
    lane.audit("session_reset", who, {"reason": "release", "to": to})
