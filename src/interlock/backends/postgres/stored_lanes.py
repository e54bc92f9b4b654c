"""Reads of many lanes with the same few statements as one: their rows, then what their state requires in addition."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from interlock.backends import rows
from interlock.backends.postgres import queries
from interlock.backends.postgres.database import PostgresReaders, Row
from interlock.backends.postgres.texts import encoded, encoded_lane, lane_columns
from interlock.ports.ledger import LaneName
from interlock.ports.stored_lanes import LaneHistory, LaneQuestion, SessionClock, StoredLane
from interlock.protocol.identifiers import COMMAND_PREFIX
from interlock.protocol.records import AuditRecord, ControlRecord, Event


async def clocks(readers: PostgresReaders, named: Sequence[LaneName]) -> list[SessionClock]:
    """Return clocks of lanes; see `LaneReads.session_clocks`. Raises LedgerError."""
    return [SessionClock(*row) for row in await readers.rows(queries.SESSION_CLOCKS, *_named(named))]


async def lanes(readers: PostgresReaders, named: Sequence[LaneName], received: int, *, pending: bool
                ) -> dict[str, StoredLane]:
    """See `LaneReads.stored_lanes`; `pending` is whether transcript lines wait for files. Raises LedgerError."""
    if not named:
        return {}
    wanted = _named(named)
    sessions, parts = await asyncio.gather(readers.rows(queries.SESSIONS_NAMED, *wanted),
                                           readers.rows(queries.LANE_PARTS, *wanted, received, pending))
    of: dict[str, dict[str, list[Row]]] = {}
    for session_id, part, *row in parts:
        of.setdefault(session_id, {}).setdefault(part, []).append(tuple(row))
    return {row[0]: _lane(row, of.get(row[0], {})) for row in sessions}


def _lane(session: Row, parts: dict[str, list[Row]]) -> StoredLane:
    """Return a lane from its session's columns and its parts, each of (number, text, body)."""
    def part(name: str) -> list[Row]:
        return sorted(parts.get(name, ()), key=_number)

    return StoredLane(
        session=rows.session_of(session),
        commands=[rows.command_of((body,)) for _, _, body in part("command")],
        approvals=[rows.approval_of((body,)) for _, _, body in part("approval")],
        received=[message_id for _, message_id, _ in part("received")],
        controls=[ControlRecord(session_id=session[0], seq=seq, message_id=message_id, body=body)
                  for seq, message_id, body in part("control")],
        pending=[entry_id for _, entry_id, _ in part("pending")])


async def histories(readers: PostgresReaders, questions: Sequence[LaneQuestion], events: int, seals: int
                    ) -> list[LaneHistory]:
    """See `LaneReads.lane_histories`. Raises LedgerError."""
    if not questions:
        return []
    read_on = [(place, one) for place, one in enumerate(questions) if one.after is not None]
    tails = [(place, encoded(one.stream), one.after) for place, one in read_on]
    about = [(place, encoded(one.tenant_id), encoded(subject))
             for place, one in enumerate(questions) for subject in one.subjects]
    commands = [row for row in about if row[2].startswith(COMMAND_PREFIX)]
    others = [row for row in about if not row[2].startswith(COMMAND_PREFIX)]
    sealing = [(place, encoded(one.tenant_id), one.seals_of.encode()) for place, one in enumerate(questions)]
    found = await readers.rows(queries.LANE_HISTORIES, *_columns(tails), events, *_columns(commands),
                               *_columns(others), *_columns(sealing), seals,
                               [encoded(one.tenant_id) for _, one in read_on])
    of: dict[tuple[int, str], list[Row]] = {}
    for place, part, *row in found:
        of.setdefault((place, part), []).append(tuple(row))
    return [_history(one, {part: sorted(of.get((place, part), ()), key=_number)
                           for part in ("event", "about", "seal")}) for place, one in enumerate(questions)]


def _history(question: LaneQuestion, parts: dict[str, list[Row]]) -> LaneHistory:
    """Return an answer from rows of (number, text, hash or message id, kind, time, body)."""
    about: dict[str, list[AuditRecord]] = {one: [] for one in question.subjects}
    for row in parts["about"]:
        about[row[1]].append(_record(question.tenant_id, row))
    return LaneHistory(
        events=[Event(stream=question.stream, n=n, kind=kind, at_ms=at_ms, body=body, message_id=message_id)
                for n, _, message_id, kind, at_ms, body in parts["event"]],
        about=about, seals=[_record(question.tenant_id, row) for row in parts["seal"]])


def _record(tenant_id: str, row: Row) -> AuditRecord:
    seq, _, hash_, _, _, body = row
    return AuditRecord(tenant_id=tenant_id, seq=seq, hash=hash_, body=body)


def _named(named: Sequence[LaneName]) -> tuple[list[str], list[str]]:
    """Return the tenants and the names of lanes, each lane once."""
    return lane_columns(encoded_lane(one) for one in dict.fromkeys(named))


def _number(row: Row) -> int:
    return int(row[0])


def _columns(table: Iterable[Row]) -> list[list[Any]]:
    """Convert rows of three to a list for each column."""
    return [list(column) for column in zip(*table, strict=True)] or [[], [], []]
