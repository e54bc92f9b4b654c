"""Transcripts in a dict: the same rules as on disk, for tests of everything above the port."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.ports.transcripts import TranscriptHeader, Transcripts
from interlock.protocol.records import TranscriptLine
from interlock.session.entries import check_line, header_line, read_stub


class MemoryTranscripts(Transcripts):
    """See `interlock.ports.transcripts.Transcripts` for what each call guarantees, but for power loss."""

    def __init__(self) -> None:
        self._files: dict[tuple[str, str], list[bytes]] = {}

    async def append(self, header: TranscriptHeader, lines: Sequence[TranscriptLine]) -> None:
        for line in lines:
            check_line(line)
        name = (header.session_id, header.agent_id)
        file = self._files.setdefault(name, [header_line(header.session_id, header.timestamp, header.cwd)])
        known = set(self._entry_ids(*name))
        for line in lines:
            if line.entry_id not in known:
                known.add(line.entry_id)
                file.append(line.line)

    async def leaf(self, session_id: str, agent_id: str) -> str | None:
        return next(reversed(self._entry_ids(session_id, agent_id)), None)

    async def ids(self, session_id: str, agent_id: str) -> set[str]:
        return set(self._entry_ids(session_id, agent_id))

    async def read(self, session_id: str, agent_id: str) -> list[bytes]:
        return list(self._files.get((session_id, agent_id), ()))

    async def close(self) -> None:
        """Nothing waits."""

    def _entry_ids(self, session_id: str, agent_id: str) -> list[str]:
        lines = self._files.get((session_id, agent_id), ())
        return [stub.id for line in lines if (stub := read_stub(line)) is not None and stub.type != "session"]
