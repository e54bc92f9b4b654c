"""Reads of the ledger on PostgreSQL: one statement each, on a few connections beside the writer's."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.backends import rows
from interlock.backends.postgres import entities, queries, stored_lanes
from interlock.backends.postgres.audit_rows import record_of
from interlock.backends.postgres.database import PostgresReaders
from interlock.backends.sql_reads import END_OF_TIME, SqlReading, events_of
from interlock.command.audit.audit_tree import SubtreeHashes
from interlock.ports.ledger import (
    EVERY_SESSION,
    LaneName,
    SessionFilter,
    StoredBallot,
)
from interlock.ports.stored_lanes import LaneHistory, LaneQuestion, SessionClock, StoredLane
from interlock.protocol.records import (
    ApprovalRecord,
    AuditRecord,
    Event,
    IdempotencyRecord,
    SessionRecord,
    TranscriptLine,
)


class PostgresReading(SqlReading[PostgresReaders]):
    """The half of the ledger that reads."""

    _queries = queries
    _entities = entities
    _readers: PostgresReaders
    _lane_readers: PostgresReaders
    _keeps_transcripts: bool

    async def events(self, tenant_id: str, stream: str, after: int, limit: int) -> list[Event]:
        found = await self._readers.rows(queries.EVENTS_AFTER, tenant_id, stream, after, limit)
        return events_of(stream, found)

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

    async def sessions(self, tenant_id: str, limit: int, before: tuple[int, str] | None = None,
                       only: SessionFilter = EVERY_SESSION) -> list[SessionRecord]:
        ids = None if only.session_ids is None else list(only.session_ids)
        found = await self._readers.rows(
            queries.SESSIONS, tenant_id, *(before or (END_OF_TIME, "")), limit, *only[:-1], ids)
        return [rows.session_of(row) for row in found]

    async def runner_sessions(self, runner_id: str, tenant_id: str) -> list[SessionRecord]:
        found = await self._lane_readers.rows(queries.RUNNER_SESSIONS, runner_id, tenant_id)
        return [rows.session_of(row) for row in found]

    async def session_clocks(self, lanes: Sequence[LaneName]) -> list[SessionClock]:
        return await stored_lanes.clocks(self._lane_readers, lanes)

    async def stored_lanes(self, lanes: Sequence[LaneName], received: int) -> dict[str, StoredLane]:
        return await stored_lanes.lanes(self._lane_readers, lanes, received, pending=not self._keeps_transcripts)

    async def lane_histories(self, questions: Sequence[LaneQuestion], events: int, seals: int) -> list[LaneHistory]:
        return await stored_lanes.histories(self._lane_readers, questions, events, seals)

    async def executes_since(self, tenant_id: str, actor_id: str | None, since_ms: int) -> int:
        found = await self._readers.row(queries.EXECUTES_SINCE, tenant_id, actor_id, since_ms)
        return int(found[0]) if found else 0

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

    async def idempotency(self, scope: str, tenant_id: str) -> IdempotencyRecord | None:
        found = await self._readers.row(queries.IDEMPOTENCY, scope, tenant_id)
        return rows.idempotency_of(tenant_id, scope, found) if found else None

    async def audit(self, tenant_id: str, after: int, limit: int) -> list[AuditRecord]:
        found = await self._readers.rows(queries.AUDIT_AFTER, tenant_id, after, limit)
        return [record_of(tenant_id, row) for row in found]

    async def audit_hashes(self, tenant_id: str, spans: Sequence[SubtreeHashes]) -> list[list[bytes]]:
        return [await self._audit_span(tenant_id, span) for span in spans]

    async def _audit_span(self, tenant_id: str, span: SubtreeHashes) -> list[bytes]:
        if span.level:
            found = await self._readers.rows(queries.AUDIT_NODES, tenant_id, *span)
            return [row[0] for row in found]
        found = await self._readers.rows(queries.AUDIT_LEAVES, tenant_id, span.start, span.end)
        return [bytes.fromhex(row[0]) for row in found]

    async def transcript_pending(
        self, of: tuple[str, str] | None = None, limit: int | None = None
    ) -> list[TranscriptLine]:
        if self._keeps_transcripts:
            return []  # They are stored in the transaction that created them.
        query = (queries.TRANSCRIPT_PENDING,) if of is None else (queries.TRANSCRIPT_PENDING_OF, *of)
        return [TranscriptLine(tenant_id=tenant_id, session_id=session_id, entry_id=entry_id, line=line)
                for tenant_id, session_id, entry_id, line in await self._readers.rows(*query, limit)]
