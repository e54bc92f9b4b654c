"""Staged changes of a session, and its entry."""

from __future__ import annotations

from interlock.protocol.answers import GitChanges, SessionHistory, StagedChanges
from interlock.protocol.api.operation import APPROVERS, OPERATORS, READERS, Operation
from interlock.protocol.bodies import ArchiveBody, DiscardBody, EntryBody, LandBody, RestoreBody, StartOverBody
from interlock.protocol.resources import Approval, Session

GET_STAGED_CHANGES = Operation(
    "getStagedChanges", "GET", "/sessions/{session_id}/changes",
    "What is staged, as the runner reported it last.",
    roles=READERS, answers=StagedChanges,
    verb="changes")
GET_GIT_CHANGES = Operation(
    "getGitChanges", "GET", "/sessions/{session_id}/changes/git",
    "What git finds changed in its workspace since the last commit: the runner looks now, within limits.",
    roles=READERS, answers=GitChanges, codes=("UnsupportedCapability",), at_runner=True,
    verb="diff")
LAND_CHANGES = Operation(
    "landChanges", "POST", "/sessions/{session_id}/land",
    "Vote that what is staged lands, all of it or the named files.",
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
    "Set fields of its entry; null clears one, and what is left out stays.",
    roles=OPERATORS, body=EntryBody, answers=Session, codes=("ApprovalRequired", "Conflict", "QuotaExceeded"),
    verb="sessions set")
RESET_SESSION = Operation(
    "resetSession", "POST", "/sessions/{session_id}/reset",
    "End its work, and begin a new session under its key; answers the new one.",
    roles=OPERATORS, body=StartOverBody, body_optional=True, answers=Session,
    codes=("ApprovalRequired", "Conflict", "QuotaExceeded"),
    verb="sessions reset")
ARCHIVE_SESSION = Operation(
    "archiveSession", "POST", "/sessions/{session_id}/archive",
    "End its work and put it away; it stays readable, and its key begins again. DELETE /sessions/{session_id} is "
    "the same: nothing that is recorded is taken away by a person's word (V-2).",
    roles=OPERATORS, body=ArchiveBody, body_optional=True, answers=Session,
    codes=("ApprovalRequired", "Conflict", "QuotaExceeded"),
    verb="sessions archive")
DELETE_SESSION = Operation(
    "deleteSession", "DELETE", "/sessions/{session_id}",
    "End its work and put it away; it stays readable, and its key begins again. DELETE /sessions/{session_id} is "
    "the same: nothing that is recorded is taken away by a person's word (V-2).",
    roles=OPERATORS, body=ArchiveBody, body_optional=True, answers=Session,
    codes=("ApprovalRequired", "Conflict", "QuotaExceeded"),
    no_verb="`sessions archive` does the same")
RESTORE_SESSION = Operation(
    "restoreSession", "POST", "/sessions/{session_id}/restore",
    "Take an archived session back.",
    roles=OPERATORS, body=RestoreBody, body_optional=True, answers=Session,
    codes=("ApprovalRequired", "Conflict", "QuotaExceeded"),
    verb="sessions restore")
LIST_SESSION_HISTORY = Operation(
    "listSessionHistory", "GET", "/sessions/{session_id}/history",
    "The sessions that its key has had, newest first; the first is the current.",
    roles=READERS, query=("limit",), answers=SessionHistory,
    verb="sessions history")
