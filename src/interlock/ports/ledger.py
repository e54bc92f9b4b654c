"""The ledger: everything that must change in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from interlock.ports.access import AccessReads
from interlock.ports.audit_reads import AuditReads, MakeRoom
from interlock.ports.command_reads import (
    EVERY_SESSION,
    CommandQuery,
    CommandReads,
    Due,
    SessionFilter,
    StoredBallot,
)
from interlock.ports.upkeep import Upkeep
from interlock.ports.writes import (
    Add,
    AdvanceFact,
    Append,
    AuditAppend,
    BeginLane,
    Change,
    Drop,
    DropControls,
    DropTranscript,
    EraseAudit,
    Expire,
    LaneName,
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

__all__ = [
    "EVERY_SESSION",
    "FIRST_EPOCH",
    "Add",
    "AdvanceFact",
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
    "LaneName",
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
    "StoredBallot",
    "WriteBatch",
]
"""Includes the writes that batches consist of, and the arguments of its reads."""


FIRST_EPOCH = 1
"""The epoch of a lane's first owner."""


class WriteBatch(NamedTuple):
    """A transaction. `epochs` names the lanes it comes from: a stale epoch fails it with `Fenced`."""

    writes: Sequence[LedgerWrite]
    epochs: Sequence[tuple[LaneName, int]] = ()


class Receipt(NamedTuple):
    """What a committed batch was assigned: the number of each Append, the seq of each Audit, in order."""

    numbers: list[int]
    audit_seqs: list[int]



class LedgerError(Exception):
    """Raised if the batch did not commit; nothing of it is visible."""


class OutcomeUnknown(LedgerError):
    """Raised if the server was unavailable too long with the batch in doubt: it is committed as a whole, or not at all.
    The next commit and `take` of this ledger wait for that outcome, so what is read after a `take` is final."""


class NameTaken(LedgerError):
    """Raised if a unique name in the batch exists already."""


class Spent(LedgerError):
    """Raised if a one-time code does not exist, or is no longer valid."""


class Fenced(LedgerError):
    """Raised if another owner has the lane."""


class TenantMoving(LedgerError):
    """Raised if the tenant is being handed over to another ledger: its writes are refused for a moment."""


class Full(LedgerError):
    """Raised if the store is full (disk full, input/output error)."""


class Ledger(CommandReads, AccessReads, AuditReads, Upkeep, Protocol):
    """The complete ledger: streams (`ports.streams`), lanes, commands and sessions, access, audit, upkeep, and the
    commit.

    Guarantees: `commit` returns only when the batch survives kill -9 and power loss; all or nothing; batches take
    effect in the order of the calls; numbers of a stream are 1, 2, 3 … without gaps and are readable once assigned.
    Reads see every batch whose commit returned. A missing row is None or an empty list. With `tenant_id`, rows of other
    tenants are excluded by the query itself (K-1).
    """

    async def commit(self, batch: WriteBatch) -> Receipt: ...

    async def take(self, lane: LaneName) -> int:
        """Take ownership of a lane: returns its new epoch, which fences every earlier one."""
        ...

    async def gateway_id(self) -> str:
        """Return the name of this ledger (D-5), created at its first start."""
        ...

    async def prune_idempotency(self, before_ms: int) -> int:
        """Delete answers older than this whose command has also ended before it (M-2). Returns their number."""
        ...

    async def fact(self, name: str) -> str | None: ...

    async def close(self) -> None:
        """Finish what was submitted, then close."""
        ...
