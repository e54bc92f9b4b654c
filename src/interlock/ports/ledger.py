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
"""With the writes, which batches are made of, and what its reads are asked with."""


FIRST_EPOCH = 1
"""Of a lane that no one had before."""


class WriteBatch(NamedTuple):
    """One transaction. `epochs` names the lanes it comes from: a stale epoch fails it with `Fenced`."""

    writes: Sequence[LedgerWrite]
    epochs: Sequence[tuple[LaneName, int]] = ()


class Receipt(NamedTuple):
    """What a committed batch was given: the number of each Append, the seq of each Audit, in order."""

    numbers: list[int]
    audit_seqs: list[int]



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


class Ledger(CommandReads, AccessReads, AuditReads, Upkeep, Protocol):
    """All of it: streams (`ports.streams`), lanes, commands and sessions, access, audit, upkeep, and the commit.

    Guarantees: `commit` returns only when the batch survives kill -9 and power loss; all or nothing; batches take
    effect in the order of the calls; numbers of a stream are 1, 2, 3 … without gaps and are readable once given.
    Reads see every batch whose commit returned. What is not there is None or an empty list. With `tenant_id` a row of
    another tenant is not there, and is found missing by the same query (K-1).
    """

    async def commit(self, batch: WriteBatch) -> Receipt: ...

    async def take(self, lane: LaneName) -> int:
        """Become the owner of a lane: returns its new epoch, which fences every earlier one."""
        ...

    async def gateway_id(self) -> str:
        """Name of this ledger (D-5), made at its first start."""
        ...

    async def prune_idempotency(self, before_ms: int) -> int:
        """Forget answers older than this whose command has ended before it too (M-2). Returns how many."""
        ...

    async def fact(self, name: str) -> str | None: ...

    async def close(self) -> None:
        """Finish what was handed over, then close."""
        ...
