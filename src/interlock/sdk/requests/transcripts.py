"""Requests on transcripts: stored conversations (X-1, X-4, X-6)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

from interlock.protocol.api.transcripts import (
    BRANCH_TRANSCRIPT,
    EXAMINE_TRANSCRIPT,
    EXPORT_TRANSCRIPT,
    FORK_SESSION,
    GET_CONTEXT,
    GET_TRANSCRIPT,
    GET_TRANSCRIPT_TREE,
    IMPORT_TRANSCRIPT,
    LABEL_ENTRY,
    REPAIR_TRANSCRIPT,
)
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
from interlock.sdk.methods import ApiResource, Every, LinkT, Pieces, SingleRequest
from interlock.sdk.requests.base import change, read
from interlock.sdk.requests.sessions import View

Format: TypeAlias = Literal["jsonl", "markdown", "html"]


def entries(session_id: str, *, cursor: str | None = None, limit: int | None = None, last: int | None = None
            ) -> RequestSpec[TranscriptPageAnswer]:
    """Return a page of a session's entries in file order, each as the file has it; with `last` the page begins that
    number of entries before the end."""
    return read(GET_TRANSCRIPT, session_id, cursor=cursor, limit=limit, last=last)


def every_entry(session_id: str, *, cursor: str | None = None,
                limit: int | None = None) -> RequestSpec[TranscriptPageAnswer]:
    """Return a session's entries in file order, each as the file has it."""
    return entries(session_id, cursor=cursor, limit=limit)


def tree(session_id: str) -> RequestSpec[TreeAnswer]:
    """Return the tree of entries; the conversation continues at its leaf."""
    return read(GET_TRANSCRIPT_TREE, session_id)


def context(session_id: str) -> RequestSpec[ContextAnswer]:
    """Return the context that a model is sent."""
    return read(GET_CONTEXT, session_id)


def export(session_id: str, *, format: Format | None = None,  # noqa: A002 - the API's name
           view: View | None = None) -> RequestSpec[bytes]:
    """Read the file, or with `format` `markdown` or `html` the path to the leaf for people to read, piece by piece. It
    is redacted; an admin may ask for the `raw` view, to import it elsewhere."""
    return read(EXPORT_TRANSCRIPT, session_id, format=format, view=view)


def examine(session_id: str) -> RequestSpec[Report]:
    """Return the defects of the file."""
    return read(EXAMINE_TRANSCRIPT, session_id)


def repair(session_id: str, *, idempotency_key: str | None = None) -> RequestSpec[RepairedTranscript]:
    """Repair a damaged file: an intact one replaces it, and the damaged one is kept."""
    return change(REPAIR_TRANSCRIPT, session_id, body=RepairBody(), key=idempotency_key)


def label(session_id: str, entry_id: str, text: str | None, *,
          idempotency_key: str | None = None) -> RequestSpec[AddedEntry]:
    """Set an entry's label; None removes it."""
    return change(LABEL_ENTRY, session_id, body=LabelBody(entry_id=entry_id, label=text), key=idempotency_key)


def branch(session_id: str, entry_id: str, *, summary: str | None = None, idempotency_key: str | None = None
           ) -> RequestSpec[AddedEntry]:
    """Continue the conversation below an earlier entry; `summary` describes the omitted entries to the model."""
    return change(BRANCH_TRANSCRIPT, session_id, body=BranchBody(entry_id=entry_id, summary=summary),
                  key=idempotency_key)


def fork(session_id: str, *, entry_id: str | None = None,
         idempotency_key: str | None = None) -> RequestSpec[BegunSession]:
    """Begin another session with the path to an entry, by default to the leaf."""
    return change(FORK_SESSION, session_id, body=ForkBody(entry_id=entry_id), key=idempotency_key)


def take_in(content: str, agent: str, *, runner_id: str | None = None, workspace: str | None = None,
            idempotency_key: str | None = None) -> RequestSpec[BegunSession]:
    """Begin a session with the text of a transcript's file, of version 1 to 3."""
    return change(IMPORT_TRANSCRIPT, body=ImportBody(
        content=content, agent_id=agent, runner_id=runner_id, workspace=workspace), key=idempotency_key)


def upload(lines: bytes | Path, agent: str, *, runner_id: str | None = None, workspace: str | None = None,
           idempotency_key: str | None = None) -> RequestSpec[BegunSession]:
    """Begin a session with the bytes of a transcript's file, of version 1 to 3: for files of more than 8 MiB. With a
    path they are read and sent piece by piece."""
    return change(IMPORT_TRANSCRIPT, uploaded=lines, key=idempotency_key, agent_id=agent, runner_id=runner_id,
                  workspace=workspace)


class TranscriptMethods(ApiResource[LinkT]):
    """Transcripts as they are stored."""

    entries = SingleRequest(entries)
    every = Every(every_entry)
    tree = SingleRequest(tree)
    context = SingleRequest(context)
    export = Pieces(export)
    take_in = SingleRequest(take_in)
    upload = SingleRequest(upload)
    fork = SingleRequest(fork)
    branch = SingleRequest(branch)
    label = SingleRequest(label)
    examine = SingleRequest(examine)
    repair = SingleRequest(repair)
