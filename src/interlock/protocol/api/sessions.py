"""Sessions, their frames and files, and the tenant's feed."""

from __future__ import annotations

from interlock.protocol.answers import FeedPage, FilePage, FramePage, SessionPage
from interlock.protocol.api.operation import (
    BINARY,
    OPERATORS,
    READERS,
    STREAM_QUERY,
    STREAMED,
    Operation,
)
from interlock.protocol.bodies import CloseBody, CompactBody, ReleaseBody
from interlock.protocol.resources import Compaction, Session

SHOWN_AS_THEY_ARE = (
    "application/pdf", "audio/mpeg", "audio/ogg", "audio/wav", "image/gif", "image/jpeg", "image/png", "image/webp",
)
"""Media types of files that a browser may display; any other file is sent as bytes."""

LIST_SESSIONS = Operation(
    "listSessions", "GET", "/sessions",
    "List sessions, newest activity first; with `active` only those of the last minutes. A page of a search may have "
    "fewer items than `limit` although `has_more` is true.",
    roles=READERS, query=("cursor", "limit", "active", "state", "agent", "runner", "workspace", "key", "waiting", "q"),
    answers=SessionPage,
    verb="sessions")
GET_SESSION = Operation(
    "getSession", "GET", "/sessions/{session_id}",
    "Return one session.",
    roles=READERS, answers=Session,
    verb="sessions")
CLOSE_SESSION = Operation(
    "closeSession", "POST", "/sessions/{session_id}/close",
    "End the session's agent; the session stays readable.",
    roles=OPERATORS, body=CloseBody, body_optional=True, answers=Session,
    codes=("ApprovalRequired", "Conflict", "QuotaExceeded"),
    no_verb="`sessions archive` ends a session's work; to close it and leave it is what an editor does")
COMPACT_SESSION = Operation(
    "compactSession", "POST", "/sessions/{session_id}/compact",
    "Request a compaction; the session's stream has its outcome (T-6).",
    roles=OPERATORS, body=CompactBody, body_optional=True, answers=Compaction, status=202,
    codes=("ApprovalRequired", "Conflict", "QuotaExceeded", "UnsupportedCapability"),
    verb="sessions compact")
RELEASE_SESSION = Operation(
    "releaseSession", "POST", "/sessions/{session_id}/release",
    "Ask the runner to hand control of the session to another gateway (D-5).",
    roles=OPERATORS, body=ReleaseBody, answers=Session,
    codes=("ApprovalRequired", "Conflict", "QuotaExceeded", "UnsupportedCapability"),
    verb="sessions release")
GET_FRAMES = Operation(
    "getFrames", "GET", "/sessions/{session_id}/frames",
    "Return a session's frames in both directions, its notices and deltas, in the delivered or the raw view (S-1, "
    "S-6). `before` reads backwards, page by page.",
    roles=READERS, query=(*STREAM_QUERY, "before", "view"), answers=FramePage, media=STREAMED,
    events="Server-sent events: `frame`, `refused` and `notice` carry a FrameEvent and an id, which is the cursor; "
           "`delta` carries one without `n`, and no id. `behind` ends a stream that was read too slowly.",
    verb="attach")
GET_FEED = Operation(
    "getFeed", "GET", "/events",
    "Return what changed in the tenant, and where to read it.",
    roles=READERS, query=STREAM_QUERY, answers=FeedPage, media=STREAMED,
    events="Server-sent events: `feed` carries a FeedEvent and an id, which is the cursor.",
    no_verb="no verb follows a whole tenant; bridges to chats do")
LIST_FILES = Operation(
    "listFiles", "GET", "/sessions/{session_id}/files",
    "List the files that were transferred in a session.",
    roles=READERS, query=("cursor", "limit"), answers=FilePage,
    verb="sessions files")
GET_FILE = Operation[bytes](
    "getFile", "GET", "/sessions/{session_id}/files/{transfer_id}",
    "Return a file's bytes.",
    roles=READERS, media=(BINARY, *SHOWN_AS_THEY_ARE),
    verb="sessions save")
