"""Append-only conversations (sessions.md section 4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from interlock.protocol.records import TranscriptLine
from interlock.session.context.context import ModelContext
from interlock.session.transcript.tree import Tree


class TranscriptHeader(NamedTuple):
    """Line 1 of a transcript."""

    session_id: str
    agent_id: str
    cwd: str
    timestamp: str
    tenant_id: str
    topic: str = ""
    """The topic of the chat that the session belongs to: a file's name contains it."""


class KeptEntries(NamedTuple):
    """What a new entry of a transcript depends on in its file."""

    ids: set[str]
    leaf: str | None


class TranscriptPage(NamedTuple):
    """Entries in file order, each as its line, and their total number."""

    lines: list[bytes]
    entries: int


Rewrite = Callable[[bytes], Sequence[bytes] | None]
"""Rebuilds a transcript's lines from its bytes, the header first; None leaves it unchanged."""


class TranscriptStore(Protocol):
    """Guarantees: `append` returns when the lines survive power loss; an entry id that is in the file is not written
    twice; a torn last line is set aside before the next append (X-3, X-4). Calls take effect in their order.

    Every call may raise OSError: then nothing of it is reported as stored, and it may be repeated.
    """

    async def append(self, header: TranscriptHeader, lines: Sequence[TranscriptLine]) -> None:
        """Append lines of one session, after the header if the file is new. The first call for a session receives all
        its pending lines, which identify what a power cut left in the file. Raises BadLine (session.entries) for a line
        whose id or type does not match its declaration."""
        ...

    async def ids(self, session_id: str, agent_id: str, tenant_id: str) -> set[str]:
        """Return the ids of all entries in the file: a new one must not be among them (X-3)."""
        ...

    async def leaf(self, session_id: str, agent_id: str, tenant_id: str) -> str | None:
        """Return the id of the last entry in the file; None if there is none."""
        ...

    async def kept_entries(self, of: Sequence[tuple[str, str, str]]) -> list[KeptEntries | OSError]:
        """Return ids and leaf of each of these transcripts, by session, agent and tenant, or the error why one cannot
        be read. A networked store reads all of them in one round trip."""
        return [await self._kept_entries(*one) for one in of]

    async def _kept_entries(self, session_id: str, agent_id: str, tenant_id: str) -> KeptEntries | OSError:
        try:
            return KeptEntries(await self.ids(session_id, agent_id, tenant_id),
                               await self.leaf(session_id, agent_id, tenant_id))
        except OSError as error:
            return error

    async def read(self, session_id: str, agent_id: str, tenant_id: str) -> list[bytes]:
        """Return every line, the header first; [] if there is no file."""
        ...

    async def tree(self, session_id: str, agent_id: str, tenant_id: str) -> Tree:
        """Return the whole transcript as a tree; without header and entries if there is no file (X-1)."""
        ...

    async def trunk(self, session_id: str, agent_id: str, tenant_id: str) -> Tree:
        """Return the path to the leaf, from what the last compaction kept on, or more of the tree: what a turn or the
        next compaction needs, at a cost that does not grow with the abandoned branches (X-7)."""
        ...

    async def page(self, session_id: str, agent_id: str, tenant_id: str, after: int, limit: int) -> TranscriptPage:
        """Return at most `limit` entries after the first `after` ones."""
        ...

    async def context(self, session_id: str, agent_id: str, tenant_id: str) -> ModelContext:
        """Return the context that the transcript forms for a model (X-1)."""
        ...

    async def publish(self, session_id: str, agent_id: str, tenant_id: str, lines: Iterable[bytes]) -> None:
        """Create a new transcript from complete lines, the header first: all of it survives power loss, or there is
        none. The lines may be iterated more than once, and on another thread. Raises FileExistsError if the session has
        one."""
        ...

    async def rewrite(self, session_id: str, agent_id: str, tenant_id: str, change: Rewrite) -> str | None:
        """Replace a whole transcript, atomically and in order with the appends; the old one is kept. Returns the name
        under which it is kept, None if nothing changed."""
        ...

    async def close(self) -> None: ...
