"""Transcript lines that are written in the transaction of the ledger that creates them (X-3)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from interlock.backends.postgres.database import PostgresConnection
from interlock.backends.postgres.operations import columns
from interlock.backends.postgres.single import NotAtOnce, Single
from interlock.backends.postgres.texts import decoded
from interlock.ports.ledger import LedgerError
from interlock.ports.transcripts import TranscriptHeader
from interlock.protocol.clock import iso
from interlock.protocol.records import TranscriptLine
from interlock.session.transcript.entries import BadLine, check_line, header_line

KNOWN_TRANSCRIPTS = 65_536
"""Sessions that are known to have a transcript; beyond it the oldest are looked up again."""

GROW = """
UPDATE transcript SET lines = transcript.lines + args.added
FROM unnest($1::text[], $2::text[], $3::bigint[]) AS args (tenant_id, session_id, added)
WHERE transcript.tenant_id = args.tenant_id AND transcript.session_id = args.session_id AND transcript.kept = ''
RETURNING transcript.session_id, lines
"""
ADD_LINES = """
INSERT INTO transcript_line (tenant_id, session_id, n, entry_id, line)
SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::bytea[])
    AS args (tenant_id, session_id, n, entry_id, line)
WHERE NOT EXISTS (SELECT 1 FROM transcript_line AS there WHERE there.tenant_id = args.tenant_id
                  AND there.session_id = args.session_id AND there.entry_id = args.entry_id AND there.kept = '')
"""
"""An existing entry stays unchanged. Its number is used up nevertheless, which is harmless."""
HEADERS = """
SELECT s.session_id, s.agent_id, s.workspace, s.created_ms, s.tenant_id
FROM unnest($1::text[], $2::text[]) AS wanted (tenant_id, session_id)
JOIN session AS s ON s.tenant_id = wanted.tenant_id AND s.session_id = wanted.session_id
"""
BEGUN = """
SELECT t.session_id FROM unnest($1::text[], $2::text[]) AS wanted (tenant_id, session_id)
JOIN transcript AS t ON t.tenant_id = wanted.tenant_id AND t.session_id = wanted.session_id AND t.kept = ''
"""
BEGIN_TRANSCRIPT = """
INSERT INTO transcript (tenant_id, session_id, agent_id, lines) SELECT tenant_id, session_id, agent_id, 0
FROM unnest($1::text[], $2::text[], $3::text[]) AS args (tenant_id, session_id, agent_id)
ON CONFLICT (tenant_id, session_id, kept) DO NOTHING RETURNING session_id
"""
ADD_HEADERS = """
INSERT INTO transcript_line (tenant_id, session_id, n, line)
SELECT tenant_id, session_id, 0, line
FROM unnest($1::text[], $2::text[], $3::bytea[]) AS args (tenant_id, session_id, line)
"""


_PLACE_LINES = """
INSERT INTO transcript_line (tenant_id, session_id, n, entry_id, line)
SELECT args.tenant_id, args.session_id, grown_lines.lines - args.before, args.entry_id, args.line
FROM unnest($4::text[], $5::text[], $6::bigint[], $7::text[], $8::bytea[])
    AS args (tenant_id, session_id, before, entry_id, line)
JOIN grown_lines ON grown_lines.session_id = args.session_id
WHERE NOT EXISTS (SELECT 1 FROM transcript_line AS there WHERE there.tenant_id = args.tenant_id
                  AND there.session_id = args.session_id AND there.entry_id = args.entry_id AND there.kept = '')
"""


class Entries:
    """The writer of lines in the transaction of its caller. It caches only final facts about a transcript that
    began."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, None] = OrderedDict()

    async def add(self, connection: PostgresConnection, lines: Sequence[TranscriptLine]) -> None:
        """Append lines of any sessions, in their order. Raises LedgerError."""
        kept = _checked(lines)
        fresh = self._unknown(kept)
        if fresh:
            found = await connection.fetch(HEADERS, *columns(fresh))
            headers = [TranscriptHeader(decoded(session_id), decoded(agent_id), decoded(workspace), iso(created_ms),
                                        decoded(tenant_id))
                       for session_id, agent_id, workspace, created_ms, tenant_id in found]
            missing = {session_id for _, session_id in fresh} - {header.session_id for header in headers}
            if missing:
                raise LedgerError(f"There is no session {min(missing)} whose transcript this could be.")
            await begin(connection, headers)
        await append(connection, kept)
        for _, session_id in fresh:
            self._note(session_id)

    async def look(self, connection: PostgresConnection, lines: Sequence[TranscriptLine]) -> None:
        """Find which transcripts of these lines have begun: those of sessions that another gateway owned have."""
        if unknown := self._unknown(lines):
            for (session_id,) in await connection.fetch(BEGUN, *columns(unknown)):
                self._note(decoded(session_id))

    def _unknown(self, lines: Sequence[TranscriptLine]) -> list[tuple[str, str]]:
        """Return the sessions, each with its tenant before it, whose transcripts may not have begun."""
        return sorted({(line.tenant_id, line.session_id) for line in lines if line.session_id not in self._known})

    def add_to(self, single: Single, lines: Sequence[TranscriptLine]) -> None:
        """Make a statement append lines. Raises LedgerError, and NotAtOnce if a transcript may not have begun."""
        kept = _checked(lines)
        if self._unknown(kept):
            raise NotAtOnce("transcript")
        added = _counted(kept)
        left = dict(added)
        rows: list[tuple[object, ...]] = []
        for line in kept:
            name = line.tenant_id, line.session_id
            left[name] -= 1
            rows.append((*name, left[name], line.entry_id, line.line))
        single.add((("grown_lines", GROW), ("placed_lines", _PLACE_LINES)),
                   [*columns((*name, count) for name, count in added.items()), *columns(rows)])
        single.check("transcript", "grown_lines", len(added))

    def _note(self, session_id: str) -> None:
        self._known[session_id] = None
        if len(self._known) > KNOWN_TRANSCRIPTS:
            self._known.popitem(last=False)

    def forget(self) -> None:
        """Clear the cache after a rollback, which may have undone the begin of one."""
        self._known.clear()


def _checked(lines: Sequence[TranscriptLine]) -> list[TranscriptLine]:
    """Return the lines, of those with one id the first. Raises LedgerError."""
    for line in lines:
        try:
            check_line(line)
        except BadLine as error:
            raise LedgerError(f"The transcript of session {line.session_id} cannot have this: {error}.") from error
    unique = {(line.session_id, line.entry_id): line for line in reversed(lines)}
    return list(reversed(unique.values()))


async def begin(connection: PostgresConnection, headers: Sequence[TranscriptHeader]) -> None:
    """Begin the transcripts that are not there."""
    made = {header.session_id: header for header in headers}
    begun = await connection.fetch(BEGIN_TRANSCRIPT, *columns(
        (one.tenant_id, one.session_id, one.agent_id) for one in made.values()))
    heads = [made[decoded(name)] for (name,) in begun]
    if heads:
        await connection.execute(ADD_HEADERS, *columns(
            (one.tenant_id, one.session_id, header_line(one.session_id, one.timestamp, one.cwd)) for one in heads))


async def append(connection: PostgresConnection, lines: Sequence[TranscriptLine]) -> None:
    """Append lines to existing transcripts; lines that they have already are skipped."""
    added = _counted(lines)
    found = await connection.fetch(GROW, *columns((*name, count) for name, count in added.items()))
    totals = {decoded(session_id): total for session_id, total in found}
    last = {name: totals[name[1]] - count for name, count in added.items()}
    rows: list[tuple[object, ...]] = []
    for line in lines:
        name = line.tenant_id, line.session_id
        last[name] += 1
        rows.append((*name, last[name], line.entry_id, line.line))
    await connection.execute(ADD_LINES, *columns(rows))


def _counted(lines: Sequence[TranscriptLine]) -> dict[tuple[str, str], int]:
    """Count lines by tenant and session, in the order in which transcripts are locked."""
    added: dict[tuple[str, str], int] = {}
    for line in lines:
        name = line.tenant_id, line.session_id
        added[name] = added.get(name, 0) + 1
    return dict(sorted(added.items()))
