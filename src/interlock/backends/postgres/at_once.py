"""The commit of a group of batches in one round trip, and the reasons to commit it step by step instead.

A statement that commits by itself has no COMMIT that could be in doubt, but its own reply can be lost. This raises
`InDoubt`: whether it is committed is then decided by the writer's row (`statements.DECIDE_WRITER`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import asyncpg

from interlock.backends.postgres import statements
from interlock.backends.postgres.database import PostgresConnection
from interlock.backends.postgres.entries import Entries
from interlock.backends.postgres.faults import LINK_FAULTS, is_answered, is_away, is_in_the_way
from interlock.backends.postgres.single import CHECKS, NotAtOnce, NotedChange, Reason, Single
from interlock.backends.postgres.texts import encoded_lane
from interlock.backends.postgres.transaction import AuditHead, CommitGroup
from interlock.command.audit.audit import CHECKPOINT_FACT, TailBound
from interlock.ports.ledger import LaneName, LedgerError, WriteBatch

KNOWN_HEADS = 4_096
"""Tenants whose audit head is cached; a transaction of any other one reads it first."""
TRIES = 2
"""Attempts of a statement while other gateways move the audit heads; then the heads are locked first."""
_BATCH_FAULTS = (ValueError, asyncpg.IntegrityConstraintViolationError, asyncpg.DataError,
                 asyncpg.ProgramLimitExceededError)
"""Errors that refuse a single batch of a group: an existing name, a value that a column or an index cannot hold."""


class InDoubt(Exception):
    """Raised if the connection broke during a statement: it may be committed, now or later. `fault` is the original
    exception."""

    def __init__(self, fault: Exception) -> None:
        super().__init__(str(fault))
        self.fault = fault


class TransactionMark(NamedTuple):
    """Identifies a transaction: the writer, and its number."""

    writer_id: str
    number: int


class AtOnce:
    """Sends groups as one statement each, for one writer."""

    def __init__(self, entries: Entries | None) -> None:
        self._entries = entries
        self._heads: OrderedDict[str, AuditHead] = OrderedDict()
        """The audit heads after this writer's last transactions; another gateway may have moved them."""

    def gather(self, batches: Iterable[WriteBatch | None], bound: TailBound | None) -> CommitGroup:
        """Return what these batches write together. Raises NotAtOnce."""
        made = CommitGroup(self._entries, bound)
        for batch in batches:
            if batch is None:
                raise NotAtOnce("work")
            try:
                made.add(batch)
            except (LedgerError, ValueError) as error:
                raise NotAtOnce("refused") from error  # The faulty batch is found step by step.
        return made

    async def send(self, connection: PostgresConnection, mark: TransactionMark, made: CommitGroup,
                   epochs: Sequence[tuple[LaneName, int]]
                   ) -> Sequence[int]:
        """Commit a group; returns the new heads of its streams, ordered by name. Raises NotAtOnce, NoRoom and
        `LINK_FAULTS`, and nothing is committed then; InDoubt if that is unknown."""
        lanes = _lanes(epochs)
        tenants = made.tenants()
        if any(tenant not in self._heads for tenant in tenants):
            await self._read_heads(connection, tenants)
        await made.look(connection)
        for tries_left in reversed(range(TRIES)):
            try:
                return await self._once(connection, mark, made, lanes)
            except NotAtOnce as refused:
                read = {tenant: self._heads[tenant] for tenant in tenants if tenant in self._heads}
                self.forget(made)
                if refused.reason == "bound" and not tries_left:
                    made.check_room(read)  # Finding the same step by step takes a dozen round trips.
                if refused.reason not in ("head", "bound") or not tries_left:
                    raise
            await self._read_heads(connection, tenants)
        raise AssertionError("the last try returns or raises")

    async def change(self, connection: PostgresConnection, mark: TransactionMark, change: NotedChange) -> Sequence[int]:
        """Run one statement that changes rows; returns the numbers that it notes. Raises `LINK_FAULTS`, and
        InDoubt."""
        single = Single()
        single.add(change.parts, change.values)
        single.add([("noted", change.noted)], mark)
        single.check("decided", "noted", 1)
        return await _sent(connection, single)

    def keep(self, made: CommitGroup) -> None:
        """Cache the heads of a committed group."""
        for tenant, head in made.heads.items():
            self._keep(tenant, head)

    def forget(self, made: CommitGroup) -> None:
        """Read the heads of these logs again, before they are next written to."""
        for tenant in made.tenants():
            self._heads.pop(tenant, None)

    async def _once(self, connection: PostgresConnection, mark: TransactionMark, made: CommitGroup,
                    lanes: Mapping[LaneName, int]) -> Sequence[int]:
        try:
            single = made.single(mark.writer_id, mark.number, lanes, self._heads)
        except (LedgerError, ValueError) as error:
            raise NotAtOnce("refused") from error
        try:
            return await _sent(connection, single)
        except (*LINK_FAULTS, ValueError) as error:
            reason = None if is_away(error) or is_in_the_way(error) else _reason(error)
            if reason is None:
                raise
            raise NotAtOnce(reason) from error

    async def _read_heads(self, connection: PostgresConnection, tenants: Sequence[str]) -> None:
        found = await connection.fetch(statements.READ_HEADS, tenants, CHECKPOINT_FACT)
        for tenant, count, last_hash, peaks, noted, frozen in found:
            if not frozen:  # Otherwise each batch is refused separately, step by step.
                self._keep(tenant, AuditHead(count, last_hash, bytes(peaks), noted))

    def _keep(self, tenant: str, head: AuditHead) -> None:
        self._heads.pop(tenant, None)
        self._heads[tenant] = head
        if len(self._heads) > KNOWN_HEADS:
            self._heads.popitem(last=False)


async def _sent(connection: PostgresConnection, single: Single) -> Sequence[int]:
    """Send a statement; returns the last value of its row. Raises `LINK_FAULTS`, and InDoubt."""
    try:
        row = await connection.fetchrow(single.sql(), *single.values)
    except LINK_FAULTS as error:
        if is_away(error) and not is_answered(error):
            raise InDoubt(error) from error
        raise
    assert row is not None, "the statement returns one row"
    heads: Sequence[int] = row[-1]
    return heads


def _reason(error: BaseException) -> Reason | None:
    """Return the reason of a server's refusal, if it may concern a lane, a log or a batch of the statement; otherwise
    None."""
    if isinstance(error, asyncpg.InvalidTextRepresentationError):
        failed: list[Reason] = [check for check in CHECKS if f'"{check}"' in str(error)]
        return failed[0] if failed else "refused"
    return "refused" if isinstance(error, _BATCH_FAULTS) else None


def _lanes(epochs: Iterable[tuple[LaneName, int]]) -> dict[LaneName, int]:
    """Return the epoch of each lane. Raises NotAtOnce if two batches have different ones of a lane."""
    lanes: dict[LaneName, int] = {}
    for lane, epoch in epochs:
        if lanes.setdefault(encoded_lane(lane), epoch) != epoch:
            raise NotAtOnce("fenced")
    return lanes
