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
    "Entries by the page; with `last` the page begins that number of entries before the end.",
    roles=OPERATORS | AUDITORS, query=("cursor", "limit", "last"), answers=TranscriptPageAnswer,
    codes=("Unavailable",),
    no_verb="`sessions show` and `sessions tail` read the export, as they read a file")
GET_TRANSCRIPT_TREE = Operation(
    "getTranscriptTree", "GET", "/sessions/{session_id}/tree", "",
    roles=OPERATORS | AUDITORS, answers=TreeAnswer, codes=("Unavailable",),
    verb="sessions branch")
GET_CONTEXT = Operation(
    "getContext", "GET", "/sessions/{session_id}/context", "",
    roles=OPERATORS | AUDITORS, answers=ContextAnswer, codes=("Unavailable",),
    no_verb="what an agent would be sent is for programs that keep one")
EXPORT_TRANSCRIPT = Operation[bytes](
    "exportTranscript", "GET", "/sessions/{session_id}/export",
    "The file, or the path to the leaf for people to read; redacted, unless an admin asks for the raw view (K-4).",
    roles=OPERATORS | AUDITORS, query=("format", "view"), media=(NDJSON, MARKDOWN, HTML), codes=("Unavailable",),
    verb="sessions export")
EXAMINE_TRANSCRIPT = Operation(
    "examineTranscript", "GET", "/sessions/{session_id}/doctor",
    "What is wrong with the transcript's file (X-4).",
    roles=OPERATORS | AUDITORS, answers=Report, codes=("Unavailable",),
    verb="sessions doctor")
LABEL_ENTRY = Operation(
    "labelEntry", "POST", "/sessions/{session_id}/labels", "",
    roles=OPERATORS, body=LabelBody, answers=AddedEntry, status=201,
    codes=("ApprovalRequired", "Conflict", "NotFound", "QuotaExceeded", "Unavailable"),
    verb="sessions label")
BRANCH_TRANSCRIPT = Operation(
    "branchTranscript", "POST", "/sessions/{session_id}/branches", "",
    roles=OPERATORS, body=BranchBody, answers=AddedEntry, status=201,
    codes=("ApprovalRequired", "Conflict", "NotFound", "QuotaExceeded", "Unavailable"),
    verb="sessions branch")
FORK_SESSION = Operation(
    "forkSession", "POST", "/sessions/{session_id}/fork", "",
    roles=OPERATORS, body=ForkBody, body_optional=True, answers=BegunSession, status=201,
    codes=("ApprovalRequired", "Conflict", "NotFound", "QuotaExceeded", "Unavailable"),
    verb="sessions fork")
REPAIR_TRANSCRIPT = Operation(
    "repairTranscript", "POST", "/sessions/{session_id}/repair",
    "A whole file in the place of a damaged one, which is kept.",
    roles=OPERATORS, body=RepairBody, body_optional=True, answers=RepairedTranscript,
    codes=("ApprovalRequired", "Conflict", "NotFound", "QuotaExceeded", "Unavailable"),
    verb="sessions doctor")
IMPORT_TRANSCRIPT = Operation(
    "importTranscript", "POST", "/sessions/import",
    "The transcript in a JSON body, or as the body itself, application/x-ndjson of up to 1 GiB; then the query says "
    "for which agent.",
    roles=OPERATORS, query=("agent_id", "runner_id", "workspace"), body=ImportBody, upload=NDJSON,
    answers=BegunSession, status=201,
    codes=("ApprovalRequired", "Conflict", "NotFound", "QuotaExceeded", "Unavailable"),
    verb="sessions import")
