"""The ledger on SQLite: one file, one writer thread with group commit, a few readers (C-4, D-1, S-1, U-2)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from interlock.backends import entity_rows, rows, usage_sums
from interlock.backends.audit_room import AuditedLedger, AuditRoom
from interlock.backends.sqlite import entities, queries
from interlock.backends.sqlite.absent import Absent
from interlock.backends.sqlite.connect import open_writer
from interlock.backends.sqlite.readers import SqliteReaders
from interlock.backends.sqlite.upkeep import SqliteUpkeep
from interlock.backends.sqlite.writer import Measured, SqliteWriter
from interlock.command.audit import FIRST_PREV
from interlock.command.audit_tree import EMPTY_ROOT, Frontier, SubtreeHashes
from interlock.ports.clock import Clock
from interlock.ports.entities import Entity, RowCondition
from interlock.ports.ledger import (
    EVERY_SESSION,
    CommandQuery,
    Due,
    LaneName,
    Ledger,
    LedgerError,
    Receipt,
    SessionFilter,
    WriteBatch,
)
from interlock.ports.stored_lanes import SessionClock
from interlock.ports.usage import UsageQuery, UsageSums
from interlock.protocol.clock import iso
from interlock.protocol.identifiers import COMMAND_PREFIX
from interlock.protocol.records import (
    ApprovalRecord,
    AuditRecord,
    CommandRecord,
    ControlRecord,
    Event,
    EventKind,
    FileRecord,
    IdempotencyRecord,
    Record,
    SessionRecord,
    TranscriptLine,
)

LEDGER_NAME = "ledger.db"
"""The file's name in a state directory."""
SCOPES_A_PAGE = 1_000
"""Idempotency scopes that are read in one piece, so that learning them holds no one up."""
PRUNE_ROWS = 1_000
"""Old answers that one transaction deletes: pruning must not delay others."""
_END_OF_TIME = 2**62
_NO_LIMIT = -1
R = TypeVar("R", bound=Record)


async def open_ledger(path: Path, clock: Clock) -> SqliteLedger:
    """Open or make the ledger at `path` (mode 0600), on the running loop.

    The directory must exist, and the gateway's lock be held (N-2): two writers on one file are never allowed.
    Raises NotALedger, TooNew or Full, each with one sentence.
    """
    connection = await asyncio.to_thread(open_writer, path)
    connection.execute(queries.ADD_STORE_VALUE, ("gateway_id", "gw_" + os.urandom(8).hex()))
    connection.execute(queries.ADD_STORE_VALUE, ("created_at", iso(clock.now_ms())))
    gateway_id = str(connection.execute(queries.STORE_VALUE, ("gateway_id",)).get)
    return SqliteLedger(gateway_id, SqliteWriter(connection), SqliteReaders(path))


class SqliteLedger(AuditedLedger, SqliteUpkeep, Ledger):
    """See `interlock.ports.ledger.Ledger` for what each call guarantees."""

    def __init__(self, gateway_id: str, writer: SqliteWriter, readers: SqliteReaders) -> None:
        self._gateway_id = gateway_id
        self._writer = writer
        self._readers = readers
        self._room = AuditRoom()
        self._learning: asyncio.Task[None] | None = None
        self._earlier: Absent | None = None
        """Idempotency scopes that the file did not have when it was opened, once that is known."""

    def measure(self, measured: Measured, stepwise: Callable[[str], None] = lambda _reason: None) -> None:
        """Call `measured` with the batches and the seconds of each transaction, on the writer's thread. `stepwise`
        is for a ledger behind a network, and is not called."""
        self._writer.measure(measured)

    async def commit(self, batch: WriteBatch) -> Receipt:
        return await self._room.commit(batch, self._write)

    async def _write(self, batch: WriteBatch) -> Receipt:
        return await self._writer.run(lambda transaction: transaction.apply(batch, self._room.bound))

    async def take(self, lane: LaneName) -> int:
        return await self._writer.run(lambda transaction: transaction.take(lane.name))

    async def gateway_id(self) -> str:
        return self._gateway_id

    async def events(self, tenant_id: str, stream: str, after: int, limit: int) -> list[Event]:
        found = await self._readers.rows(queries.EVENTS_AFTER, (stream, after, limit))
        return [
            Event(stream=stream, n=n, kind=kind, at_ms=at_ms, body=body, message_id=message_id)
            for n, kind, at_ms, body, message_id in found
        ]

    async def tail(self, tenant_id: str, stream: str, after: int, limit: int
                   ) -> list[tuple[int, EventKind, bytes, int]]:
        return await self._readers.rows(queries.TAIL, (stream, after, limit))

    async def head(self, tenant_id: str, stream: str) -> int:
        found = await self._readers.row(queries.STREAM_HEAD, (stream,))
        return int(found[0]) if found else 0

    async def recent_message_ids(self, tenant_id: str, stream: str, limit: int) -> list[str]:
        found = await self._readers.rows(queries.RECENT_MESSAGE_IDS, (stream, limit))
        return [row[0] for row in reversed(found)]

    async def session(self, session_id: str, tenant_id: str | None = None) -> SessionRecord | None:
        found = await self._readers.row(queries.SESSION, (session_id, tenant_id))
        return rows.session_of(found) if found else None

    async def session_by_key(self, tenant_id: str, session_key: str) -> SessionRecord | None:
        found = await self._readers.row(queries.SESSION_BY_KEY, (tenant_id, session_key))
        return rows.session_of(found) if found else None

    async def key_sessions(self, tenant_id: str, session_key: str, limit: int) -> list[SessionRecord]:
        found = await self._readers.rows(queries.KEY_SESSIONS, (tenant_id, session_key, limit))
        return [rows.session_of(row) for row in found]

    async def sessions(self, tenant_id: str, limit: int, before: tuple[int, str] | None = None,
                       only: SessionFilter = EVERY_SESSION) -> list[SessionRecord]:
        ids = None if only.session_ids is None else msgspec.json.encode(list(only.session_ids)).decode()
        found = await self._readers.rows(
            queries.SESSIONS, (tenant_id, *(before or (_END_OF_TIME, "")), limit, *only[:-1], ids))
        return [rows.session_of(row) for row in found]

    async def runner_sessions(self, runner_id: str, tenant_id: str) -> list[SessionRecord]:
        found = await self._readers.rows(queries.RUNNER_SESSIONS, (runner_id, tenant_id))
        return [rows.session_of(row) for row in found]

    async def due_sessions(self) -> list[Due]:
        return [Due(*row) for row in await self._readers.rows(queries.DUE_SESSIONS)]

    async def session_clocks(self, lanes: Sequence[LaneName]) -> list[SessionClock]:
        wanted = msgspec.json.encode(list(dict.fromkeys(lanes))).decode()
        return [SessionClock(*row) for row in await self._readers.rows(queries.SESSION_CLOCKS, (wanted,))]

    async def command(self, command_id: str, tenant_id: str) -> CommandRecord | None:
        found = await self._readers.row(queries.COMMAND, (command_id, tenant_id))
        return rows.command_of(found) if found else None

    async def commands(self, query: CommandQuery) -> list[CommandRecord]:
        given = {"state": query.state, "agent_id": query.agent_id, "session_id": query.session_id,
                 "actor_id": query.actor_id, "type": query.type}  # fmt: skip
        filters = {column: value for column, value in given.items() if value is not None}
        page = () if query.before is None else (query.before, query.tenant_id)
        sql = queries.commands(tuple(filters), paged=bool(page))
        found = await self._readers.rows(sql, (query.tenant_id, *filters.values(), *page, query.limit))
        return [rows.command_of(row) for row in found]

    async def executes_since(self, tenant_id: str, actor_id: str | None, since_ms: int) -> int:
        one = () if actor_id is None else (actor_id,)
        found = await self._readers.row(queries.executes_since(by_actor=actor_id is not None),
                                        (tenant_id, *one, since_ms))
        return int(found[0]) if found else 0

    async def live_commands(self, session_id: str, tenant_id: str) -> list[CommandRecord]:
        found = await self._readers.rows(queries.LIVE_COMMANDS, (session_id, tenant_id))
        return [rows.command_of(row) for row in found]

    async def approval(self, approval_id: str, tenant_id: str) -> ApprovalRecord | None:
        found = await self._readers.row(queries.APPROVAL, (approval_id, tenant_id))
        return rows.approval_of(found) if found else None

    async def approvals(
        self, tenant_id: str, state: str | None, before: str | None, limit: int
    ) -> list[ApprovalRecord]:
        sql = queries.approvals(by_state=state is not None, paged=before is not None)
        by_state = () if state is None else (state,)
        page = () if before is None else (before, tenant_id)
        found = await self._readers.rows(sql, (tenant_id, *by_state, *page, limit))
        return [rows.approval_of(row) for row in found]

    async def live_approvals(self, session_id: str, tenant_id: str) -> list[ApprovalRecord]:
        found = await self._readers.rows(queries.LIVE_APPROVALS, (session_id, tenant_id))
        return [rows.approval_of(row) for row in found]

    async def controls(self, session_id: str, tenant_id: str, after: int) -> list[ControlRecord]:
        found = await self._readers.rows(queries.CONTROLS_AFTER, (session_id, tenant_id, after))
        return [
            ControlRecord(session_id=session_id, seq=seq, message_id=message_id, body=body)
            for seq, message_id, body in found
        ]

    async def file(self, session_id: str, tenant_id: str, transfer_id: str) -> FileRecord | None:
        found = await self._readers.row(queries.FILE, (session_id, tenant_id, transfer_id))
        return rows.file_of(found[0]) if found else None

    async def files(self, session_id: str, tenant_id: str, after: int, limit: int) -> list[tuple[int, FileRecord]]:
        found = await self._readers.rows(queries.FILES, (session_id, tenant_id, after, limit))
        return [(int(place), rows.file_of(body)) for place, body in found]

    async def idempotency(self, scope: str, tenant_id: str) -> IdempotencyRecord | None:
        if self._learning is None:
            self._learning = asyncio.create_task(self._learn_scopes())
        elif self._earlier is not None and scope in self._earlier and scope in self._writer.absent_scopes:
            return None
        found = await self._readers.row(queries.IDEMPOTENCY, (scope,))
        return rows.idempotency_of(tenant_id, scope, found) if found else None

    async def _learn_scopes(self) -> None:
        """Learn what an earlier run has left; until all is known, every key is looked up."""
        earlier, last = Absent(), ""
        with suppress(LedgerError):
            while found := await self._readers.rows(queries.IDEMPOTENCY_SCOPES, (last, SCOPES_A_PAGE)):
                for (last,) in found:
                    earlier.add(last)
            self._earlier = earlier

    async def prune_idempotency(self, before_ms: int) -> int:
        pruned = 0
        while True:
            now: int = await self._writer.run(lambda transaction: transaction.prune_idempotency(before_ms, PRUNE_ROWS))
            pruned += now
            if now < PRUNE_ROWS:
                return pruned

    async def usage(self, query: UsageQuery) -> UsageSums:
        asked = usage_sums.parameters(query)
        found = await self._readers.rows(queries.usage(query.by), asked)
        return usage_sums.read(query, found, (await self._readers.rows(queries.usage(frozenset()), asked))[0])

    async def select(self, entity: Entity[R], where: Sequence[RowCondition], order: Sequence[str], limit: int | None
                     ) -> list[R]:
        sql = entities.select_sql(entity, entities.shape(where), tuple(order), limited=limit is not None)
        found = await self._readers.rows(sql, (*entities.bound(where), *(() if limit is None else (limit,))))
        return [entity_rows.record_of(entity, row) for row in found]

    async def count(self, entity: Entity[R], *where: RowCondition) -> int:
        found = await self._readers.row(entities.count_sql(entity, entities.shape(where)), entities.bound(where))
        return int(found[0]) if found else 0

    async def audit(self, tenant_id: str, after: int, limit: int) -> list[AuditRecord]:
        found = await self._readers.rows(queries.AUDIT_AFTER, (tenant_id, after, limit))
        return [rows.audit_of(tenant_id, row) for row in found]

    async def audit_about(self, tenant_id: str, subject_id: str) -> list[AuditRecord]:
        query = queries.AUDIT_OF_COMMAND if subject_id.startswith(COMMAND_PREFIX) else queries.AUDIT_OF_APPROVAL
        found = await self._readers.rows(query, (tenant_id, subject_id))
        return [AuditRecord(tenant_id=tenant_id, seq=seq, hash=hash_, body=body) for seq, hash_, body in found]

    async def audit_rows(self, tenant_id: str, after: int) -> list[AuditRecord]:
        found = await self._readers.rows(queries.AUDIT_OF_ROWS, (tenant_id, after))
        return [AuditRecord(tenant_id=tenant_id, seq=seq, hash=hash_, body=body) for seq, hash_, body in found]

    async def audit_seals(self, tenant_id: str, name: str, limit: int) -> list[AuditRecord]:
        found = await self._readers.rows(queries.AUDIT_OF_SEALS, (tenant_id, name.encode(), limit))
        return [AuditRecord(tenant_id=tenant_id, seq=seq, hash=hash_, body=body) for seq, hash_, body in found[::-1]]

    async def audit_head(self, tenant_id: str) -> tuple[int, str]:
        found = await self._readers.row(queries.AUDIT_HEAD, (tenant_id,))
        return (int(found[0]), str(found[1])) if found else (0, FIRST_PREV)

    async def audit_tree(self, tenant_id: str) -> tuple[int, bytes]:
        found = await self._readers.row(queries.AUDIT_TREE, (tenant_id,))
        return (int(found[0]), Frontier(found[0], found[2]).root()) if found else (0, EMPTY_ROOT)

    async def audit_hashes(self, tenant_id: str, spans: Sequence[SubtreeHashes]) -> list[list[bytes]]:
        found = await self._readers.several([
            (queries.AUDIT_NODES, (tenant_id, *span)) if span.level
            else (queries.AUDIT_LEAVES, (tenant_id, span.start, span.end)) for span in spans])
        return [[row[0] if span.level else bytes.fromhex(row[0]) for row in each]
                for span, each in zip(spans, found, strict=True)]

    async def audit_personal(self, tenant_id: str, who: str | None, limit: int) -> list[int]:
        return [row[0] for row in await self._readers.rows(queries.AUDIT_PERSONAL_OF, (tenant_id, who, limit))]


    async def fact(self, name: str) -> str | None:
        found = await self._readers.row(queries.STORE_VALUE, (name,))
        return str(found[0]) if found else None

    async def audit_tenants(self) -> list[str]:
        return [row[0] for row in await self._readers.rows(queries.AUDIT_TENANTS)]

    async def transcript_pending(
        self, of: tuple[str, str] | None = None, limit: int | None = None
    ) -> list[TranscriptLine]:
        if of is None:
            found = await self._readers.rows(queries.TRANSCRIPT_PENDING, (_NO_LIMIT if limit is None else limit,))
        else:
            session_id, tenant_id = of
            placed = sorted(await self._readers.rows(queries.TRANSCRIPT_PENDING_OF, (session_id,)))
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
