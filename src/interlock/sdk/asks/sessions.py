"""Sessions, their frames and files, and the tenant's feed."""

from __future__ import annotations

from typing import Literal

import msgspec

from interlock.protocol.access import StreamTicket, TicketBody
from interlock.protocol.answers import FeedPage, FilePage, FrameEvent, FramePage, SessionPage
from interlock.protocol.bodies import CloseBody, CompactBody, ReleaseBody
from interlock.protocol.resources import Compaction, FeedEvent, Session
from interlock.sdk.asks.base import get, post, raw, segment, written
from interlock.sdk.exchange import Ask
from interlock.sdk.following import Following

View = Literal["delivered", "raw"]

_frame = msgspec.json.Decoder(FrameEvent)
_feed = msgspec.json.Decoder(FeedEvent)


def listing(*, cursor: str | None = None, limit: int | None = None) -> Ask[SessionPage]:
    """A page of sessions, newest activity first."""
    return get("/v1/sessions", SessionPage, cursor=cursor, limit=limit)


def show(session_id: str) -> Ask[Session]:
    """A session as it is."""
    return get(_path(session_id), Session)


def close(session_id: str, *, reason: str = "asked for", idempotency_key: str | None = None) -> Ask[Session]:
    """End the session's agent; the session stays readable."""
    return post(_path(session_id, "/close"), Session, CloseBody(reason=reason), idempotency_key)


def compact(session_id: str, *, instructions: str | None = None, idempotency_key: str | None = None
            ) -> Ask[Compaction]:
    """Have the agent compact its context; the session's frames tell what became of it, from the answer's cursor on."""
    return post(_path(session_id, "/compact"), Compaction, CompactBody(instructions=instructions), idempotency_key)


def release(session_id: str, to: str, *, idempotency_key: str | None = None) -> Ask[Session]:
    """Ask the runner to hand control of the session to another gateway."""
    return post(_path(session_id, "/release"), Session, ReleaseBody(to=to), idempotency_key)


def frames(session_id: str, *, since: str | None = None, view: View | None = None, limit: int | None = None,
           wait: int | None = None) -> Ask[FramePage]:
    """A page of the session's stream: frames of both directions and notices."""
    return get(_path(session_id, "/frames"), FramePage, since=since, view=view, limit=limit, wait=wait)


def follow(session_id: str, *, since: str | None = None, view: View | None = None) -> Following[FrameEvent]:
    """The session's stream as it grows, deltas included; it has no end of its own."""
    return Following(_path(session_id, "/frames"), lambda _event, data: _frame.decode(data), written({"view": view}),
                     since)


def files(session_id: str, *, cursor: str | None = None, limit: int | None = None) -> Ask[FilePage]:
    """A page of the files that travelled in the session."""
    return get(_path(session_id, "/files"), FilePage, cursor=cursor, limit=limit)


def download(session_id: str, transfer_id: str) -> Ask[bytes]:
    """A file's bytes, piece by piece."""
    return raw(_path(session_id, f"/files/{segment(transfer_id)}"), "*/*")


def events(*, since: str | None = None, limit: int | None = None, wait: int | None = None) -> Ask[FeedPage]:
    """A page of the tenant's feed: what changed, and where to read it."""
    return get("/v1/events", FeedPage, since=since, limit=limit, wait=wait)


def follow_events(*, since: str | None = None) -> Following[FeedEvent]:
    """The tenant's feed as it grows; it has no end of its own."""
    return Following("/v1/events", lambda _event, data: _feed.decode(data), written({}), since)


def ticket(path: str, *, idempotency_key: str | None = None) -> Ask[StreamTicket]:
    """A ticket that opens the stream at `path` once, for who cannot send a header (K-2)."""
    return post("/v1/stream-tickets", StreamTicket, TicketBody(path=path), idempotency_key)


def _path(session_id: str, rest: str = "") -> str:
    return f"/v1/sessions/{segment(session_id)}{rest}"
