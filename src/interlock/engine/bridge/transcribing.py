"""A session's transcript as its lane writes it: what is open, the leaf, and the ids that are taken (X-3, X-8)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from interlock.protocol.records import TranscriptLine
from interlock.session.entries import Draft, entry_line, new_entry_id
from interlock.session.transcript import TranscriptFold


class Transcriber:
    """Makes finished lines. `leaf` and `ids` count the entries in the file and those on their way there."""

    def __init__(self, session_id: str, fold: TranscriptFold, leaf: str | None, ids: set[str]) -> None:
        self.fold = fold
        self.leaf = leaf
        self._session_id = session_id
        self._ids = ids

    def lines(self, drafts: Iterable[Draft], at: str, entropy: Callable[[int], bytes]) -> list[TranscriptLine]:
        """Give entries ids of their own, before the commit, and their place below the leaf."""
        return [self._line(draft, at, entropy) for draft in drafts]

    def knows(self, entry_id: str) -> bool:
        """Whether the transcript has this entry."""
        return entry_id in self._ids

    def rejoin(self, leaf: str | None, ids: set[str]) -> None:
        """Go on in a file that was written anew (X-4)."""
        self._ids |= ids
        if self.leaf not in ids:
            self.leaf = leaf

    def _line(self, draft: Draft, at: str, entropy: Callable[[int], bytes]) -> TranscriptLine:
        entry_id = new_entry_id(self._ids, entropy)
        line = entry_line(draft, entry_id, self.leaf, at)
        self._ids.add(entry_id)
        self.leaf = entry_id
        return TranscriptLine(session_id=self._session_id, entry_id=entry_id, line=line)
