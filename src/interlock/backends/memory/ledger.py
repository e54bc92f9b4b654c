"""The ledger in dicts: the same guarantees as on a disk, except that nothing outlives the process. For tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

import msgspec

from interlock.backends.memory.entities import drop
from interlock.backends.memory.tables import MemoryTables
from interlock.backends.memory.upkeep import MemoryUpkeep
from interlock.backends.rows import ended_ms
from interlock.command.audit.audit import FIRST_PREV
from interlock.command.audit.audit_tree import SubtreeHashes
from interlock.command.audit.register import MARK
from interlock.command.machine import TERMINAL
from interlock.ports.entities import USAGE
from interlock.ports.ledger import (
    EVERY_SESSION,
    CommandQuery,
    Due,
    LaneName,
    Ledger,
    SessionFilter,
)
from interlock.ports.stored_lanes import SessionClock
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
    SessionRecord,
    TranscriptLine,
    UsageRecord,
)

V = TypeVar("V")


class MemoryLedger(MemoryTables, MemoryUpkeep, Ledger):
    """See `interlock.ports.ledger.Ledger`."""

    def __init__(self, gateway_id: str = "gw_memory") -> None:
        self._gateway_id = gateway_id
        super().__init__()

    async def gateway_id(self) -> str:
        return self._gateway_id

    async def events(self, tenant_id: str, stream: str, after: int, limit: int) -> list[Event]:
        self._check_open()
        return self._streams.after(stream, after, limit) if self._has_stream(tenant_id, stream) else []

    async def head(self, tenant_id: str, stream: str) -> int:
        self._check_open()
        return self._streams.head(stream) if self._has_stream(tenant_id, stream) else 0

    async def recent_message_ids(self, tenant_id: str, stream: str, limit: int) -> list[str]:
        if not self._has_stream(tenant_id, stream):
            return []
        received = (event.message_id for event in self._streams.newest_first(stream)
                    if event.kind in ("C", "refused"))
        return list(islice(received, limit))[::-1]

    async def session(self, session_id: str, tenant_id: str | None = None) -> SessionRecord | None:
        self._check_open()
        record = self._sessions.get(session_id)
        return record if record is not None and tenant_id in (None, record.tenant_id) else None

    async def session_by_key(self, tenant_id: str, session_key: str) -> SessionRecord | None:
        found = [record for record in self._sessions.values()
                 if record.tenant_id == tenant_id and record.session_key == session_key]
        return max(reversed(found), key=lambda record: record.created_ms, default=None)

    async def key_sessions(self, tenant_id: str, session_key: str, limit: int) -> list[SessionRecord]:
        found = [record for record in reversed(self._sessions.values())
                 if record.tenant_id == tenant_id and record.session_key == session_key]
        return sorted(found, key=lambda record: record.created_ms, reverse=True)[:limit]

    async def sessions(self, tenant_id: str, limit: int, before: tuple[int, str] | None = None,
                       only: SessionFilter = EVERY_SESSION) -> list[SessionRecord]:
        found = [record for record in reversed(self._sessions.values()) if record.tenant_id == tenant_id
                 and _fits(record, only) and (before is None or (record.updated_ms, record.session_id) < before)]
        return sorted(found, key=lambda record: (record.updated_ms, record.session_id), reverse=True)[:limit]

    async def runner_sessions(self, runner_id: str, tenant_id: str) -> list[SessionRecord]:
        return [record for record in self._sessions.values()
                if record.runner_id == runner_id and record.tenant_id == tenant_id and record.state != "closed"]

    async def due_sessions(self) -> list[Due]:
        due = [Due(one.session_id, one.deadline_ms, one.state, one.tenant_id) for one in self._sessions.values()
               if one.deadline_ms is not None]
        return sorted(due, key=lambda one: one.deadline_ms)

    async def session_clocks(self, lanes: Sequence[LaneName]) -> list[SessionClock]:
        wanted = sorted(set(lanes), key=lambda lane: lane.name)
        there = ((lane, self._sessions.get(lane.name)) for lane in wanted)
        found = (one for lane, one in there if one is not None and one.tenant_id == lane.tenant_id)
        return [SessionClock(one.session_id, one.runner_id, one.state, one.deadline_ms, one.tenant_id) for one in found]

    async def command(self, command_id: str, tenant_id: str) -> CommandRecord | None:
        self._check_open()
        record = self._commands.get(command_id)
        return record if record is not None and tenant_id == record.command.tenant_id else None

    async def commands(self, query: CommandQuery) -> list[CommandRecord]:
        tenants = {key: record for key, record in self._commands.items()
                   if record.command.tenant_id == query.tenant_id}
        return _page(_before(tenants, query.before), lambda record: _matches(record, query), query.limit)

    async def executes_since(self, tenant_id: str, actor_id: str | None, since_ms: int) -> int:
        return sum(record.command.tenant_id == tenant_id and record.command.type == "execute"
                   and actor_id in (None, record.command.actor.id) and record.created_ms >= since_ms
                   for record in self._commands.values())

    async def live_commands(self, session_id: str, tenant_id: str) -> list[CommandRecord]:
        return [record for record in self._commands.values()
                if record.session_id == session_id and record.command.tenant_id == tenant_id
                and record.command.state not in TERMINAL]

    async def approval(self, approval_id: str, tenant_id: str) -> ApprovalRecord | None:
        self._check_open()
        record = self._approvals.get(approval_id)
        return record if record is not None and tenant_id == record.approval.tenant_id else None

    async def approvals(
        self, tenant_id: str, state: str | None, before: str | None, limit: int
    ) -> list[ApprovalRecord]:
        tenants = {key: record for key, record in self._approvals.items() if record.approval.tenant_id == tenant_id}
        return _page(_before(tenants, before), lambda record: state in (None, record.approval.state), limit)

    async def live_approvals(self, session_id: str, tenant_id: str) -> list[ApprovalRecord]:
        return [record for record in self._approvals.values()
                if record.approval.session_id == session_id and record.approval.tenant_id == tenant_id
                and record.approval.state in ("pending", "granted")]

    async def controls(self, session_id: str, tenant_id: str, after: int) -> list[ControlRecord]:
        found = [record for key, record in self._controls.items()
                 if key[:2] == (tenant_id, session_id) and key[2] > after]
        return sorted(found, key=lambda record: record.seq)

    async def file(self, session_id: str, tenant_id: str, transfer_id: str) -> FileRecord | None:
        self._check_open()
        return self._files.get((tenant_id, session_id, transfer_id))

    async def files(self, session_id: str, tenant_id: str, after: int, limit: int) -> list[tuple[int, FileRecord]]:
        self._check_open()
        placed = [(place, record) for place, (key, record) in enumerate(self._files.items(), 1)
                  if key[:2] == (tenant_id, session_id) and place > after]
        return placed[:limit]

    async def idempotency(self, scope: str, tenant_id: str) -> IdempotencyRecord | None:
        self._check_open()
        return self._idempotency.get((tenant_id, scope))

    async def prune_idempotency(self, before_ms: int) -> int:
        old = [key for key, record in self._idempotency.items()
               if record.created_ms < before_ms and self._ended_before(record.command_id, before_ms)]
        drop(self._idempotency, old, [])
        return len(old)

    def _ended_before(self, command_id: str | None, before_ms: int) -> bool:
        record = self._commands.get(command_id) if command_id else None
        if record is None:
            return True
        ended = ended_ms(record)
        return ended is not None and ended < before_ms

    async def usage(self, query: UsageQuery) -> UsageSums:
        total, sums = UsageRecord(tenant_id=query.tenant_id), dict[UsageRecord, UsageRecord]()
        for one in self._tables[USAGE.table].values():
            if one.tenant_id == query.tenant_id and query.first_day <= one.day <= query.last_day and all(
                    wanted in (None, had) for wanted, had in (
                        (query.agent_id, one.agent_id), (query.model, one.model),
                        (query.session_id, one.session_id), (query.person, one.person))):
                place = UsageRecord(
                    tenant_id=one.tenant_id, day=one.day if "day" in query.by else 0,
                    agent_id=one.agent_id if "agent" in query.by else "",
                    model=one.model if "model" in query.by else "",
                    session_id=one.session_id if "session" in query.by else "",
                    person=one.person if "person" in query.by else "")
                sums[place] = sums.get(place, place).plus(one)
                total = total.plus(one)
        ordered = sorted(sums.values(), key=lambda one: (
            -one.day, -one.input_tokens - one.output_tokens, one.agent_id, one.model, one.session_id, one.person))
        return UsageSums(ordered[:query.limit], len(ordered), total)

    async def audit(self, tenant_id: str, after: int, limit: int) -> list[AuditRecord]:
        return self._audit.records(tenant_id)[after : after + limit]

    async def audit_about(self, tenant_id: str, subject_id: str) -> list[AuditRecord]:
        def is_about(body: dict[str, object]) -> bool:
            command_id = body.get("command_id")
            if subject_id.startswith(COMMAND_PREFIX):
                return command_id == subject_id
            return body.get("approval_id") == subject_id and command_id is None

        found = [record for record in self._audit.records(tenant_id)
                 if subject_id.encode() in record.body and is_about(msgspec.json.decode(record.body))]
        return [msgspec.structs.replace(record, personal={}) for record in found]

    async def audit_rows(self, tenant_id: str, after: int) -> list[AuditRecord]:
        return [msgspec.structs.replace(record, personal={}) for record in self._audit.records(tenant_id)[after:]
                if MARK in record.body]

    async def audit_seals(self, tenant_id: str, name: str, limit: int) -> list[AuditRecord]:
        mark = b'"frames_of":"%s"' % name.encode()
        found = [record for record in self._audit.records(tenant_id) if mark in record.body]
        return [msgspec.structs.replace(record, personal={}) for record in found[-limit:]]

    async def audit_head(self, tenant_id: str) -> tuple[int, str]:
        log = self._audit.records(tenant_id)
        return (log[-1].seq, log[-1].hash) if log else (0, FIRST_PREV)

    async def audit_tree(self, tenant_id: str) -> tuple[int, bytes]:
        return self._audit.tree(tenant_id)

    async def audit_hashes(self, tenant_id: str, spans: Sequence[SubtreeHashes]) -> list[list[bytes]]:
        return [self._audit.hashes(tenant_id, span) for span in spans]

    async def audit_personal(self, tenant_id: str, who: str | None, limit: int) -> list[int]:
        return self._audit.personal(tenant_id, who, limit)


    async def fact(self, name: str) -> str | None:
        return self._facts.get(name)

    async def audit_tenants(self) -> list[str]:
        return self._audit.tenants()

    async def transcript_pending(
        self, of: tuple[str, str] | None = None, limit: int | None = None
    ) -> list[TranscriptLine]:
        lines = [line for line in self._transcript.values() if of in (None, (line.session_id, line.tenant_id))]
        return lines[:limit]

    async def close(self) -> None:
        self._closed = True



def _before(table: Mapping[str, V], before: str | None) -> list[V]:
    """Return records newest first; only those older than `before`, and none if that does not exist."""
    keys = list(table)
    if before is not None:
        keys = keys[: keys.index(before)] if before in table else []
    return [table[key] for key in reversed(keys)]


def _page(found: Iterable[V], wanted: Callable[[V], bool], limit: int) -> list[V]:
    return list(islice((record for record in found if wanted(record)), limit))


def _matches(record: CommandRecord, query: CommandQuery) -> bool:
    command = record.command
    pairs: list[tuple[Any, Any]] = [
        (query.state, command.state),
        (query.agent_id, command.target.agent_id),
        (query.session_id, record.session_id),
        (query.actor_id, command.actor.id),
        (query.type, command.type),
    ]
    return all(wanted is None or wanted == has for wanted, has in pairs)


def _fits(record: SessionRecord, only: SessionFilter) -> bool:
    return (only.state in (None, record.state) and only.agent_id in (None, record.agent_id)
            and only.runner_id in (None, record.runner_id) and only.workspace in (None, record.workspace)
            and only.session_key in (None, record.session_key)
            and (only.session_ids is None or record.session_id in only.session_ids))
