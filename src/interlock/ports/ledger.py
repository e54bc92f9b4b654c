"""The ledger: everything that must change in one transaction."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol

from interlock.command.audit_tree import SubtreeHashes
from interlock.ports.access import AccessReads
from interlock.ports.stored_lanes import LaneReads
from interlock.ports.upkeep import Upkeep
from interlock.ports.writes import (
    Add,
    Append,
    AuditAppend,
    BeginLane,
    Change,
    Drop,
    DropControls,
    DropTranscript,
    EraseAudit,
    Expire,
    LedgerWrite,
    Note,
    Put,
    PutApproval,
    PutCommand,
    PutControl,
    PutFact,
    PutFile,
    PutIdempotency,
    PutSession,
    PutTranscript,
    Redeem,
)
from interlock.protocol.records import (
    ApprovalRecord,
    AuditRecord,
    CommandRecord,
    EventKind,
    FileRecord,
    IdempotencyRecord,
    SessionRecord,
)

__all__ = [
    "EVERY_SESSION",
    "FIRST_EPOCH",
    "Add",
    "Append",
    "AuditAppend",
    "BeginLane",
    "Change",
    "CommandQuery",
    "Drop",
    "DropControls",
    "DropTranscript",
    "Due",
    "EraseAudit",
    "Expire",
    "Fenced",
    "Full",
    "Ledger",
    "LedgerError",
    "LedgerWrite",
    "MakeRoom",
    "NameTaken",
    "Note",
    "Put",
    "PutApproval",
    "PutCommand",
    "PutControl",
    "PutFact",
    "PutFile",
    "PutIdempotency",
    "PutSession",
    "PutTranscript",
    "Receipt",
    "Redeem",
    "SessionFilter",
    "Spent",
    "WriteBatch",
    "audited",
]
"""With the writes, which batches are made of."""


MakeRoom = Callable[[str], Awaitable[None]]
"""Has a tenant's log signed up to its end. Raises LedgerError, with one sentence, if that cannot be done."""

FIRST_EPOCH = 1
"""Of a lane that no one had before."""


class WriteBatch(NamedTuple):
    """One transaction. `epochs` names the lanes it comes from: a stale epoch fails it with `Fenced`."""

    writes: Sequence[LedgerWrite]
    epochs: Sequence[tuple[str, int]] = ()


class Receipt(NamedTuple):
    """What a committed batch was given: the number of each Append, the seq of each Audit, in order."""

    numbers: list[int]
    audit_seqs: list[int]


def audited(batch: WriteBatch, receipt: Receipt) -> dict[str, int]:
    """Give each tenant's highest new seq of a committed batch."""
    drafts = (write.draft for write in batch.writes if isinstance(write, AuditAppend))
    return {draft.tenant_id: seq for draft, seq in zip(drafts, receipt.audit_seqs, strict=True)}


class LedgerError(Exception):
    """The batch did not commit, and nothing of it is visible."""


class OutcomeUnknown(LedgerError):
    """The server was away too long with the batch in doubt: it is committed as a whole, or nothing of it is. The next
    commit and `take` of this ledger come behind that decision, so what is read after a `take` is final."""


class NameTaken(LedgerError):
    """A unique name in the batch exists already."""


class Spent(LedgerError):
    """A one-time code is not there, or no longer good."""


class Fenced(LedgerError):
    """Another owner has the lane."""


class TenantMoving(LedgerError):
    """The tenant is being handed over to another ledger: nothing is written for it for a moment."""


class Full(LedgerError):
    """The store cannot take more (disk full, input/output error)."""


class Due(NamedTuple):
    """A session that has a deadline; `state` is its word for lists."""

    session_id: str
    deadline_ms: int
    state: str


class StoredBallot(NamedTuple):
    """What the ledger has of an approval that is voted on."""

    approval: ApprovalRecord
    command: CommandRecord | None
    """The command that waits for this approval; None if it does not wait, or the approval is about no command."""
    runner_id: str
    """The runner of its session; "" if it belongs to no session."""


class SessionFilter(NamedTuple):
    """Which sessions a list has; what is None does not matter."""

    state: str | None = None
    agent_id: str | None = None
    runner_id: str | None = None
    workspace: str | None = None
    session_key: str | None = None
    session_ids: Sequence[str] | None = None


EVERY_SESSION = SessionFilter()


class CommandQuery(NamedTuple):
    """Filters of `GET /v1/commands`; newest first; `before` is the id that the last page ended with."""

    tenant_id: str
    state: str | None = None
    agent_id: str | None = None
    session_id: str | None = None
    actor_id: str | None = None
    before: str | None = None
    limit: int = 100
    type: str | None = None


class Ledger(LaneReads, AccessReads, Upkeep, Protocol):
    """Guarantees: `commit` returns only when the batch survives kill -9 and power loss; all or nothing; batches take
    effect in the order of the calls; numbers of a stream are 1, 2, 3 … without gaps and are readable once given.
    Reads see every batch whose commit returned. What is not there is None or an empty list. With `tenant_id` a row of
    another tenant is not there, and is found missing by the same query (K-1).
    """

    async def commit(self, batch: WriteBatch) -> Receipt: ...

    async def take(self, lane: str) -> int:
        """Become the owner of a lane: returns its new epoch, which fences every earlier one."""
        ...

    async def gateway_id(self) -> str:
        """Name of this ledger (D-5), made at its first start."""
        ...

    async def tail(self, stream: str, after: int, limit: int) -> list[tuple[int, EventKind, bytes, int]]:
        """What `events` gives, of each (n, kind, body, at_ms): for those who read much of a stream."""
        return [(one.n, one.kind, one.body, one.at_ms) for one in await self.events(stream, after, limit)]

    async def head(self, stream: str) -> int:
        """Highest number of the stream, 0 if it has none."""
        ...

    async def session_by_key(self, tenant_id: str, session_key: str) -> SessionRecord | None:
        """The newest session of a key."""
        ...

    async def key_sessions(self, tenant_id: str, session_key: str, limit: int) -> list[SessionRecord]:
        """The sessions that a key has had, newest first (I-3)."""
        ...

    async def sessions(self, tenant_id: str, limit: int, before: tuple[int, str] | None = None,
                       only: SessionFilter = EVERY_SESSION) -> list[SessionRecord]:
        """Newest activity first, then larger ids; `before` is (updated_ms, session_id) of the last page's last."""
        ...

    async def runner_sessions(self, runner_id: str) -> list[SessionRecord]:
        """Sessions of a runner whose state is not "closed"."""
        ...

    async def due_sessions(self) -> list[Due]:
        """Every session that has a deadline, the nearest first, for the start."""
        ...

    async def command(self, command_id: str, tenant_id: str | None = None) -> CommandRecord | None: ...

    async def commands(self, query: CommandQuery) -> list[CommandRecord]: ...

    async def executes_since(self, tenant_id: str, actor_id: str | None, since_ms: int) -> int:
        """How many executes a tenant, or one of its actors, has given since an instant."""
        ...

    async def approval(self, approval_id: str, tenant_id: str | None = None) -> ApprovalRecord | None: ...

    async def ballot(self, approval_id: str, tenant_id: str | None = None) -> StoredBallot | None:
        """Return an approval with what a vote on it needs. A store behind a network reads all in one round trip."""
        found = await self.approval(approval_id, tenant_id)
        if found is None:
            return None
        approval = found.approval
        command = await self.command(approval.command_id) if approval.command_id is not None else None
        session = await self.session(approval.session_id)
        waits = (command is not None and command.command.state == "pending_approval"
                 and command.session_id == approval.session_id)
        return StoredBallot(found, command if waits else None, session.runner_id if session is not None else "")

    async def approvals(self, tenant_id: str, state: str | None, before: str | None, limit: int
                        ) -> list[ApprovalRecord]:
        """Newest first; `before` is the id that the last page ended with."""
        ...

    async def file(self, session_id: str, transfer_id: str) -> FileRecord | None: ...

    async def files(self, session_id: str, after: int, limit: int) -> list[tuple[int, FileRecord]]:
        """Files of a session with their places in the order in which they were kept, those after a place."""
        ...

    async def idempotency(self, scope: str) -> IdempotencyRecord | None: ...

    async def prune_idempotency(self, before_ms: int) -> int:
        """Forget answers older than this whose command has ended before it too (M-2). Returns how many."""
        ...

    async def audit(self, tenant_id: str, after: int, limit: int) -> list[AuditRecord]: ...

    async def audit_rows(self, tenant_id: str, after: int) -> list[AuditRecord]:
        """Records that bind rows (`command.register`), those after a seq, in order; without their personal values."""
        ...

    async def audit_head(self, tenant_id: str) -> tuple[int, str]:
        """(count, last hash) of a tenant's log; (0, 64 zeros) when empty."""
        ...

    async def audit_tree(self, tenant_id: str) -> tuple[int, bytes]:
        """(count, Merkle root) of a tenant's log, of one instant."""
        ...

    async def audit_hashes(self, tenant_id: str, spans: Sequence[SubtreeHashes]) -> list[list[bytes]]:
        """Hashes of whole subtrees of a tenant's log, a list for each span; fewer where the log does not go so far."""
        ...

    async def audit_personal(self, tenant_id: str, who: str | None, limit: int) -> list[int]:
        """Records with personal values that were not erased, of one `who.id` or of all, oldest first."""
        ...

    async def audit_tenants(self) -> list[str]: ...

    def on_audit(self, told: Callable[[str, int], None]) -> None:
        """Have `told` called with a tenant and its highest new seq after each commit that wrote audit records."""
        ...

    def bound_audit(self, make_room: MakeRoom) -> None:
        """From now on hold the bound on unsigned records (`command.audit_tail`), in the transactions themselves: a
        batch that finds no room behind the last checkpoint waits for `make_room`, and fails as that fails (U-3)."""
        ...

    def began_audit(self, tenant_id: str) -> bool:
        """Tell whether the first record of a tenant's log was written through this object."""
        ...

    async def fact(self, name: str) -> str | None: ...

    async def close(self) -> None:
        """Finish what was handed over, then close."""
        ...
