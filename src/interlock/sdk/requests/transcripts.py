"""Transcripts: what was said, as it is kept (X-1, X-4, X-6)."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from interlock.protocol.transcripts import (
    AddedEntry,
    BegunSession,
    BranchBody,
    ContextAnswer,
    ForkBody,
    ImportBody,
    LabelBody,
    RepairBody,
    RepairedTranscript,
    Report,
    TranscriptPageAnswer,
    TreeAnswer,
)
from interlock.sdk.exchange import RequestSpec
from interlock.sdk.requests.base import get, post, raw, segment, written
from interlock.sdk.requests.sessions import View

Format: TypeAlias = Literal["jsonl", "markdown", "html"]


def entries(session_id: str, *, cursor: str | None = None, limit: int | None = None, last: int | None = None
            ) -> RequestSpec[TranscriptPageAnswer]:
    """A page of a session's entries in file order, each as the file has it; `last` begins so many before the end."""
    return get(_path(session_id, "/transcript"), TranscriptPageAnswer, cursor=cursor, limit=limit, last=last)


def every_entry(session_id: str, *, cursor: str | None = None,
                limit: int | None = None) -> RequestSpec[TranscriptPageAnswer]:
    """A session's entries in file order, each as the file has it."""
    return entries(session_id, cursor=cursor, limit=limit)


def tree(session_id: str) -> RequestSpec[TreeAnswer]:
    """Which entry hangs below which; the leaf is where the conversation goes on."""
    return get(_path(session_id, "/tree"), TreeAnswer)


def context(session_id: str) -> RequestSpec[ContextAnswer]:
    """What is put before a model."""
    return get(_path(session_id, "/context"), ContextAnswer)


def export(session_id: str, *, format: Format | None = None,  # noqa: A002 - the API's name
           view: View | None = None) -> RequestSpec[bytes]:
    """The file, or with `format` `markdown` or `html` the path to the leaf for people to read, piece by piece. It is
    redacted; an admin may ask for the `raw` view, to import it elsewhere."""
    return raw(_path(session_id, "/export"), "*/*", format=format, view=view)


def examine(session_id: str) -> RequestSpec[Report]:
    """What is wrong with the file."""
    return get(_path(session_id, "/doctor"), Report)


def repair(session_id: str, *, idempotency_key: str | None = None) -> RequestSpec[RepairedTranscript]:
    """Put a whole file in the place of a damaged one, which is kept."""
    return post(_path(session_id, "/repair"), RepairedTranscript, RepairBody(), idempotency_key)


def label(session_id: str, entry_id: str, text: str | None, *,
          idempotency_key: str | None = None) -> RequestSpec[AddedEntry]:
    """Give an entry a label; None takes it away."""
    return post(_path(session_id, "/labels"), AddedEntry, LabelBody(entry_id=entry_id, label=text), idempotency_key)


def branch(session_id: str, entry_id: str, *, summary: str | None = None, idempotency_key: str | None = None
           ) -> RequestSpec[AddedEntry]:
    """Go on below an entry further up; `summary` tells the model of what is left."""
    return post(_path(session_id, "/branches"), AddedEntry, BranchBody(entry_id=entry_id, summary=summary),
                idempotency_key)


def fork(session_id: str, *, entry_id: str | None = None,
         idempotency_key: str | None = None) -> RequestSpec[BegunSession]:
    """Begin another session with the path to an entry, to the leaf where none is named."""
    return post(_path(session_id, "/fork"), BegunSession, ForkBody(entry_id=entry_id), idempotency_key)


def take_in(content: str, agent: str, *, runner_id: str | None = None, workspace: str | None = None,
            idempotency_key: str | None = None) -> RequestSpec[BegunSession]:
    """Begin a session with the text of a transcript's file, of version 1 to 3."""
    return post("/v1/sessions/import", BegunSession, ImportBody(
        content=content, agent_id=agent, runner_id=runner_id, workspace=workspace), idempotency_key)


def upload(lines: bytes, agent: str, *, runner_id: str | None = None, workspace: str | None = None,
           idempotency_key: str | None = None) -> RequestSpec[BegunSession]:
    """Begin a session with the bytes of a transcript's file, of version 1 to 3: for files of more than 8 MiB."""
    query = written({"agent_id": agent, "runner_id": runner_id, "workspace": workspace})
    return RequestSpec("POST", "/v1/sessions/import", msgspec.json.Decoder(BegunSession).decode, query=query,
                       body=lines,
                       content_type="application/x-ndjson", key=idempotency_key)


def _path(session_id: str, rest: str) -> str:
    return f"/v1/sessions/{segment(session_id)}{rest}"
