"""A tenant's house: the lane of requests that concern no session, such as the drain of a runner.

It holds approvals and nothing else. It has no row among the sessions: it is made again from what the ledger keeps of
it.
"""

from __future__ import annotations

from interlock.engine.bridge.lane_state import LaneState

_PREFIX = "house:"


def house_id(tenant_id: str) -> str:
    """The name under which a tenant's house stands where a session's id does otherwise."""
    return _PREFIX + tenant_id


def is_house(session_id: str) -> bool:
    """Whether this is a house, and no session."""
    return session_id.startswith(_PREFIX)


def house_state(session_id: str, now_ms: int) -> LaneState:
    """A house's state, which never changes."""
    return LaneState(session_id=session_id, tenant_id=session_id.removeprefix(_PREFIX), session_key="", agent_id="",
                     runner_id="", workspace="", permission="asks", created_ms=now_ms)
