"""The writer of transcript files: lines from the ledger are appended, made durable, then deleted from the ledger (X-3).

The ledger is the queue. What is committed there is written at the latest after the next start, and a line that was
written but not yet deleted is recognised by its id, so that an entry is neither lost nor duplicated.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress

import structlog

from interlock.ports.ledger import DropTranscript, Ledger, WriteBatch
from interlock.ports.transcripts import TranscriptHeader, TranscriptStore
from interlock.protocol.clock import iso
from interlock.protocol.records import TranscriptLine
from interlock.session.keys import topic_of

BATCH_LINES = 128
"""Lines read from the ledger at once: bounds the memory of a batch and the size of the commit that deletes it."""
BATCH_LINES_MAX = 64 * BATCH_LINES
"""A batch grows to this if it holds lines of files that cannot be written, to reach those of other sessions."""
RETRY_MIN_S = 0.25
RETRY_MAX_S = 4.0
"""Maximum delay before a failed file is retried; the delay doubles each time."""
KNOWN_HEADERS = 1_024
"""Sessions whose header is cached."""
_ANY = ""
"""The key, instead of a session id, of failures that concern all sessions."""

log = structlog.get_logger("interlock.transcripts")


class TranscriptWriter:
    """The writer task. A nudge means that the ledger may hold lines; further nudges cost nothing."""

    def __init__(self, ledger: Ledger, transcripts: TranscriptStore) -> None:
        self._ledger = ledger
        self._transcripts = transcripts
        self._headers: OrderedDict[str, TranscriptHeader] = OrderedDict()
        self._delay_s: dict[str, float] = {}
        """Session → delay after its next failure; a session is listed from its first failure on."""
        self._retry_at: dict[str, float] = {}
        """Session → when it is retried, on the loop's clock."""
        self._wake = asyncio.Event()
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    def nudge(self) -> None:
        """Announce that a commit left lines in the ledger. Never blocks."""
        self._wake.set()

    async def settle(self, session_id: str, tenant_id: str) -> None:
        """Return when the file has all that the ledger holds for it now. A line is never written twice, so the writer
        task may be about to write it as well. Raises OSError and ValueError: the lines stay in the ledger."""
        lines = await self._ledger.transcript_pending((session_id, tenant_id))
        if lines:
            await self._transcripts.append(await self._header(session_id, tenant_id), lines)

    def start(self) -> None:
        """Start with what an earlier gateway left."""
        self._wake.set()
        self._task = asyncio.create_task(self._run(), name="transcript writer")

    async def stop(self) -> None:
        """Write the waiting lines, then stop. Lines that cannot be written now stay in the ledger for the next
        start."""
        self._stopping = True
        self._wake.set()
        if self._task is not None:
            await self._task
            self._task = None

    async def _run(self) -> None:
        while True:
            await self._rest()
            self._wake.clear()
            last = self._stopping
            if last:
                self._retry_at.clear()
            try:
                await self._drain()
            except Exception as error:  # noqa: BLE001 - the ledger keeps the lines, whatever happened to this attempt.
                self._failed(_ANY, error)
            else:
                self._recovered(_ANY)
            if last:
                return

    async def _rest(self) -> None:
        """Wait for a nudge, or until a failed file is due again."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(min(self._retry_at.values(), default=None)):
                await self._wake.wait()

    async def _drain(self) -> None:
        """Write all that the ledger holds, except what has failed and is not due yet."""
        limit = BATCH_LINES
        now_s = asyncio.get_running_loop().time()
        for session_id in [held for held, at in self._retry_at.items() if at <= now_s]:
            del self._retry_at[session_id]
        while _ANY not in self._retry_at:
            lines = await self._ledger.transcript_pending(limit=limit)
            groups = _by_session(line for line in lines if line.session_id not in self._retry_at)
            if groups:
                await self._write(groups)
            elif len(lines) < limit or limit == BATCH_LINES_MAX:
                return
            else:
                limit = min(2 * limit, BATCH_LINES_MAX)

    async def _write(self, groups: dict[str, list[TranscriptLine]]) -> None:
        tenants = {session_id: lines[0].tenant_id for session_id, lines in groups.items()}
        for session_id in [one for one in groups if one not in self._headers]:
            # What a power cut left in a file is recognised by all the lines that wait for it, not by a part
            # (Transcripts.append).
            groups[session_id] = await self._ledger.transcript_pending((session_id, tenants[session_id]),
                                                                       BATCH_LINES_MAX)
        kept = await asyncio.gather(*(self._append((session_id, tenants[session_id]), lines)
                                      for session_id, lines in groups.items()))
        drops = [
            DropTranscript(tenants[session_id], session_id, tuple(line.entry_id for line in lines))
            for (session_id, lines), done in zip(groups.items(), kept, strict=True) if done
        ]
        if drops:
            await self._ledger.commit(WriteBatch(drops))

    async def _append(self, of: tuple[str, str], lines: list[TranscriptLine]) -> bool:
        """Append one session's lines; False if they must wait."""
        session_id, tenant_id = of
        try:
            await self._transcripts.append(await self._header(session_id, tenant_id), lines)
        except (OSError, ValueError) as error:
            self._failed(session_id, error)
            return False
        self._recovered(session_id)
        return True

    async def _header(self, session_id: str, tenant_id: str) -> TranscriptHeader:
        header = self._headers.get(session_id)
        if header is None:
            record = await self._ledger.session(session_id, tenant_id)
            if record is None:
                raise ValueError(f"there is no session {session_id}")
            header = TranscriptHeader(session_id, record.agent_id, record.workspace, iso(record.created_ms),
                                      tenant_id, topic_of(record.session_key))
            self._headers[session_id] = header
            if len(self._headers) > KNOWN_HEADERS:
                self._headers.popitem(last=False)
        return header

    def _failed(self, session_id: str, error: Exception) -> None:
        if session_id not in self._delay_s:
            log.error("transcript lines wait in the ledger: they cannot be written", session_id=session_id or None,
                      error=str(error))
        delay_s = self._delay_s.get(session_id, RETRY_MIN_S)
        self._retry_at[session_id] = asyncio.get_running_loop().time() + delay_s
        self._delay_s[session_id] = min(2 * delay_s, RETRY_MAX_S)

    def _recovered(self, session_id: str) -> None:
        if session_id not in self._retry_at and self._delay_s.pop(session_id, None) is not None:
            log.info("transcript lines are written again", session_id=session_id or None)


def _by_session(lines: Iterable[TranscriptLine]) -> dict[str, list[TranscriptLine]]:
    groups: dict[str, list[TranscriptLine]] = {}
    for line in lines:
        groups.setdefault(line.session_id, []).append(line)
    return groups
