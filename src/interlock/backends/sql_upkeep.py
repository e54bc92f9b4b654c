"""Maintenance that SQLite and PostgreSQL share: counts, and deletion of old data in small steps (G-5)."""

from __future__ import annotations

from abc import ABC, abstractmethod

from interlock.backends import rows
from interlock.backends.sql_reads import ReadersT, SqlReading
from interlock.ports.upkeep import Counts, PrunedRows
from interlock.protocol.clock import iso
from interlock.protocol.records import SessionRecord

STEP_ROWS = 1_000
"""Maximum number of rows of a kind that one transaction deletes: others' commits wait for milliseconds only."""


class SqlUpkeep(SqlReading[ReadersT], ABC):
    """See `interlock.ports.upkeep.Upkeep`. What a transaction does is the engine's own."""

    @abstractmethod
    async def _forget_step(self, tenant_id: str, session_id: str, before_ms: int) -> PrunedRows:
        """Do one step of `forget_session`; nothing if the session is not old, or all is done."""

    @abstractmethod
    async def _delete(self, statement: str, *values: str | int) -> int:
        """Run a statement in a transaction of its own; returns how many rows it has deleted."""

    async def counts(self) -> Counts:
        by_kind: dict[str, dict[str, int]] = {"command": {}, "approval": {}, "delivery": {}, "session": {}}
        for kind, state, count in await self._readers.rows(self._queries.COUNTS):
            by_kind[kind][state] = count
        return Counts(by_kind["command"], by_kind["approval"], by_kind["delivery"], by_kind["session"].get("", 0))

    async def old_sessions(self, tenant_id: str, before_ms: int, after: str, limit: int) -> list[str]:
        found = await self._readers.rows(self._queries.OLD_SESSIONS, tenant_id, before_ms, after, limit)
        return [row[0] for row in found]

    async def forget_session(self, tenant_id: str, session_id: str, before_ms: int) -> PrunedRows:
        total = PrunedRows()
        while (now := await self._forget_step(tenant_id, session_id, before_ms)) != PrunedRows():
            total += now
        return total

    async def forget_feed(self, tenant_id: str, before_ms: int, *, dry: bool = False) -> int:
        if dry:
            return await self._counted(self._queries.OLD_FEED, tenant_id, before_ms)
        return await self._delete_all(self._queries.FORGET_FEED, tenant_id, before_ms)

    async def forget_deliveries(self, tenant_id: str, before_ms: int, *, dry: bool = False) -> int:
        if dry:
            return await self._counted(self._queries.OLD_DELIVERIES, tenant_id, iso(before_ms))
        return await self._delete_all(self._queries.FORGET_DELIVERIES, tenant_id, iso(before_ms))

    async def prune_idempotency(self, before_ms: int) -> int:
        return await self._delete_all(self._queries.PRUNE_IDEMPOTENCY, before_ms)

    async def current_sessions(self, tenant_id: str, agent_id: str, after: str, limit: int) -> list[SessionRecord]:
        # A semicolon follows a colon in order: all keys of the agent are between the two.
        found = await self._readers.rows(self._queries.CURRENT_SESSIONS, tenant_id, max(after, f"agent:{agent_id}:"),
                                         f"agent:{agent_id};", limit)
        return [rows.session_of(row) for row in found]

    async def _counted(self, statement: str, *values: str | int) -> int:
        return int((await self._readers.row(statement, *values))[0])

    async def _delete_all(self, statement: str, *values: str | int) -> int:
        """Run a statement, whose last value is the number of rows, until it has no more rows to delete."""
        total, now = 0, STEP_ROWS
        while now == STEP_ROWS:
            now = await self._delete(statement, *values, STEP_ROWS)
            total += now
        return total
