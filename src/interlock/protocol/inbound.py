"""Messages from chats and hooks, and the responses (R-4)."""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal

import msgspec

from interlock.protocol.limits import MAX_CONTENT_PARTS
from interlock.protocol.resources.base import Body, Resource

Id = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Words = Annotated[str, msgspec.Meta(max_length=500)]
ResetCause = Literal["daily", "idle", "asked"]


class Attachment(Body, frozen=True, kw_only=True):
    """A file of a message. `data` is base64; its kind is determined by its media type."""

    data: str
    media_type: Annotated[str, msgspec.Meta(max_length=200)] = "application/octet-stream"
    name: Words | None = None

    @property
    def content_type(self) -> str:
        """Return the type of its content part: image, audio, video or file."""
        kind = self.media_type.partition("/")[0]
        return kind if kind in ("image", "audio", "video") else "file"


class InboundBody(Body, frozen=True, kw_only=True):
    """`POST /v1/inbound`: a message of a chat. With `message_id` no other idempotency key is needed."""

    channel: Id
    chat_type: Literal["direct", "group", "room", "channel"]
    account_id: Id | None = None
    peer: Id | None = None
    group_id: Id | None = None
    thread_id: Id | None = None
    topic_id: Id | None = None
    parent_peer: Id | None = None
    guild_id: Id | None = None
    team_id: Id | None = None
    sender: Id
    text: str = ""
    attachments: Annotated[list[Attachment], msgspec.Meta(max_length=MAX_CONTENT_PARTS)] = (
        msgspec.field(default_factory=list[Attachment]))
    message_id: Id | None = None
    session_key: Annotated[str, msgspec.Meta(min_length=1, max_length=512)] | None = None
    """The session's key, if the chat does not determine it."""
    subject: Words | None = None
    room: Words | None = None
    space: Words | None = None
    display_name: Words | None = None

    @property
    def idempotency_key(self) -> str | None:
        """Return `in:` and the SHA-256 of channel, account, chat, thread and message id, each length-delimited as
        JSON."""
        if self.message_id is None:
            return None
        place = (self.peer or self.sender) if self.chat_type == "direct" else self.group_id
        named = [self.channel.lower(), self.account_id, self.chat_type, place, self.thread_id, self.topic_id,
                 self.message_id, *([self.session_key] if self.session_key is not None else [])]
        return "in:" + hashlib.sha256(msgspec.json.encode(named)).hexdigest()


class Received(Resource, frozen=True, kw_only=True):
    """The outcome of a message: its session and its command. There is no command for `/new` alone, or if `denied`."""

    session_id: str
    """Empty if a chat command like `/status` preceded the first message."""
    session_key: str
    command_id: str | None = None
    reply: str | None = None
    """The gateway's own answer, to `/status`, `/stop` and `/compact`; there is no other answer then."""
    reset: ResetCause | None = None
    """Why a new session started: the daily hour, idleness, or a person's command."""
    denied: bool = False
    """`sendPolicy` requires silence in this chat: the message is in the transcript, and is not answered."""


class CronJobShown(Resource, frozen=True, kw_only=True):
    """A cron job of the config, as `GET /v1/cron` lists it."""

    id: str
    agent_id: str
    session_key: str
    schedule: str
    """Minute, hour, day, month, weekday."""
    time_zone: str
    message: str
    enabled: bool = True
    next_at: str | None = None
    last_at: str | None = None
    """When it was last delivered to its agent, with the session and the command of that delivery."""
    session_id: str | None = None
    command_id: str | None = None
    missed: int = 0
    """How many times it was due and could not run, since it is known; the last time and the reason are beside it."""
    missed_at: str | None = None
    error: str | None = None


class CronJobs(Resource, frozen=True, kw_only=True):
    """`GET /v1/cron`."""

    items: list[CronJobShown]


class CronRunBody(Body, frozen=True, kw_only=True):
    """`POST /v1/cron/{job_id}/run`."""

    idempotency_key: str | None = None
