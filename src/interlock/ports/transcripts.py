"""Append-only conversations (sessions.md section 4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from interlock.protocol.records import TranscriptLine


class TranscriptHeader(NamedTuple):
    """Line 1 of a transcript."""

    session_id: str
    agent_id: str
    cwd: str
    timestamp: str


class Transcripts(Protocol):
    """Guarantees: `append` returns when the lines survive power loss; an entry id that the file has is not written
    twice; a torn last line is set aside before the next append (X-3, X-4)."""

    async def append(self, header: TranscriptHeader, lines: Sequence[TranscriptLine]) -> None: ...

    async def leaf(self, session_id: str, agent_id: str) -> str | None:
        """Id of the last entry in the file, None when there is none."""
        ...

    async def read(self, session_id: str, agent_id: str) -> list[bytes]:
        """Every line, the header first; [] when there is no file."""
        ...

    async def close(self) -> None: ...
