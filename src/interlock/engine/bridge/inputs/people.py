"""Inputs of a lane from people, and from programs that act for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from interlock.engine.bridge.commands.verbs import LaneVerb
from interlock.engine.bridge.context.compaction import CompactionRequest
from interlock.engine.bridge.context.contexts import Prepared
from interlock.engine.bridge.inputs.lane_input import LaneInput
from interlock.protocol.inbound import ResetCause
from interlock.protocol.records import ApprovalRecord, CommandRecord, Principal
from interlock.protocol.resources import Approval, CommandBody, GrantBody, SigningKey
from interlock.session.chat.chat_route import Chat
from interlock.session.chat.send_policy import SendRules

SentBy = Literal["user", "cron", "hook"]


# --- commands and approvals ---
class CommandSubmitted(LaneInput, frozen=True):
    """A command (C-0)."""

    principal: Principal
    body: CommandBody


class VoteCast(LaneInput, frozen=True):
    """A vote on an approval (P-3), with the rows that the voter was shown, the key that it names, and the number of
    rules the tenant has remembered."""

    principal: Principal
    approval_id: str
    body: GrantBody
    approval: ApprovalRecord
    command: CommandRecord | None
    key: SigningKey | None = None
    remembered: int = 0


class VoteWithdrawn(LaneInput, frozen=True):
    """The withdrawal of a vote (P-3)."""

    principal: Principal
    approval_id: str


class CardsReported(LaneInput, frozen=True):
    """The chats where a bridge has posted an approval (J-5)."""

    principal: Principal
    approval_id: str
    service: str
    chats: list[str]


class LateVoteAnswered(LaneInput, frozen=True):
    """The answer to a vote on an approval that is decided already: stored for a repeated request."""

    approval: Approval


class QuestionAnswered(LaneInput, frozen=True):
    """The answer to an agent's question; without a text it is declined (C-8)."""

    principal: Principal
    approval_id: str
    text: str | None


class PolicyAsked(LaneInput, frozen=True):
    """A question to policy about an action whose effect is elsewhere (P-1)."""

    verb: LaneVerb


# --- sessions ---
class SessionChange(LaneInput, frozen=True):
    """A change of a session by V-2: `name` is the one that policy knows, `body` the request's body."""

    name: Literal["close", "patch", "archive", "restore", "release", "discard"]
    principal: Principal
    body: Mapping[str, Any]


class SessionPutAway(LaneInput, frozen=True):
    """A person deleted the session's entry in a view: archive it if nothing works in it (N-1)."""

    principal: Principal


class SessionReset(LaneInput, frozen=True):
    """The start of the session after `before`, requested by a person (I-1)."""

    principal: Principal
    before: str


class SessionRetired(LaneInput, frozen=True):
    """The session is replaced by a reset of its key (I-1)."""

    who: dict[str, str]
    asked: bool


class PredecessorLeft(LaneInput, frozen=True):
    """The previous session's work has ended, or will end by itself."""


# --- chats ---
class ChatMessageReceived(LaneInput, frozen=True):
    """A message from a chat. `before` is set if it starts this session, `body` is None if nothing is to run."""

    principal: Principal
    key: str
    chat: Chat
    described: dict[str, str]
    sending: SendRules
    body: CommandBody | None
    begins: bool = False
    before: str = ""
    cause: ResetCause | None = None
    model: str | None = None


class SystemMessageReceived(LaneInput, frozen=True):
    """A message of a cron job or a hook (I-2)."""

    principal: Principal
    key: str
    sending: SendRules
    body: CommandBody
    origin: SentBy


class ChatWord(LaneInput, frozen=True):
    """A chat command to the gateway itself: `/status` or `/stop` (V-1)."""

    principal: Principal
    key: str
    chat: Chat
    sending: SendRules
    name: Literal["status", "stop"]


# --- transcripts ---
class EntryAdded(LaneInput, frozen=True):
    """A label or a branch for the transcript (X-6). `text` is the label, or the branch's summary."""

    name: Literal["label", "branch"]
    principal: Principal
    body: Mapping[str, Any]
    entry_id: str
    text: str | None


class TranscriptBegun(LaneInput, frozen=True):
    """The session starts with a transcript that is in its file already (X-2, X-6)."""

    principal: Principal
    meta: dict[str, Any]
    ids: list[str]
    leaf: str | None


class RepairBegun(LaneInput, frozen=True):
    """A damaged transcript is to be repaired; `found` is None for an intact one (X-4)."""

    principal: Principal
    found: dict[str, int] | None


class RepairDone(LaneInput, frozen=True):
    """The transcript's file is intact; `found` is None if it was before (X-4)."""

    principal: Principal
    ids: list[str]
    leaf: str | None
    entries: int
    found: dict[str, int] | None = None
    kept: str = ""


# --- compaction on request ---
class CompactionChecked(LaneInput, frozen=True):
    """A check whether the context can be compacted now (T-6)."""

    instructions: str | None


class AgentCompaction(LaneInput, frozen=True):
    """A request that the agent compacts its own context, unless the gateway plans it (`planned_here`) (T-6)."""

    principal: Principal
    instructions: str | None
    planned_here: bool


class CompactionRequested(LaneInput, frozen=True):
    """A compaction requested by a person was planned; `summary` is a hook's (Z-4, Z-6)."""

    request: CompactionRequest
    prepared: Prepared
    instructions: str | None
    summary: str | None = None
