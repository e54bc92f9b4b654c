"""Reads that SQLite and PostgreSQL share; the statement of each is their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from interlock.backends import entity_rows, rows, usage_sums
from interlock.command.audit.audit import FIRST_PREV
from interlock.command.audit.audit_tree import EMPTY_ROOT, Frontier
from interlock.ports.entities import Entity, RowCondition
from interlock.ports.ledger import CommandQuery, Due, Ledger
from interlock.ports.usage import UsageQuery, UsageSums
from interlock.protocol.identifiers import COMMAND_PREFIX
from interlock.protocol.records import (
    ApprovalRecord,
    AuditRecord,
    CommandRecord,
    ControlRecord,
    Event,
    FileRecord,
    Record,
    SessionRecord,
)

END_OF_TIME = 2**62
"""An instant after every other: a list without a cursor begins there."""
R = TypeVar("R", bound=Record)


class SqlReaders(Protocol):
    """Connections that read: all rows of a query, or its first, None if there is none. Both raise LedgerError."""

    async def rows(self, sql: str, *values: Any) -> list[Any]: ...

    async def row(self, sql: str, *values: Any) -> Any: ...


ReadersT = TypeVar("ReadersT", bound=SqlReaders)


class SqlReading(Ledger, Generic[ReadersT]):
    """The reads whose parameters and results are the same for both engines."""

    _queries: ClassVar[Any]
    """The engine's module `queries`."""
    _entities: ClassVar[Any]
    """The engine's module `entities`."""
    _readers: ReadersT

    async def session_by_key(self, tenant_id: str, session_key: str) -> SessionRecord | None:
        found = await self._readers.row(self._queries.SESSION_BY_KEY, tenant_id, session_key)
        return rows.session_of(found) if found else None

    async def key_sessions(self, tenant_id: str, session_key: str, limit: int) -> list[SessionRecord]:
        found = await self._readers.rows(self._queries.KEY_SESSIONS, tenant_id, session_key, limit)
        return [rows.session_of(row) for row in found]

    async def due_sessions(self) -> list[Due]:
        return [Due(*row) for row in await self._readers.rows(self._queries.DUE_SESSIONS)]

    async def command(self, command_id: str, tenant_id: str) -> CommandRecord | None:
        found = await self._readers.row(self._queries.COMMAND, command_id, tenant_id)
        return rows.command_of(found) if found else None

    async def commands(self, query: CommandQuery) -> list[CommandRecord]:
        wanted = {"state": query.state, "agent_id": query.agent_id, "session_id": query.session_id,
                  "actor_id": query.actor_id, "type": query.type}  # fmt: skip
        filters = {column: value for column, value in wanted.items() if value is not None}
        page = () if query.before is None else (query.before,)
        sql = self._queries.commands(tuple(filters), paged=bool(page))
        found = await self._readers.rows(sql, query.tenant_id, *filters.values(), *page, query.limit)
        return [rows.command_of(row) for row in found]

    async def live_commands(self, session_id: str, tenant_id: str) -> list[CommandRecord]:
        found = await self._readers.rows(self._queries.LIVE_COMMANDS, session_id, tenant_id)
        return [rows.command_of(row) for row in found]

    async def approval(self, approval_id: str, tenant_id: str) -> ApprovalRecord | None:
        found = await self._readers.row(self._queries.APPROVAL, approval_id, tenant_id)
        return rows.approval_of(found) if found else None

    async def live_approvals(self, session_id: str, tenant_id: str) -> list[ApprovalRecord]:
        found = await self._readers.rows(self._queries.LIVE_APPROVALS, session_id, tenant_id)
        return [rows.approval_of(row) for row in found]

    async def controls(self, session_id: str, tenant_id: str, after: int) -> list[ControlRecord]:
        found = await self._readers.rows(self._queries.CONTROLS_AFTER, session_id, tenant_id, after)
        return [
            ControlRecord(session_id=session_id, seq=seq, message_id=message_id, body=body)
            for seq, message_id, body in found
        ]

    async def file(self, session_id: str, tenant_id: str, transfer_id: str) -> FileRecord | None:
        found = await self._readers.row(self._queries.FILE, session_id, tenant_id, transfer_id)
        return rows.file_of(found[0]) if found else None

    async def files(self, session_id: str, tenant_id: str, after: int, limit: int) -> list[tuple[int, FileRecord]]:
        found = await self._readers.rows(self._queries.FILES, session_id, tenant_id, after, limit)
        return [(int(place), rows.file_of(body)) for place, body in found]

    async def usage(self, query: UsageQuery) -> UsageSums:
        values = usage_sums.parameters(query)
        found = await self._readers.rows(self._queries.usage(query.by), *values)
        return usage_sums.read(query, found, (await self._readers.rows(self._queries.usage(frozenset()), *values))[0])

    async def select(self, entity: Entity[R], where: Sequence[RowCondition], order: Sequence[str], limit: int | None
                     ) -> list[R]:
        sql = self._entities.select_sql(entity, entity_rows.shape(where), tuple(order), limited=limit is not None)
        found = await self._readers.rows(sql, *self._entities.bound(where), *(() if limit is None else (limit,)))
        return [entity_rows.record_of(entity, row) for row in found]

    async def count(self, entity: Entity[R], *where: RowCondition) -> int:
        sql = self._entities.count_sql(entity, entity_rows.shape(where))
        found = await self._readers.row(sql, *self._entities.bound(where))
        return int(found[0]) if found else 0

    async def audit_about(self, tenant_id: str, subject_id: str) -> list[AuditRecord]:
        of_command = subject_id.startswith(COMMAND_PREFIX)
        return await self._audited(tenant_id, self._queries.AUDIT_OF_COMMAND if of_command
                                   else self._queries.AUDIT_OF_APPROVAL, subject_id)

    async def audit_rows(self, tenant_id: str, after: int) -> list[AuditRecord]:
        return await self._audited(tenant_id, self._queries.AUDIT_OF_ROWS, after)

    async def audit_seals(self, tenant_id: str, name: str, limit: int) -> list[AuditRecord]:
        return (await self._audited(tenant_id, self._queries.AUDIT_OF_SEALS, name.encode(), limit))[::-1]

    async def _audited(self, tenant_id: str, sql: str, *values: Any) -> list[AuditRecord]:
        """Read records without their personal values."""
        return [AuditRecord(tenant_id=tenant_id, seq=seq, hash=hash_, body=body)
                for seq, hash_, body in await self._readers.rows(sql, tenant_id, *values)]

    async def audit_head(self, tenant_id: str) -> tuple[int, str]:
        found = await self._readers.row(self._queries.AUDIT_HEAD, tenant_id)
        return (int(found[0]), str(found[1])) if found else (0, FIRST_PREV)

    async def audit_tree(self, tenant_id: str) -> tuple[int, bytes]:
        found = await self._readers.row(self._queries.AUDIT_TREE, tenant_id)
        return (int(found[0]), Frontier(found[0], found[2]).root()) if found else (0, EMPTY_ROOT)

    async def audit_personal(self, tenant_id: str, who: str | None, limit: int) -> list[int]:
        return [row[0] for row in await self._readers.rows(self._queries.AUDIT_PERSONAL_OF, tenant_id, who, limit)]

    async def audit_tenants(self) -> list[str]:
        return [row[0] for row in await self._readers.rows(self._queries.AUDIT_TENANTS)]

    async def fact(self, name: str) -> str | None:
        found = await self._readers.row(self._queries.STORE_VALUE, name)
        return str(found[0]) if found else None


def events_of(stream: str, found: Sequence[Any]) -> list[Event]:
    """Read rows of a stream: (n, kind, at_ms, body, message_id)."""
    return [Event(stream=stream, n=n, kind=kind, at_ms=at_ms, body=body, message_id=message_id)
            for n, kind, at_ms, body, message_id in found]
