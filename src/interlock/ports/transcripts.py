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
    twice; a torn last line is set aside before the next append (X-3, X-4). Calls take effect in their order.

    Every call may raise OSError: then nothing of it is said to be kept, and it may be made again.
    """

    async def append(self, header: TranscriptHeader, lines: Sequence[TranscriptLine]) -> None:
        """Append lines of one session, after the header where the file is new. Raises BadLine (session.entries) for a
        line whose id or type is not what it is said to be."""
        ...

    async def ids(self, session_id: str, agent_id: str) -> set[str]:
        """Ids of all entries in the file: a new one must not be among them (X-3)."""
        ...

    async def leaf(self, session_id: str, agent_id: str) -> str | None:
        """Id of the last entry in the file, None when there is none."""
        ...

    async def read(self, session_id: str, agent_id: str) -> list[bytes]:
        """Every line, the header first; [] when there is no file."""
        ...

    async def close(self) -> None: ...
