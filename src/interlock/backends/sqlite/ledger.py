"""The ledger on SQLite: one file, one writer thread with group commit, a few readers (C-4, D-1, S-1, U-2)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from interlock.backends import rows
from interlock.backends.audit_room import AuditedLedger, AuditRoom
from interlock.backends.sql_reads import END_OF_TIME, events_of
from interlock.backends.sqlite import entities, queries
from interlock.backends.sqlite.connect import open_writer
from interlock.backends.sqlite.readers import SqliteReaders
from interlock.backends.sqlite.upkeep import SqliteUpkeep
from interlock.backends.sqlite.writer import Measured, SqliteWriter
from interlock.command.audit.audit_tree import SubtreeHashes
from interlock.ports.clock import Clock
from interlock.ports.ledger import (
    EVERY_SESSION,
    LaneName,
    LedgerError,
    Receipt,
    SessionFilter,
    WriteBatch,
)
from interlock.ports.stored_lanes import SessionClock
from interlock.protocol.clock import iso
from interlock.protocol.records import (
    ApprovalRecord,
    AuditRecord,
    Event,
    EventKind,
    IdempotencyRecord,
    SessionRecord,
    TranscriptLine,
)

LEDGER_NAME = "ledger.db"
"""The file's name in a state directory."""
SCOPES_A_PAGE = 1_000
"""Idempotency scopes that are read at once, so that loading them does not block others."""
_NO_LIMIT = -1


async def open_ledger(path: Path, clock: Clock) -> SqliteLedger:
    """Open or make the ledger at `path` (mode 0600), on the running loop.

    The directory must exist, and the gateway's lock be held (N-2): two writers on one file are never allowed.
    Raises NotASqliteLedger, TooNew or Full, each with one sentence.
    """
    connection = await asyncio.to_thread(open_writer, path)
    connection.execute(queries.ADD_STORE_VALUE, ("gateway_id", "gw_" + os.urandom(8).hex()))
    connection.execute(queries.ADD_STORE_VALUE, ("created_at", iso(clock.now_ms())))
    gateway_id = str(connection.execute(queries.STORE_VALUE, ("gateway_id",)).get)
    return SqliteLedger(gateway_id, SqliteWriter(connection), SqliteReaders(path))


class SqliteLedger(AuditedLedger, SqliteUpkeep):
    """See `interlock.ports.ledger.Ledger` for what each call guarantees."""

    _queries = queries
    _entities = entities

    def __init__(self, gateway_id: str, writer: SqliteWriter, readers: SqliteReaders) -> None:
        self._gateway_id = gateway_id
        self._writer = writer
        self._readers = readers
        self._room = AuditRoom()
        self._learning: asyncio.Task[None] | None = None
        self._learned = False
        """Whether the idempotency scopes that the file had when it was opened are loaded."""

    def measure(self, measured: Measured, stepwise: Callable[[str], None] = lambda _reason: None) -> None:
        """Call `measured` with the batches and the seconds of each transaction, on the writer's thread. `stepwise` is
        for a networked ledger, and is not called."""
        self._writer.measure(measured)

    async def commit(self, batch: WriteBatch) -> Receipt:
        return await self._room.commit(batch, self._write)

    def _write(self, batch: WriteBatch) -> Awaitable[Receipt]:
        return self._writer.run(lambda transaction: transaction.apply(batch, self._room.bound))

    async def take(self, lane: LaneName) -> int:
        return await self._writer.run(lambda transaction: transaction.take(lane.name))

    async def gateway_id(self) -> str:
        return self._gateway_id

    async def events(self, tenant_id: str, stream: str, after: int, limit: int) -> list[Event]:
        found = await self._readers.rows(queries.EVENTS_AFTER, stream, after, limit)
        return events_of(stream, found)

    async def tail(self, tenant_id: str, stream: str, after: int, limit: int
                   ) -> list[tuple[int, EventKind, bytes, int]]:
        return await self._readers.rows(queries.TAIL, stream, after, limit)

    async def head(self, tenant_id: str, stream: str) -> int:
        found = await self._readers.row(queries.STREAM_HEAD, stream)
        return int(found[0]) if found else 0

    async def recent_message_ids(self, tenant_id: str, stream: str, limit: int) -> list[str]:
        found = await self._readers.rows(queries.RECENT_MESSAGE_IDS, stream, limit)
        return [row[0] for row in reversed(found)]

    async def session(self, session_id: str, tenant_id: str | None = None) -> SessionRecord | None:
        found = await self._readers.row(queries.SESSION, session_id, tenant_id)
        return rows.session_of(found) if found else None

    async def sessions(self, tenant_id: str, limit: int, before: tuple[int, str] | None = None,
                       only: SessionFilter = EVERY_SESSION) -> list[SessionRecord]:
        ids = None if only.session_ids is None else msgspec.json.encode(list(only.session_ids)).decode()
        found = await self._readers.rows(
            queries.SESSIONS, tenant_id, *(before or (END_OF_TIME, "")), limit, *only[:-1], ids)
        return [rows.session_of(row) for row in found]

    async def runner_sessions(self, runner_id: str, tenant_id: str) -> list[SessionRecord]:
        found = await self._readers.rows(queries.RUNNER_SESSIONS, runner_id, tenant_id)
        return [rows.session_of(row) for row in found]

    async def session_clocks(self, lanes: Sequence[LaneName]) -> list[SessionClock]:
        wanted = msgspec.json.encode(list(dict.fromkeys(lanes))).decode()
        return [SessionClock(*row) for row in await self._readers.rows(queries.SESSION_CLOCKS, wanted)]

    async def executes_since(self, tenant_id: str, actor_id: str | None, since_ms: int) -> int:
        one = () if actor_id is None else (actor_id,)
        sql = queries.executes_since(by_actor=actor_id is not None)
        found = await self._readers.row(sql, tenant_id, *one, since_ms)
        return int(found[0]) if found else 0

    async def approvals(
        self, tenant_id: str, state: str | None, before: str | None, limit: int
    ) -> list[ApprovalRecord]:
        sql = queries.approvals(by_state=state is not None, paged=before is not None)
        by_state = () if state is None else (state,)
        page = () if before is None else (before, tenant_id)
        found = await self._readers.rows(sql, tenant_id, *by_state, *page, limit)
        return [rows.approval_of(row) for row in found]

    async def idempotency(self, scope: str, tenant_id: str) -> IdempotencyRecord | None:
        if self._learning is None:
            self._learning = asyncio.create_task(self._learn_scopes())
        elif self._learned and scope in self._writer.absent_scopes:
            return None
        found = await self._readers.row(queries.IDEMPOTENCY, scope)
        return rows.idempotency_of(tenant_id, scope, found) if found else None

    async def _learn_scopes(self) -> None:
        """Load the scopes of earlier runs; until all are loaded, every key is looked up."""
        absent, last = self._writer.absent_scopes, ""
        with suppress(LedgerError):
            while found := await self._readers.rows(queries.IDEMPOTENCY_SCOPES, last, SCOPES_A_PAGE):
                for (last,) in found:
                    absent.add(last)
            self._learned = True

    async def audit(self, tenant_id: str, after: int, limit: int) -> list[AuditRecord]:
        found = await self._readers.rows(queries.AUDIT_AFTER, tenant_id, after, limit)
        return [rows.audit_of(tenant_id, row) for row in found]

    async def audit_hashes(self, tenant_id: str, spans: Sequence[SubtreeHashes]) -> list[list[bytes]]:
        found = await self._readers.several([
            (queries.AUDIT_NODES, (tenant_id, *span)) if span.level
            else (queries.AUDIT_LEAVES, (tenant_id, span.start, span.end)) for span in spans])
        return [[row[0] if span.level else bytes.fromhex(row[0]) for row in each]
                for span, each in zip(spans, found, strict=True)]

    async def transcript_pending(
        self, of: tuple[str, str] | None = None, limit: int | None = None
    ) -> list[TranscriptLine]:
        if of is None:
            found = await self._readers.rows(queries.TRANSCRIPT_PENDING, _NO_LIMIT if limit is None else limit)
        else:
            session_id, tenant_id = of
            placed = sorted(await self._readers.rows(queries.TRANSCRIPT_PENDING_OF, session_id))
            found = [(tenant_id, *row[1:]) for row in placed][:limit]
        return [TranscriptLine(tenant_id=tenant_id, session_id=session_id, entry_id=entry_id, line=line)
                for tenant_id, session_id, entry_id, line in found]

    async def close(self) -> None:
        if self._learning is not None:
            self._learning.cancel()
        await asyncio.to_thread(self.close_now)

    def close_now(self) -> None:
        """Do what `close` does, from any thread and without a loop; blocks until it is done. May be called again."""
        self._readers.close()
        self._writer.close()
