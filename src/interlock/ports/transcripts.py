"""Append-only conversations (sessions.md section 4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from interlock.protocol.records import TranscriptLine
from interlock.session.context import ModelContext
from interlock.session.tree import Tree


class TranscriptHeader(NamedTuple):
    """Line 1 of a transcript."""

    session_id: str
    agent_id: str
    cwd: str
    timestamp: str
    tenant_id: str
    topic: str = ""
    """The topic of a chat whose session it is: a file bears it in its name."""


class KeptEntries(NamedTuple):
    """What a new entry of a transcript must know of the file."""

    ids: set[str]
    leaf: str | None


class TranscriptPage(NamedTuple):
    """Entries in file order, each as its line, and how many there are in all."""

    lines: list[bytes]
    entries: int


Rewrite = Callable[[bytes], Sequence[bytes] | None]
"""Makes a transcript's lines again from its bytes, the header first; None leaves it as it is."""


class TranscriptStore(Protocol):
    """Guarantees: `append` returns when the lines survive power loss; an entry id that the file has is not written
    twice; a torn last line is set aside before the next append (X-3, X-4). Calls take effect in their order.

    Every call may raise OSError: then nothing of it is said to be kept, and it may be made again.
    """

    async def append(self, header: TranscriptHeader, lines: Sequence[TranscriptLine]) -> None:
        """Append lines of one session, after the header where the file is new. The first call for a session is given
        all that waits for it, since what a power cut left there is known by that. Raises BadLine (session.entries) for
        a line whose id or type is not what it is said to be."""
        ...

    async def ids(self, session_id: str, agent_id: str, tenant_id: str) -> set[str]:
        """Ids of all entries in the file: a new one must not be among them (X-3)."""
        ...

    async def leaf(self, session_id: str, agent_id: str, tenant_id: str) -> str | None:
        """Id of the last entry in the file, None when there is none."""
        ...

    async def kept_entries(self, of: Sequence[tuple[str, str, str]]) -> list[KeptEntries | OSError]:
        """Return ids and leaf of each of these transcripts, by session, agent and tenant, or why that one cannot be
        read. A store behind a network reads all of them in one round trip."""
        return [await self._kept_entries(*one) for one in of]

    async def _kept_entries(self, session_id: str, agent_id: str, tenant_id: str) -> KeptEntries | OSError:
        try:
            return KeptEntries(await self.ids(session_id, agent_id, tenant_id),
                               await self.leaf(session_id, agent_id, tenant_id))
        except OSError as error:
            return error

    async def read(self, session_id: str, agent_id: str, tenant_id: str) -> list[bytes]:
        """Every line, the header first; [] when there is no file."""
        ...

    async def tree(self, session_id: str, agent_id: str, tenant_id: str) -> Tree:
        """The whole transcript as a tree; without header and entries when there is no file (X-1)."""
        ...

    async def trunk(self, session_id: str, agent_id: str, tenant_id: str) -> Tree:
        """The path to the leaf, from what the last compaction kept on, or more of the tree: what a turn or the next
        compaction needs, at a cost that does not grow with what is left behind (X-7)."""
        ...

    async def page(self, session_id: str, agent_id: str, tenant_id: str, after: int, limit: int) -> TranscriptPage:
        """Entries behind the first `after` ones, `limit` at the most."""
        ...

    async def context(self, session_id: str, agent_id: str, tenant_id: str) -> ModelContext:
        """What the transcript puts before a model (X-1)."""
        ...

    async def publish(self, session_id: str, agent_id: str, tenant_id: str, lines: Iterable[bytes]) -> None:
        """Make a new transcript of whole lines, the header first: all of it survives power loss, or there is none. The
        lines may be gone through more than once, and on another thread.
        Raises FileExistsError where the session has one."""
        ...

    async def rewrite(self, session_id: str, agent_id: str, tenant_id: str, change: Rewrite) -> str | None:
        """Put a whole transcript in the place of the one that is there, atomically and among the appends; the old one
        is kept. Gives the name under which it is kept, None where nothing was to change."""
        ...

    async def close(self) -> None: ...
