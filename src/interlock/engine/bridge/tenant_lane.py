"""A tenant's own lane, for requests that concern no session, such as the drain of a runner.

It holds approvals only. It has no session row: it is rebuilt from the ledger's approvals.
"""

from __future__ import annotations

from interlock.engine.bridge.lane_state import LaneState

_PREFIX = "house:"


def tenant_lane_id(tenant_id: str) -> str:
    """Return the name of a tenant's lane, used instead of a session's id."""
    return _PREFIX + tenant_id


def is_tenant_lane(session_id: str) -> bool:
    """Return whether this is a tenant's lane, not a session."""
    return session_id.startswith(_PREFIX)


def tenant_lane_state(session_id: str, now_ms: int) -> LaneState:
    """Return the state of a tenant's lane, which never changes."""
    return LaneState(session_id=session_id, tenant_id=session_id.removeprefix(_PREFIX), session_key="", agent_id="",
                     runner_id="", workspace="", permission="asks", created_ms=now_ms)
