"""Requests on sessions, their frames and files, and the tenant's feed."""

from __future__ import annotations

from typing import Literal

import msgspec

from interlock.protocol.access import StreamTicket, TicketBody
from interlock.protocol.answers import (
    FeedPage,
    FilePage,
    FrameEvent,
    FramePage,
    GitChanges,
    SessionHistory,
    SessionPage,
    StagedChanges,
)
from interlock.protocol.api.access import GIVE_TICKET
from interlock.protocol.api.session_entries import (
    ARCHIVE_SESSION,
    DELETE_SESSION,
    DISCARD_CHANGES,
    GET_GIT_CHANGES,
    GET_STAGED_CHANGES,
    LAND_CHANGES,
    LIST_SESSION_HISTORY,
    PATCH_SESSION,
    RESET_SESSION,
    RESTORE_SESSION,
)
from interlock.protocol.api.sessions import (
    CLOSE_SESSION,
    COMPACT_SESSION,
    GET_FEED,
    GET_FILE,
    GET_FRAMES,
    GET_SESSION,
    LIST_FILES,
    LIST_SESSIONS,
    RELEASE_SESSION,
)
from interlock.protocol.bodies import (
    ArchiveBody,
    CloseBody,
    CompactBody,
    DiscardBody,
    EntryBody,
    LandBody,
    ReleaseBody,
    RestoreBody,
    StartOverBody,
)
from interlock.protocol.resources import Approval, Compaction, FeedEvent, Session
from interlock.sdk.exchange import RequestSpec
from interlock.sdk.follower import Following
from interlock.sdk.methods import ApiResource, EventMethod, Every, LinkT, Pieces, SingleRequest
from interlock.sdk.requests.base import change, read, written

View = Literal["delivered", "raw"]

_frame = msgspec.json.Decoder(FrameEvent)
_feed = msgspec.json.Decoder(FeedEvent)


def listing(*, cursor: str | None = None, limit: int | None = None, active: int | None = None,
            state: str | None = None, agent: str | None = None, runner: str | None = None,
            workspace: str | None = None, key: str | None = None, waiting: bool = False, q: str | None = None
            ) -> RequestSpec[SessionPage]:
    """Return a page of sessions, newest activity first; with `active` those of the last `active` minutes, with
    `waiting` those that wait for a person, with `q` those with this text in title, key, id, agent or directory."""
    return read(LIST_SESSIONS, cursor=cursor, limit=limit, active=active, state=state, agent=agent, runner=runner,
                workspace=workspace, key=key, waiting="true" if waiting else None, q=q)


def show(session_id: str) -> RequestSpec[Session]:
    """Return a session."""
    return read(GET_SESSION, session_id)


def close(session_id: str, *, reason: str = "asked for", idempotency_key: str | None = None) -> RequestSpec[Session]:
    """End the session's agent; the session stays readable."""
    return change(CLOSE_SESSION, session_id, body=CloseBody(reason=reason), key=idempotency_key)


def compact(session_id: str, *, instructions: str | None = None, idempotency_key: str | None = None
            ) -> RequestSpec[Compaction]:
    """Ask the agent to compact its context; the session's frames have the outcome, after the cursor of the response."""
    return change(COMPACT_SESSION, session_id, body=CompactBody(instructions=instructions), key=idempotency_key)


def release(session_id: str, to: str, *, idempotency_key: str | None = None) -> RequestSpec[Session]:
    """Ask the runner to hand control of the session to another gateway."""
    return change(RELEASE_SESSION, session_id, body=ReleaseBody(to=to), key=idempotency_key)


def diff(session_id: str) -> RequestSpec[GitChanges]:
    """Return what git finds changed in the session's workspace, as its runner reads it now."""
    return read(GET_GIT_CHANGES, session_id)


def changes(session_id: str) -> RequestSpec[StagedChanges]:
    """Return what the session's agent staged and has not landed (H-17)."""
    return read(GET_STAGED_CHANGES, session_id)


def land(session_id: str, files: list[str] | None = None, *, digest: str | None = None, comment: str | None = None,
         idempotency_key: str | None = None) -> RequestSpec[Approval]:
    """Vote that staged changes land, all of them or these files; returns the approval after the vote. With `digest`,
    that of the approval that was shown, nothing lands if it has changed since. If no question is pending, submit
    `ExecutePayload(messages=[], land=True)` first: its turn asks only about landing."""
    return change(LAND_CHANGES, session_id, body=LandBody(files=files, digest=digest, comment=comment),
                  key=idempotency_key)


def discard(session_id: str, files: list[str] | None = None, *,
            idempotency_key: str | None = None) -> RequestSpec[Session]:
    """Discard staged changes, all of them or these files; the session's frames have the outcome."""
    return change(DISCARD_CHANGES, session_id, body=DiscardBody(files=files), key=idempotency_key)


def patch(session_id: str, fields: EntryBody, *, idempotency_key: str | None = None) -> RequestSpec[Session]:
    """Set fields of the session's entry; a field that is None is cleared, and an omitted one is unchanged (I-4)."""
    return change(PATCH_SESSION, session_id, body=fields, key=idempotency_key)


def reset(session_id: str, *, idempotency_key: str | None = None) -> RequestSpec[Session]:
    """End the session's work and begin a new session under its key. Returns the new one."""
    return change(RESET_SESSION, session_id, body=StartOverBody(), key=idempotency_key)


def archive(session_id: str, *, reason: str = "asked for", idempotency_key: str | None = None) -> RequestSpec[Session]:
    """Archive a session and end its work: it stays readable, and its key begins a new one."""
    return change(ARCHIVE_SESSION, session_id, body=ArchiveBody(reason=reason), key=idempotency_key)


def delete(session_id: str, *, reason: str = "asked for", idempotency_key: str | None = None) -> RequestSpec[Session]:
    """Archive a session: sessions are never removed from the record."""
    return change(DELETE_SESSION, session_id, body=ArchiveBody(reason=reason), key=idempotency_key)


def restore(session_id: str, *, idempotency_key: str | None = None) -> RequestSpec[Session]:
    """Restore an archived session."""
    return change(RESTORE_SESSION, session_id, body=RestoreBody(), key=idempotency_key)


def history(session_id: str, *, limit: int | None = None) -> RequestSpec[SessionHistory]:
    """Return the sessions that this one's key has had, newest first."""
    return read(LIST_SESSION_HISTORY, session_id, limit=limit)


def frames(session_id: str, *, since: str | None = None, last: int | None = None, before: str | None = None,
           view: View | None = None, limit: int | None = None, wait: int | None = None) -> RequestSpec[FramePage]:
    """Return a page of the session's stream: frames of both directions and notices. `before` reads it backwards, by
    `previous_cursor`."""
    return read(GET_FRAMES, session_id, since=since, last=last, before=before, view=view, limit=limit, wait=wait)


def follow(session_id: str, *, since: str | None = None, view: View | None = None) -> Following[FrameEvent]:
    """Follow the session's stream as it grows, deltas included; it does not end by itself."""
    return Following(GET_FRAMES.at(session_id), lambda _event, data: _frame.decode(data), written({"view": view}),
                     since)


def files(session_id: str, *, cursor: str | None = None, limit: int | None = None) -> RequestSpec[FilePage]:
    """Return a page of the files that were sent in the session."""
    return read(LIST_FILES, session_id, cursor=cursor, limit=limit)


def download(session_id: str, transfer_id: str) -> RequestSpec[bytes]:
    """Read a file's bytes, piece by piece."""
    return read(GET_FILE, session_id, transfer_id)


def events(*, since: str | None = None, last: int | None = None, limit: int | None = None,
           wait: int | None = None) -> RequestSpec[FeedPage]:
    """Return a page of the tenant's feed: what changed, and where to read it."""
    return read(GET_FEED, since=since, last=last, limit=limit, wait=wait)


def follow_events(*, since: str | None = None) -> Following[FeedEvent]:
    """Follow the tenant's feed as it grows; it does not end by itself."""
    return Following(GET_FEED.at(), lambda _event, data: _feed.decode(data), written({}), since)


def ticket(path: str, *, idempotency_key: str | None = None) -> RequestSpec[StreamTicket]:
    """Create a ticket that opens the stream at `path` once, for a client that cannot send a header (K-2)."""
    return change(GIVE_TICKET, body=TicketBody(path=path), key=idempotency_key)


class SessionMethods(ApiResource[LinkT]):
    """Conversations, their frames and files."""

    list = SingleRequest(listing)
    every = Every(listing)
    get = SingleRequest(show)
    patch = SingleRequest(patch)
    reset = SingleRequest(reset)
    archive = SingleRequest(archive)
    delete = SingleRequest(delete)
    restore = SingleRequest(restore)
    history = SingleRequest(history)
    close = SingleRequest(close)
    compact = SingleRequest(compact)
    release = SingleRequest(release)
    changes = SingleRequest(changes)
    diff = SingleRequest(diff)
    land = SingleRequest(land)
    discard = SingleRequest(discard)
    frames = SingleRequest(frames)
    follow = EventMethod(follow)
    every_file = Every(files)  # Before the next line, from which on `files` is the method.
    files = SingleRequest(files)
    download = Pieces(download)


class EventMethods(ApiResource[LinkT]):
    """The tenant's feed."""

    list = SingleRequest(events)
    follow = EventMethod(follow_events)
    ticket = SingleRequest(ticket)
