"""Rows of the ledger in the form of `sessions.json` (N-1)."""

from __future__ import annotations

from typing import Any

import msgspec

from interlock.protocol.records import SessionRecord
from interlock.session.keys import topic_of, transcript_name
from interlock.session.store.entry import SessionFields
from interlock.session.store.store_view import SessionFacts, view_entry


class _Kept(msgspec.Struct):
    """The parts of a lane's state that the view needs; the rest is skipped."""

    entry: SessionFields = SessionFields()
    input_tokens: int = 0
    output_tokens: int = 0
    context_tokens: int | None = None


_kept = msgspec.json.Decoder(_Kept)


def view_row(record: SessionRecord, directory: str) -> tuple[str, dict[str, Any]] | None:
    """Return a session's key and its entry in the view; None for an archived one. `directory` is the absolute path of
    the agent's transcripts."""
    kept = _kept.decode(record.machine)
    if kept.entry.archived_at is not None:
        return None
    file = f"{directory}/{transcript_name(record.session_id, topic_of(record.session_key))}"
    counted = SessionFacts(record.session_id, record.updated_ms, kept.input_tokens, kept.output_tokens,
                           kept.context_tokens,
                           file)
    return record.session_key, view_entry(kept.entry, counted)
