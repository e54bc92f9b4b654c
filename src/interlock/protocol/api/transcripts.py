"""Transcripts."""

from __future__ import annotations

from interlock.protocol.api.operation import AUDITORS, HTML, MARKDOWN, NDJSON, OPERATORS, Operation
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

GET_TRANSCRIPT = Operation(
    "getTranscript", "GET", "/sessions/{session_id}/transcript",
    "Return a session's transcript page by page; with `last` the page starts that number of entries before the end.",
    roles=OPERATORS | AUDITORS, query=("cursor", "limit", "last"), answers=TranscriptPageAnswer,
    codes=("Unavailable",),
    no_verb="`sessions show` and `sessions tail` read the export, as they read a file")
GET_TRANSCRIPT_TREE = Operation(
    "getTranscriptTree", "GET", "/sessions/{session_id}/tree",
    "Return the positions of all entries of a transcript, without their content.",
    roles=OPERATORS | AUDITORS, answers=TreeAnswer, codes=("Unavailable",),
    verb="sessions branch")
GET_CONTEXT = Operation(
    "getContext", "GET", "/sessions/{session_id}/context",
    "Return the context that a model would be sent at the transcript's leaf.",
    roles=OPERATORS | AUDITORS, answers=ContextAnswer, codes=("Unavailable",),
    no_verb="what an agent would be sent is for programs that keep one")
EXPORT_TRANSCRIPT = Operation[bytes](
    "exportTranscript", "GET", "/sessions/{session_id}/export",
    "Return the transcript's file, or the path to its leaf as a readable page. It is redacted, unless an admin "
    "requests the raw view (K-4).",
    roles=OPERATORS | AUDITORS, query=("format", "view"), media=(NDJSON, MARKDOWN, HTML), codes=("Unavailable",),
    verb="sessions export")
EXAMINE_TRANSCRIPT = Operation(
    "examineTranscript", "GET", "/sessions/{session_id}/doctor",
    "Check the transcript's file, and return its faults (X-4).",
    roles=OPERATORS | AUDITORS, answers=Report, codes=("Unavailable",),
    verb="sessions doctor")
LABEL_ENTRY = Operation(
    "labelEntry", "POST", "/sessions/{session_id}/labels",
    "Set or remove the label of an entry.",
    roles=OPERATORS, body=LabelBody, answers=AddedEntry, status=201,
    codes=("ApprovalRequired", "Conflict", "NotFound", "QuotaExceeded", "Unavailable"),
    verb="sessions label")
BRANCH_TRANSCRIPT = Operation(
    "branchTranscript", "POST", "/sessions/{session_id}/branches",
    "Continue the transcript below an earlier entry, with a summary of the abandoned path.",
    roles=OPERATORS, body=BranchBody, answers=AddedEntry, status=201,
    codes=("ApprovalRequired", "Conflict", "NotFound", "QuotaExceeded", "Unavailable"),
    verb="sessions branch")
FORK_SESSION = Operation(
    "forkSession", "POST", "/sessions/{session_id}/fork",
    "Start a new session with a copy of the path to an entry.",
    roles=OPERATORS, body=ForkBody, body_optional=True, answers=BegunSession, status=201,
    codes=("ApprovalRequired", "Conflict", "NotFound", "QuotaExceeded", "Unavailable"),
    verb="sessions fork")
REPAIR_TRANSCRIPT = Operation(
    "repairTranscript", "POST", "/sessions/{session_id}/repair",
    "Replace a damaged transcript file with a repaired one; the damaged file is kept.",
    roles=OPERATORS, body=RepairBody, body_optional=True, answers=RepairedTranscript,
    codes=("ApprovalRequired", "Conflict", "NotFound", "QuotaExceeded", "Unavailable"),
    verb="sessions doctor")
IMPORT_TRANSCRIPT = Operation(
    "importTranscript", "POST", "/sessions/import",
    "Start a session from a transcript, sent in a JSON body, or as an application/x-ndjson body of up to 1 GiB with "
    "the agent in the query.",
    roles=OPERATORS, query=("agent_id", "runner_id", "workspace"), body=ImportBody, upload=NDJSON,
    answers=BegunSession, status=201,
    codes=("ApprovalRequired", "Conflict", "NotFound", "QuotaExceeded", "Unavailable"),
    verb="sessions import")
