"""A session's transcript as its lane writes it: what is open, the leaf, and the used ids (X-3, X-8)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from interlock.protocol.envelope import Frame
from interlock.protocol.records import TranscriptLine
from interlock.session.transcript.entries import Draft, UserEntry, contributes, entry_line, new_entry_id
from interlock.session.transcript.transcript import TranscriptFold
from interlock.session.turn_output import TurnFold


class Transcriber:
    """Builds complete lines. `leaf` and `ids` include the entries in the file and those about to be written;
    `context_leaf` is the last entry that changed the context, or `leaf` if that is unknown."""

    def __init__(self, tenant_id: str, session_id: str, fold: TranscriptFold, leaf: str | None, ids: set[str],
                 context_leaf: str | None = None, reserved: str = "") -> None:
        self.fold = fold
        self.leaf = leaf
        self.context_leaf = context_leaf if context_leaf in ids else leaf
        self._tenant_id = tenant_id
        self._session_id = session_id
        self._ids = ids
        self._reserved = reserved if reserved not in ids else ""

    def lines(self, drafts: Iterable[Draft], at: str, entropy: Callable[[int], bytes], origin: str | None = None
              ) -> list[TranscriptLine]:
        """Assign ids and parents to entries, before the commit. `origin` marks them."""
        return [self._line(draft, at, entropy, origin) for draft in drafts]

    def knows(self, entry_id: str) -> bool:
        """Return whether the transcript has this entry."""
        return entry_id in self._ids

    def reserve(self, entropy: Callable[[int], bytes]) -> str:
        """Reserve and return the id that the next prompt's entry will have."""
        self._reserved = self._reserved or new_entry_id(self._ids, entropy)
        return self._reserved

    @property
    def known(self) -> list[str]:
        """Return the used ids, in order."""
        return sorted(self._ids)

    @property
    def reserved(self) -> str:
        """Return the id that the next prompt's entry will have; "" if none is reserved."""
        return self._reserved

    def branch(self, parent: str) -> None:
        """Continue below another entry, which changes the context."""
        self.leaf = self.context_leaf = parent

    def rejoin(self, leaf: str | None, ids: set[str]) -> None:
        """Continue in a rewritten file (X-4)."""
        self._ids |= ids
        if self.leaf not in ids:
            self.leaf = self.context_leaf = leaf

    def _line(self, draft: Draft, at: str, entropy: Callable[[int], bytes], origin: str | None) -> TranscriptLine:
        if self._reserved and isinstance(draft, UserEntry):
            entry_id, self._reserved = self._reserved, ""
        else:
            entry_id = new_entry_id(self._ids, entropy)
            while entry_id == self._reserved:
                entry_id = new_entry_id(self._ids, entropy)
        line = entry_line(draft, entry_id, self.leaf, at, origin)
        self._ids.add(entry_id)
        self.leaf = entry_id
        if contributes(draft):
            self.context_leaf = entry_id
        return TranscriptLine(tenant_id=self._tenant_id, session_id=self._session_id, entry_id=entry_id, line=line)


class FoldedFrame(NamedTuple):
    """A frame of the open turn that is replayed to a lane after it was read; `received` if its runner sent it."""

    received: bool
    frame: Frame
    at_ms: int


def fold_again(fold: TurnFold, transcriber: Transcriber | None, folded: FoldedFrame) -> None:
    """Replay a frame to the state that a lane holds in memory only. The entries that it completes were stored with
    it."""
    if folded.received:
        fold.feed(folded.frame)
    if transcriber is not None:
        transcriber.fold.feed(folded.frame, folded.at_ms)
