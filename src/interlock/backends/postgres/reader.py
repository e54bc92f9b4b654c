"""What is asked of the ledger on PostgreSQL: one statement each, on a few connections beside the writer's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from interlock.backends import entity_rows, rows, usage_sums
from interlock.backends.postgres import entities, queries, stored_lanes
from interlock.backends.postgres.audit_rows import record_of
from interlock.backends.postgres.database import PostgresReaders
from interlock.command.audit import FIRST_PREV
from interlock.command.audit_tree import EMPTY_ROOT, Frontier, SubtreeHashes
from interlock.ports.entities import Entity, RowCondition
from interlock.ports.ledger import (
    EVERY_SESSION,
    CommandQuery,
    Due,
    LaneName,
    Ledger,
    SessionFilter,
    StoredBallot,
)
from interlock.ports.stored_lanes import LaneHistory, LaneQuestion, SessionClock, StoredLane
from interlock.ports.usage import UsageQuery, UsageSums
from interlock.protocol.identifiers import COMMAND_PREFIX
from interlock.protocol.records import (
    ApprovalRecord,
    AuditRecord,
    CommandRecord,
    ControlRecord,
    Event,
    FileRecord,
    IdempotencyRecord,
    Record,
    SessionRecord,
    TranscriptLine,
)

_END_OF_TIME = 2**62

R = TypeVar("R", bound=Record)


class PostgresReading(Ledger):
    """The half of the ledger that reads."""

    _readers: PostgresReaders
    _lane_readers: PostgresReaders
    _keeps_transcripts: bool

    async def events(self, tenant_id: str, stream: str, after: int, limit: int) -> list[Event]:
        found = await self._readers.rows(queries.EVENTS_AFTER, tenant_id, stream, after, limit)
        return [
            Event(stream=stream, n=n, kind=kind, at_ms=at_ms, body=body, message_id=message_id)
            for n, kind, at_ms, body, message_id in found
        ]

    async def head(self, tenant_id: str, stream: str) -> int:
        found = await self._readers.row(queries.STREAM_HEAD, tenant_id, stream)
        return int(found[0]) if found else 0

    async def recent_message_ids(self, tenant_id: str, stream: str, limit: int) -> list[str]:
        found = await self._readers.rows(queries.RECENT_MESSAGE_IDS, tenant_id, stream, limit)
        return [row[0] for row in reversed(found)]

    async def session(self, session_id: str, tenant_id: str | None = None) -> SessionRecord | None:
        found = (await self._readers.row(queries.SESSION, session_id, tenant_id) if tenant_id is not None
                 else await self._readers.row(queries.SESSION_OF_ANY_TENANT, session_id))
        return rows.session_of(found) if found else None

    async def session_by_key(self, tenant_id: str, session_key: str) -> SessionRecord | None:
        found = await self._readers.row(queries.SESSION_BY_KEY, tenant_id, session_key)
        return rows.session_of(found) if found else None

    async def key_sessions(self, tenant_id: str, session_key: str, limit: int) -> list[SessionRecord]:
        found = await self._readers.rows(queries.KEY_SESSIONS, tenant_id, session_key, limit)
        return [rows.session_of(row) for row in found]

    async def sessions(self, tenant_id: str, limit: int, before: tuple[int, str] | None = None,
                       only: SessionFilter = EVERY_SESSION) -> list[SessionRecord]:
        ids = None if only.session_ids is None else list(only.session_ids)
        found = await self._readers.rows(
            queries.SESSIONS, tenant_id, *(before or (_END_OF_TIME, "")), limit, *only[:-1], ids)
        return [rows.session_of(row) for row in found]

    async def runner_sessions(self, runner_id: str, tenant_id: str) -> list[SessionRecord]:
        found = await self._lane_readers.rows(queries.RUNNER_SESSIONS, runner_id, tenant_id)
        return [rows.session_of(row) for row in found]

    async def due_sessions(self) -> list[Due]:
        return [Due(*row) for row in await self._readers.rows(queries.DUE_SESSIONS)]

    async def session_clocks(self, lanes: Sequence[LaneName]) -> list[SessionClock]:
        return await stored_lanes.clocks(self._lane_readers, lanes)

    async def stored_lanes(self, lanes: Sequence[LaneName], received: int) -> dict[str, StoredLane]:
        return await stored_lanes.lanes(self._lane_readers, lanes, received, pending=not self._keeps_transcripts)

    async def lane_histories(self, asked: Sequence[LaneQuestion], events: int, seals: int) -> list[LaneHistory]:
        return await stored_lanes.histories(self._lane_readers, asked, events, seals)

    async def command(self, command_id: str, tenant_id: str) -> CommandRecord | None:
        found = await self._readers.row(queries.COMMAND, command_id, tenant_id)
        return rows.command_of(found) if found else None

    async def commands(self, query: CommandQuery) -> list[CommandRecord]:
        given = {"state": query.state, "agent_id": query.agent_id, "session_id": query.session_id,
                 "actor_id": query.actor_id, "type": query.type}  # fmt: skip
        filters = {column: value for column, value in given.items() if value is not None}
        page = () if query.before is None else (query.before,)
        sql = queries.commands(tuple(filters), paged=bool(page))
        found = await self._readers.rows(sql, query.tenant_id, *filters.values(), *page, query.limit)
        return [rows.command_of(row) for row in found]

    async def executes_since(self, tenant_id: str, actor_id: str | None, since_ms: int) -> int:
        found = await self._readers.row(queries.EXECUTES_SINCE, tenant_id, actor_id, since_ms)
        return int(found[0]) if found else 0

    async def live_commands(self, session_id: str, tenant_id: str) -> list[CommandRecord]:
        return [rows.command_of(row) for row in await self._readers.rows(queries.LIVE_COMMANDS, session_id, tenant_id)]

    async def approval(self, approval_id: str, tenant_id: str) -> ApprovalRecord | None:
        found = await self._readers.row(queries.APPROVAL, approval_id, tenant_id)
        return rows.approval_of(found) if found else None

    async def ballot(self, approval_id: str, tenant_id: str) -> StoredBallot | None:
        found = await self._readers.rows(queries.BALLOT, approval_id, tenant_id)
        if not found:
            return None
        approval = rows.approval_of(found[0])
        waiting = [rows.command_of(row[1:]) for row in found if row[1] is not None]
        command = next((one for one in waiting if one.command.id == approval.approval.command_id), None)
        return StoredBallot(approval, command, found[0][2] or "")

    async def approvals(
        self, tenant_id: str, state: str | None, before: str | None, limit: int
    ) -> list[ApprovalRecord]:
        found = await self._readers.rows(queries.APPROVALS, tenant_id, state, before, limit)
        return [rows.approval_of(row) for row in found]

    async def live_approvals(self, session_id: str, tenant_id: str) -> list[ApprovalRecord]:
        found = await self._readers.rows(queries.LIVE_APPROVALS, session_id, tenant_id)
        return [rows.approval_of(row) for row in found]

    async def controls(self, session_id: str, tenant_id: str, after: int) -> list[ControlRecord]:
        found = await self._readers.rows(queries.CONTROLS_AFTER, session_id, tenant_id, after)
        return [
            ControlRecord(session_id=session_id, seq=seq, message_id=message_id, body=body)
            for seq, message_id, body in found
        ]

    async def file(self, session_id: str, tenant_id: str, transfer_id: str) -> FileRecord | None:
        found = await self._readers.row(queries.FILE, session_id, tenant_id, transfer_id)
        return rows.file_of(found[0]) if found else None

    async def files(self, session_id: str, tenant_id: str, after: int, limit: int) -> list[tuple[int, FileRecord]]:
        found = await self._readers.rows(queries.FILES, session_id, tenant_id, after, limit)
        return [(int(place), rows.file_of(body)) for place, body in found]

    async def idempotency(self, scope: str, tenant_id: str) -> IdempotencyRecord | None:
        found = await self._readers.row(queries.IDEMPOTENCY, scope, tenant_id)
        return rows.idempotency_of(tenant_id, scope, found) if found else None

    async def usage(self, query: UsageQuery) -> UsageSums:
        asked = usage_sums.parameters(query)
        found = await self._readers.rows(queries.usage(query.by), *asked)
        return usage_sums.read(query, found, (await self._readers.rows(queries.usage(frozenset()), *asked))[0])

    async def select(self, entity: Entity[R], where: Sequence[RowCondition], order: Sequence[str], limit: int | None
                     ) -> list[R]:
        sql = entities.select_sql(entity, entities.shape(where), tuple(order), limited=limit is not None)
        found = await self._readers.rows(sql, *entities.bound(where), *(() if limit is None else (limit,)))
        return [entity_rows.record_of(entity, row) for row in found]

    async def count(self, entity: Entity[R], *where: RowCondition) -> int:
        found = await self._readers.row(entities.count_sql(entity, entities.shape(where)), *entities.bound(where))
        return int(found[0]) if found else 0

    async def audit(self, tenant_id: str, after: int, limit: int) -> list[AuditRecord]:
        found = await self._readers.rows(queries.AUDIT_AFTER, tenant_id, after, limit)
        return [record_of(tenant_id, row) for row in found]

    async def audit_about(self, tenant_id: str, subject_id: str) -> list[AuditRecord]:
        query = queries.AUDIT_OF_COMMAND if subject_id.startswith(COMMAND_PREFIX) else queries.AUDIT_OF_APPROVAL
        found = await self._readers.rows(query, tenant_id, subject_id)
        return [AuditRecord(tenant_id=tenant_id, seq=seq, hash=hash_, body=body) for seq, hash_, body in found]

    async def audit_rows(self, tenant_id: str, after: int) -> list[AuditRecord]:
        found = await self._readers.rows(queries.AUDIT_OF_ROWS, tenant_id, after)
        return [AuditRecord(tenant_id=tenant_id, seq=seq, hash=hash_, body=body) for seq, hash_, body in found]

    async def audit_seals(self, tenant_id: str, name: str, limit: int) -> list[AuditRecord]:
        found = await self._readers.rows(queries.AUDIT_OF_SEALS, tenant_id, name.encode(), limit)
        return [AuditRecord(tenant_id=tenant_id, seq=seq, hash=hash_, body=body) for seq, hash_, body in found[::-1]]

    async def audit_head(self, tenant_id: str) -> tuple[int, str]:
        found = await self._readers.row(queries.AUDIT_HEAD, tenant_id)
        return (int(found[0]), str(found[1])) if found else (0, FIRST_PREV)

    async def audit_tree(self, tenant_id: str) -> tuple[int, bytes]:
        found = await self._readers.row(queries.AUDIT_TREE, tenant_id)
        return (int(found[0]), Frontier(found[0], found[2]).root()) if found else (0, EMPTY_ROOT)

    async def audit_hashes(self, tenant_id: str, spans: Sequence[SubtreeHashes]) -> list[list[bytes]]:
        return [await self._audit_span(tenant_id, span) for span in spans]

    async def _audit_span(self, tenant_id: str, span: SubtreeHashes) -> list[bytes]:
        if span.level:
            found = await self._readers.rows(queries.AUDIT_NODES, tenant_id, *span)
            return [row[0] for row in found]
        found = await self._readers.rows(queries.AUDIT_LEAVES, tenant_id, span.start, span.end)
        return [bytes.fromhex(row[0]) for row in found]

    async def audit_personal(self, tenant_id: str, who: str | None, limit: int) -> list[int]:
        return [row[0] for row in await self._readers.rows(queries.AUDIT_PERSONAL_OF, tenant_id, who, limit)]

    async def fact(self, name: str) -> str | None:
        found = await self._readers.row(queries.STORE_VALUE, name)
        return str(found[0]) if found else None

    async def audit_tenants(self) -> list[str]:
        return [row[0] for row in await self._readers.rows(queries.AUDIT_TENANTS)]

    async def transcript_pending(
        self, of: tuple[str, str] | None = None, limit: int | None = None
    ) -> list[TranscriptLine]:
        if self._keeps_transcripts:
            return []  # They are where they belong, in the transaction that made them.
        asked = (queries.TRANSCRIPT_PENDING,) if of is None else (queries.TRANSCRIPT_PENDING_OF, *of)
        return [TranscriptLine(tenant_id=tenant_id, session_id=session_id, entry_id=entry_id, line=line)
                for tenant_id, session_id, entry_id, line in await self._readers.rows(*asked, limit)]
