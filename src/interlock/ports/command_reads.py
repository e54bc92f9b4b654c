"""Reads of sessions, commands, approvals and their files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from interlock.ports.stored_lanes import LaneReads
from interlock.ports.writes import LaneName
from interlock.protocol.records import ApprovalRecord, CommandRecord, FileRecord, IdempotencyRecord, SessionRecord


class Due(NamedTuple):
    """A session that has a deadline; `state` is its state in lists."""

    session_id: str
    deadline_ms: int
    state: str
    tenant_id: str

    @property
    def lane(self) -> LaneName:
        """Return the session's lane."""
        return LaneName(self.tenant_id, self.session_id)


class StoredBallot(NamedTuple):
    """What the ledger stores about an approval that is voted on."""

    approval: ApprovalRecord
    command: CommandRecord | None
    """The command that waits for this approval; None if it does not wait, or if the approval does not concern a
    command."""
    runner_id: str
    """The runner of its session; "" if it belongs to no session."""


class SessionFilter(NamedTuple):
    """A filter for lists of sessions; a field that is None matches all."""

    state: str | None = None
    agent_id: str | None = None
    runner_id: str | None = None
    workspace: str | None = None
    session_key: str | None = None
    session_ids: Sequence[str] | None = None


EVERY_SESSION = SessionFilter()


class CommandQuery(NamedTuple):
    """Filters of `GET /v1/commands`; newest first; `before` is the last id of the previous page."""

    tenant_id: str
    state: str | None = None
    agent_id: str | None = None
    session_id: str | None = None
    actor_id: str | None = None
    before: str | None = None
    limit: int = 100
    type: str | None = None


class CommandReads(LaneReads, Protocol):
    """Reads of sessions and commands. With `tenant_id`, rows of other tenants are excluded (K-1)."""

    async def session_by_key(self, tenant_id: str, session_key: str) -> SessionRecord | None:
        """Return the newest session of a key."""
        ...

    async def key_sessions(self, tenant_id: str, session_key: str, limit: int) -> list[SessionRecord]:
        """Return the sessions of a key, newest first (I-3)."""
        ...

    async def sessions(self, tenant_id: str, limit: int, before: tuple[int, str] | None = None,
                       only: SessionFilter = EVERY_SESSION) -> list[SessionRecord]:
        """Return sessions by newest activity, then by larger id; `before` is (updated_ms, session_id) of the previous
        page's last."""
        ...

    async def runner_sessions(self, runner_id: str, tenant_id: str) -> list[SessionRecord]:
        """Return a runner's sessions whose state is not "closed"."""
        ...

    async def due_sessions(self) -> list[Due]:
        """Return every session that has a deadline, the nearest first; used at the start."""
        ...

    async def command(self, command_id: str, tenant_id: str) -> CommandRecord | None: ...

    async def commands(self, query: CommandQuery) -> list[CommandRecord]: ...

    async def executes_since(self, tenant_id: str, actor_id: str | None, since_ms: int) -> int:
        """Return how many executes a tenant, or one of its actors, has submitted since an instant."""
        ...

    async def approval(self, approval_id: str, tenant_id: str) -> ApprovalRecord | None: ...

    async def ballot(self, approval_id: str, tenant_id: str) -> StoredBallot | None:
        """Return a tenant's approval with all that a vote on it needs. A networked store reads all in one round
        trip."""
        found = await self.approval(approval_id, tenant_id)
        if found is None:
            return None
        approval = found.approval
        command = await self.command(approval.command_id, tenant_id) if approval.command_id is not None else None
        session = await self.session(approval.session_id, tenant_id)
        waits = (command is not None and command.command.state == "pending_approval"
                 and command.session_id == approval.session_id)
        return StoredBallot(found, command if waits else None, session.runner_id if session is not None else "")

    async def approvals(self, tenant_id: str, state: str | None, before: str | None, limit: int
                        ) -> list[ApprovalRecord]:
        """Return approvals, newest first; `before` is the last id of the previous page."""
        ...

    async def file(self, session_id: str, tenant_id: str, transfer_id: str) -> FileRecord | None: ...

    async def files(self, session_id: str, tenant_id: str, after: int, limit: int) -> list[tuple[int, FileRecord]]:
        """Return a session's files after a position, each with its position in the order of storage."""
        ...

    async def idempotency(self, scope: str, tenant_id: str) -> IdempotencyRecord | None: ...
