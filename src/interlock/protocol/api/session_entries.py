"""Staged changes of a session, and its entry."""

from __future__ import annotations

from interlock.protocol.answers import GitChanges, SessionHistory, StagedChanges
from interlock.protocol.api.operation import APPROVERS, OPERATORS, READERS, Operation
from interlock.protocol.bodies import ArchiveBody, DiscardBody, EntryBody, LandBody, RestoreBody, StartOverBody
from interlock.protocol.resources import Approval, Session

GET_STAGED_CHANGES = Operation(
    "getStagedChanges", "GET", "/sessions/{session_id}/changes",
    "Return the session's staged changes, as its runner last reported them.",
    roles=READERS, answers=StagedChanges,
    verb="changes")
GET_GIT_CHANGES = Operation(
    "getGitChanges", "GET", "/sessions/{session_id}/changes/git",
    "Return the changes that git finds in the session's workspace, compared with the commit at the session's start. "
    "The runner reads them for this request, within limits.",
    roles=READERS, answers=GitChanges, codes=("UnsupportedCapability",), at_runner=True,
    verb="diff")
LAND_CHANGES = Operation(
    "landChanges", "POST", "/sessions/{session_id}/land",
    "Vote to land the staged changes, all of them or the named files.",
    roles=APPROVERS, body=LandBody, body_optional=True, answers=Approval, codes=("Conflict", "UnsupportedCapability"),
    verb="land")
DISCARD_CHANGES = Operation(
    "discardChanges", "POST", "/sessions/{session_id}/discard",
    "Make the runner discard staged changes; the session's stream has the outcome.",
    roles=OPERATORS, body=DiscardBody, body_optional=True, answers=Session,
    codes=("ApprovalRequired", "Conflict", "QuotaExceeded"),
    verb="discard")
PATCH_SESSION = Operation(
    "patchSession", "PATCH", "/sessions/{session_id}",
    "Set fields of the session's entry; null clears a field, and omitted fields do not change.",
    roles=OPERATORS, body=EntryBody, answers=Session, codes=("ApprovalRequired", "Conflict", "QuotaExceeded"),
    verb="sessions set")
RESET_SESSION = Operation(
    "resetSession", "POST", "/sessions/{session_id}/reset",
    "End the session's work and start a new session under its key; return the new one.",
    roles=OPERATORS, body=StartOverBody, body_optional=True, answers=Session,
    codes=("ApprovalRequired", "Conflict", "QuotaExceeded"),
    verb="sessions reset")
ARCHIVE_SESSION = Operation(
    "archiveSession", "POST", "/sessions/{session_id}/archive",
    "End the session's work and archive it: it stays readable, and the next message to its key starts a new session. "
    "Archiving deletes no record (V-2).",
    roles=OPERATORS, body=ArchiveBody, body_optional=True, answers=Session,
    codes=("ApprovalRequired", "Conflict", "QuotaExceeded"),
    verb="sessions archive")
DELETE_SESSION = Operation(
    "deleteSession", "DELETE", "/sessions/{session_id}",
    "Archive the session, exactly as `archiveSession` does: no record is deleted (V-2).",
    roles=OPERATORS, body=ArchiveBody, body_optional=True, answers=Session,
    codes=("ApprovalRequired", "Conflict", "QuotaExceeded"),
    no_verb="`sessions archive` does the same")
RESTORE_SESSION = Operation(
    "restoreSession", "POST", "/sessions/{session_id}/restore",
    "Restore an archived session.",
    roles=OPERATORS, body=RestoreBody, body_optional=True, answers=Session,
    codes=("ApprovalRequired", "Conflict", "QuotaExceeded"),
    verb="sessions restore")
LIST_SESSION_HISTORY = Operation(
    "listSessionHistory", "GET", "/sessions/{session_id}/history",
    "List the sessions that this session's key has had, newest first; the first is the current one.",
    roles=READERS, query=("limit",), answers=SessionHistory,
    verb="sessions history")
