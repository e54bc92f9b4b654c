"""Transcripts in the ledger's database: what the ledger commits is in its transcript at once (X-3)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from itertools import islice
from typing import TypeVar

from interlock.backends.postgres.database import PostgresConnection
from interlock.backends.postgres.entries import append, begin
from interlock.backends.postgres.ledger import PostgresLedger
from interlock.backends.postgres.operations import columns
from interlock.backends.postgres.texts import encoded
from interlock.ports.clock import Clock
from interlock.ports.ledger import LedgerError
from interlock.ports.transcripts import KeptEntries, Rewrite, TranscriptHeader, TranscriptPage, TranscriptStore
from interlock.protocol.clock import iso
from interlock.protocol.records import TranscriptLine
from interlock.session.context.context import ModelContext, context
from interlock.session.transcript.entries import check_line, read_stub
from interlock.session.transcript.tree import Tree, read_tree

T = TypeVar("T")

THREAD_BYTES = 64 * 1024
"""A transcript larger than this is parsed as a tree on a thread, so that nothing else waits for it."""
LINES_AT_ONCE = 1_000
"""Lines of a transcript that are sent to the database together."""
REWRITE_TRIES = 8
"""Maximum reads of a transcript that grows while it is rewritten."""

_OF = (
    "FROM transcript_line JOIN transcript USING (tenant_id, session_id, kept) "
    "WHERE session_id = $1 AND agent_id = $2 AND tenant_id = $3 AND kept = ''"
)
LINES = f"SELECT line {_OF} ORDER BY n"
ENTRY_IDS = f"SELECT entry_id {_OF} AND entry_id IS NOT NULL"
LEAF = f"SELECT entry_id {_OF} AND entry_id IS NOT NULL ORDER BY n DESC LIMIT 1"
KEPT_ENTRIES = """
SELECT wanted.place, line.entry_id
FROM unnest($1::int[], $2::text[], $3::text[], $4::text[]) AS wanted (place, session_id, agent_id, tenant_id)
JOIN transcript USING (tenant_id, session_id, agent_id)
JOIN transcript_line AS line USING (tenant_id, session_id, kept)
WHERE kept = '' AND line.entry_id IS NOT NULL ORDER BY wanted.place, line.n
"""
PAGE = f"SELECT line {_OF} AND entry_id IS NOT NULL ORDER BY n OFFSET $4 LIMIT $5"
ENTRIES = f"SELECT count(*) {_OF} AND entry_id IS NOT NULL"
GROWN_TO = "SELECT lines FROM transcript WHERE session_id = $1 AND agent_id = $2 AND tenant_id = $3 AND kept = ''"
HOLD = f"{GROWN_TO} FOR UPDATE"
PUBLISH = """
INSERT INTO transcript (session_id, agent_id, tenant_id, lines) VALUES ($1, $2, $3, $4)
ON CONFLICT (tenant_id, session_id, kept) DO NOTHING RETURNING 1
"""
ADD_WHOLE = """
INSERT INTO transcript_line (tenant_id, session_id, n, entry_id, line)
SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::bytea[])
"""
SET_ASIDE = "UPDATE transcript SET kept = $3 WHERE session_id = $1 AND tenant_id = $2 AND kept = ''"
SET_LINES_ASIDE = "UPDATE transcript_line SET kept = $3 WHERE session_id = $1 AND tenant_id = $2 AND kept = ''"


class PostgresTranscripts(TranscriptStore):
    """Transcripts on PostgreSQL; see `interlock.ports.transcripts.Transcripts`. It shares the connections of its
    ledger, and is closed with it."""

    def __init__(self, ledger: PostgresLedger, clock: Clock) -> None:
        self._ledger = ledger
        self._readers = ledger.readers
        self._clock = clock

    async def append(self, header: TranscriptHeader, lines: Sequence[TranscriptLine]) -> None:
        for line in lines:
            check_line(line)
        first = {line.entry_id: line for line in reversed(lines)}

        async def add(connection: PostgresConnection) -> None:
            await begin(connection, [header])
            if first:
                await append(connection, list(reversed(first.values())))

        await _kept(self._ledger.transact(add))

    async def ids(self, session_id: str, agent_id: str, tenant_id: str) -> set[str]:
        return {row[0] for row in await _kept(self._readers.rows(ENTRY_IDS, session_id, agent_id, tenant_id))}

    async def leaf(self, session_id: str, agent_id: str, tenant_id: str) -> str | None:
        found = await _kept(self._readers.row(LEAF, session_id, agent_id, tenant_id))
        return found[0] if found is not None else None

    async def kept_entries(self, of: Sequence[tuple[str, str, str]]) -> list[KeptEntries | OSError]:
        columns = [[encoded(one) for one in column] for column in zip(*of, strict=True)] or [[], [], []]
        try:
            found = await _kept(self._ledger.lane_readers.rows(KEPT_ENTRIES, list(range(len(of))), *columns))
        except OSError as error:
            return [error for _ in of]
        entries: dict[int, list[str]] = {place: [] for place in range(len(of))}
        for place, entry_id in found:
            entries[place].append(entry_id)
        return [KeptEntries(set(ids), ids[-1] if ids else None) for ids in entries.values()]

    async def read(self, session_id: str, agent_id: str, tenant_id: str) -> list[bytes]:
        return [row[0] for row in await _kept(self._readers.rows(LINES, session_id, agent_id, tenant_id))]

    async def tree(self, session_id: str, agent_id: str, tenant_id: str) -> Tree:
        lines = await self.read(session_id, agent_id, tenant_id)
        if sum(map(len, lines)) > THREAD_BYTES:
            return await asyncio.to_thread(read_tree, lines)
        return read_tree(lines)

    async def trunk(self, session_id: str, agent_id: str, tenant_id: str) -> Tree:
        return await self.tree(session_id, agent_id, tenant_id)

    async def page(self, session_id: str, agent_id: str, tenant_id: str, after: int, limit: int) -> TranscriptPage:
        counted = await _kept(self._readers.row(ENTRIES, session_id, agent_id, tenant_id))
        found = await _kept(self._readers.rows(PAGE, session_id, agent_id, tenant_id, after, limit))
        return TranscriptPage([row[0] for row in found], counted[0] if counted is not None else 0)

    async def context(self, session_id: str, agent_id: str, tenant_id: str) -> ModelContext:
        return context(await self.tree(session_id, agent_id, tenant_id))

    async def publish(self, session_id: str, agent_id: str, tenant_id: str, lines: Iterable[bytes]) -> None:
        count = await asyncio.to_thread(lambda: sum(1 for _ in lines))

        async def publish(connection: PostgresConnection) -> bool:
            names = encoded(session_id), encoded(agent_id), encoded(tenant_id)
            if await connection.fetchval(PUBLISH, *names, count) is None:
                return False
            await _add_whole(connection, tenant_id, session_id, lines)
            return True

        if not await _kept(self._ledger.transact(publish)):
            raise FileExistsError(f"session {session_id} has a transcript")

    async def rewrite(self, session_id: str, agent_id: str, tenant_id: str, change: Rewrite) -> str | None:
        for _ in range(REWRITE_TRIES):
            grown_to = await _kept(self._readers.row(GROWN_TO, session_id, agent_id, tenant_id))
            if grown_to is None:
                raise FileNotFoundError(f"session {session_id} has no transcript")
            data = b"".join(line + b"\n" for line in await self.read(session_id, agent_id, tenant_id))
            # Outside the transaction, since it may take long; whether the transcript is unchanged is checked inside.
            made = await asyncio.to_thread(change, data)
            if made is None:
                return None
            kept = f"{session_id}.jsonl.kept-{iso(self._clock.now_ms())}-{grown_to[0]}"
            if await _kept(self._replace((session_id, agent_id, tenant_id), int(grown_to[0]), made, kept)):
                return kept
        raise OSError(f"the transcript of session {session_id} grows faster than it can be rewritten")

    async def _replace(self, name: tuple[str, str, str], grown_to: int, made: Sequence[bytes], kept: str) -> bool:
        session_id, _, tenant_id = name
        columns = [encoded(one) for one in name]

        async def replace(connection: PostgresConnection) -> bool:
            if await connection.fetchval(HOLD, *columns) != grown_to:
                return False
            for statement in (SET_ASIDE, SET_LINES_ASIDE):
                await connection.execute(statement, encoded(session_id), encoded(tenant_id), kept)
            # Numbers continue after the old ones, so that concurrent appends are detected.
            await connection.fetchval(PUBLISH, *columns, grown_to + len(made))
            await _add_whole(connection, tenant_id, session_id, made)
            return True

        return await self._ledger.transact(replace)

    async def close(self) -> None:
        """Do nothing: the ledger writes."""


async def _add_whole(connection: PostgresConnection, tenant_id: str, session_id: str, lines: Iterable[bytes]) -> None:
    numbered = iter(enumerate(lines))
    while rows := await asyncio.to_thread(_rows, (tenant_id, session_id), islice(numbered, LINES_AT_ONCE)):
        await connection.execute(ADD_WHOLE, *columns(rows))


def _rows(of: tuple[str, str], numbered: Iterable[tuple[int, bytes]]) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for number, line in numbered:
        stub = read_stub(line)
        is_entry = stub is not None and stub.type not in ("", "session")
        rows.append((*of, number, stub.id if stub is not None and is_entry else None, line))
    return rows


async def _kept(reading: Awaitable[T]) -> T:
    """Wait, with the ledger's errors as this port's: the call may be repeated."""
    try:
        return await reading
    except LedgerError as error:
        raise OSError(str(error)) from error
