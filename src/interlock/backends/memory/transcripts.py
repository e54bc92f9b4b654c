"""Transcripts in a dict: the same rules as on disk, for tests of everything above the port."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from interlock.ports.transcripts import Rewrite, TranscriptHeader, TranscriptPage, TranscriptStore
from interlock.protocol.records import TranscriptLine
from interlock.session.context.context import ModelContext, context
from interlock.session.transcript.entries import check_line, header_line, read_stub
from interlock.session.transcript.tree import Tree, read_tree


class MemoryTranscripts(TranscriptStore):
    """See `interlock.ports.transcripts.Transcripts` for what each call guarantees, but for power loss."""

    def __init__(self) -> None:
        self._files: dict[tuple[str, str, str], list[bytes]] = {}
        self._kept: dict[str, list[bytes]] = {}

    async def append(self, header: TranscriptHeader, lines: Sequence[TranscriptLine]) -> None:
        for line in lines:
            check_line(line)
        name = (header.session_id, header.agent_id, header.tenant_id)
        file = self._files.setdefault(name, [header_line(header.session_id, header.timestamp, header.cwd)])
        known = set(self._entry_ids(*name))
        for line in lines:
            if line.entry_id not in known:
                known.add(line.entry_id)
                file.append(line.line)

    async def leaf(self, session_id: str, agent_id: str, tenant_id: str) -> str | None:
        return next(reversed(self._entry_ids(session_id, agent_id, tenant_id)), None)

    async def ids(self, session_id: str, agent_id: str, tenant_id: str) -> set[str]:
        return set(self._entry_ids(session_id, agent_id, tenant_id))

    async def read(self, session_id: str, agent_id: str, tenant_id: str) -> list[bytes]:
        return list(self._files.get((session_id, agent_id, tenant_id), ()))

    async def tree(self, session_id: str, agent_id: str, tenant_id: str) -> Tree:
        return read_tree(self._files.get((session_id, agent_id, tenant_id), ()))

    async def trunk(self, session_id: str, agent_id: str, tenant_id: str) -> Tree:
        return await self.tree(session_id, agent_id, tenant_id)

    async def page(self, session_id: str, agent_id: str, tenant_id: str, after: int, limit: int) -> TranscriptPage:
        tree = await self.tree(session_id, agent_id, tenant_id)
        return TranscriptPage(tree.lines[after : after + limit], len(tree.lines))

    async def context(self, session_id: str, agent_id: str, tenant_id: str) -> ModelContext:
        return context(await self.tree(session_id, agent_id, tenant_id))

    async def publish(self, session_id: str, agent_id: str, tenant_id: str, lines: Iterable[bytes]) -> None:
        if (session_id, agent_id, tenant_id) in self._files:
            raise FileExistsError(session_id)
        self._files[session_id, agent_id, tenant_id] = list(lines)

    async def rewrite(self, session_id: str, agent_id: str, tenant_id: str, change: Rewrite) -> str | None:
        old = self._files.get((session_id, agent_id, tenant_id), [])
        made = change(b"".join(line + b"\n" for line in old))
        if made is None:
            return None
        kept = f"{session_id}.jsonl.kept-{len(self._kept)}"
        self._kept[kept] = old
        self._files[session_id, agent_id, tenant_id] = list(made)
        return kept

    async def close(self) -> None:
        """Do nothing: nothing is pending."""

    def _entry_ids(self, session_id: str, agent_id: str, tenant_id: str) -> list[str]:
        lines = self._files.get((session_id, agent_id, tenant_id), ())
        return [stub.id for line in lines if (stub := read_stub(line)) is not None and stub.type != "session"]
