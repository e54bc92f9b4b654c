"""What operators ask of a ledger: how much is in it, and that it forgets what is old (G-5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from interlock.protocol.records import SessionRecord


class Counts(NamedTuple):
    """How much of what a ledger has now, of all tenants together."""

    commands: Mapping[str, int]
    """By state, those that are not at their end."""
    approvals: Mapping[str, int]
    """By state, `pending` and `granted`."""
    deliveries: Mapping[str, int]
    """By state, `pending` and `dead`."""
    sessions: int


class PrunedRows(NamedTuple):
    """How many rows were forgotten, or would be."""

    events: int = 0
    files: int = 0
    controls: int = 0

    def __add__(self, other: object) -> PrunedRows:
        """Add part by part."""
        assert isinstance(other, PrunedRows)
        return PrunedRows(self.events + other.events, self.files + other.files, self.controls + other.controls)


class Upkeep(Protocol):
    """Beside the guarantees of the ledger: none of this holds its writer for long. What is old is decided again in the
    transaction that forgets it, so a session whose next turn has just been asked for keeps what it has then.

    A session is old at an instant when its last command had ended before it and nothing of it goes on; one that has no
    commands, when nothing had changed in it since. Its row, its commands, approvals and audit records stay.
    """

    async def counts(self) -> Counts: ...

    async def old_sessions(self, tenant_id: str, before_ms: int, after: str, limit: int) -> list[str]:
        """Sessions of a tenant that are old and still hold something to forget, by their id, those after one."""
        ...

    async def would_forget(self, tenant_id: str, session_id: str) -> PrunedRows:
        """What `forget_session` would forget of it."""
        ...

    async def forget_session(self, tenant_id: str, session_id: str, before_ms: int) -> PrunedRows:
        """Forget the events of a tenant's old session and of its commands, the names of its files, and control frames
        that its runner has confirmed. Nothing where it is not old. Numbers are never given again."""
        ...

    async def forget_feed(self, tenant_id: str, before_ms: int, *, dry: bool = False) -> int:
        """Forget the beginning of a tenant's feed up to an instant; with `dry` only count it."""
        ...

    async def forget_deliveries(self, tenant_id: str, before_ms: int, *, dry: bool = False) -> int:
        """Forget questions to approvers that have ended and were made before an instant; with `dry` only count them."""
        ...

    async def current_sessions(self, tenant_id: str, agent_id: str, after: str, limit: int) -> list[SessionRecord]:
        """The newest session of each key of an agent, by their key, those after one (N-1)."""
        ...

    async def named_objects(self) -> set[str]:
        """Every object that a file of a session names, or one that is under way."""
        ...
