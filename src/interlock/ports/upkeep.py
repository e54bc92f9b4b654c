"""Maintenance of a ledger: how much it stores, and deletion of old data (G-5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from interlock.protocol.records import SessionRecord


class Counts(NamedTuple):
    """Numbers of stored rows, of all tenants together."""

    commands: Mapping[str, int]
    """By state, of commands that are not in a terminal state."""
    approvals: Mapping[str, int]
    """By state, `pending` and `granted`."""
    deliveries: Mapping[str, int]
    """By state, `pending` and `dead`."""
    sessions: int


class PrunedRows(NamedTuple):
    """How many rows were deleted, or would be."""

    events: int = 0
    files: int = 0
    controls: int = 0

    def __add__(self, other: object) -> PrunedRows:
        """Add part by part."""
        assert isinstance(other, PrunedRows)
        return PrunedRows(self.events + other.events, self.files + other.files, self.controls + other.controls)


class Upkeep(Protocol):
    """In addition to the guarantees of the ledger: no call blocks its writer for long. Age is checked again in the
    transaction that deletes, so a session that has just received a new turn keeps its data.

    A session is old at an instant if its last command had ended before it and no work is under way; a session without
    commands, if nothing had changed in it since. Its row, commands, approvals and audit records stay.
    """

    async def counts(self) -> Counts: ...

    async def old_sessions(self, tenant_id: str, before_ms: int, after: str, limit: int) -> list[str]:
        """Return a tenant's old sessions that still have something to delete, by id, those after one."""
        ...

    async def would_forget(self, tenant_id: str, session_id: str) -> PrunedRows:
        """Return what `forget_session` would delete of it."""
        ...

    async def forget_session(self, tenant_id: str, session_id: str, before_ms: int) -> PrunedRows:
        """Delete the events of a tenant's old session and of its commands, the names of its files, and control frames
        that its runner has confirmed. Does nothing if it is not old. Numbers are never reused."""
        ...

    async def forget_feed(self, tenant_id: str, before_ms: int, *, dry: bool = False) -> int:
        """Delete the beginning of a tenant's feed up to an instant; with `dry` only count it."""
        ...

    async def forget_deliveries(self, tenant_id: str, before_ms: int, *, dry: bool = False) -> int:
        """Delete notices to approvers that have ended and were created before an instant; with `dry` only count
        them."""
        ...

    async def current_sessions(self, tenant_id: str, agent_id: str, after: str, limit: int) -> list[SessionRecord]:
        """Return the newest session of each key of an agent, by key, those after one (N-1)."""
        ...

    async def named_objects(self) -> set[str]:
        """Return every object that a session's file or a transfer under way refers to."""
        ...
