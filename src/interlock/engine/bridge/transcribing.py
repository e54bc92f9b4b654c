"""A session's transcript as its lane writes it: what is open, and the ids that are taken (X-3, X-8)."""

from __future__ import annotations

from collections.abc import Callable

from interlock.protocol.records import TranscriptLine
from interlock.session.entries import Draft, entry_line, new_entry_id
from interlock.session.transcript import TranscriptFold


class Transcriber:
    """Makes finished lines. `ids` are those of the entries in the file and on their way there."""

    def __init__(self, fold: TranscriptFold, ids: set[str]) -> None:
        self.fold = fold
        self._ids = ids

    def line(
        self, draft: Draft, session_id: str, parent_id: str | None, at: str, entropy: Callable[[int], bytes]
    ) -> TranscriptLine:
        """Give an entry an id of its own, before the commit, and its place below `parent_id`."""
        entry_id = new_entry_id(self._ids, entropy)
        self._ids.add(entry_id)
        return TranscriptLine(session_id=session_id, entry_id=entry_id,
                              line=entry_line(draft, entry_id, parent_id, at))
