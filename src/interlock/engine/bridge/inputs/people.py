"""What people, and the programs that act for them, ask of a lane."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from interlock.engine.bridge.compaction import CompactionRequest
from interlock.engine.bridge.contexts import Prepared
from interlock.engine.bridge.inputs.lane_input import LaneInput
from interlock.engine.bridge.submission import SentBy
from interlock.engine.bridge.verbs import LaneVerb
from interlock.protocol.inbound import ResetCause
from interlock.protocol.records import ApprovalRecord, CommandRecord, Principal
from interlock.protocol.resources import Approval, CommandBody, GrantBody, SigningKey
from interlock.session.chat_route import Chat
from interlock.session.send_policy import SendRules


# --- commands and approvals ---
class CommandSubmitted(LaneInput, frozen=True):
    """A command (C-0)."""

    principal: Principal
    body: CommandBody


class VoteCast(LaneInput, frozen=True):
    """A vote on an approval (P-3), with the rows that the voter was shown, the key that it names, and how many rules
    the tenant has remembered."""

    principal: Principal
    approval_id: str
    body: GrantBody
    approval: ApprovalRecord
    command: CommandRecord | None
    key: SigningKey | None = None
    remembered: int = 0


class VoteWithdrawn(LaneInput, frozen=True):
    """A vote that is taken back (P-3)."""

    principal: Principal
    approval_id: str


class CardsReported(LaneInput, frozen=True):
    """The chats where a bridge has posted an approval (J-5)."""

    principal: Principal
    approval_id: str
    service: str
    chats: list[str]


class LateVoteAnswered(LaneInput, frozen=True):
    """The answer to a vote on what is decided already: it is stored for a repeated request."""

    approval: Approval


class QuestionAnswered(LaneInput, frozen=True):
    """The answer to an agent's question; without a text it is declined (C-8)."""

    principal: Principal
    approval_id: str
    text: str | None


class PolicyAsked(LaneInput, frozen=True):
    """Ask policy about a verb whose effect is elsewhere (P-1)."""

    verb: LaneVerb


# --- sessions ---
class SessionChange(LaneInput, frozen=True):
    """A verb of V-2 that changes a session: `name` is the one that policy knows, `said` its body."""

    name: Literal["close", "patch", "archive", "restore", "release", "discard"]
    principal: Principal
    said: Mapping[str, Any]


class SessionPutAway(LaneInput, frozen=True):
    """A person deleted the session's entry in a view: archive it if nothing works in it (N-1)."""

    principal: Principal


class SessionReset(LaneInput, frozen=True):
    """The session begins after `before`, because a person asked for it (I-1)."""

    principal: Principal
    before: str


class SessionRetired(LaneInput, frozen=True):
    """The session is left behind by a reset of its key (I-1)."""

    who: dict[str, str]
    asked: bool


class PredecessorLeft(LaneInput, frozen=True):
    """The work of the session before this one is ended, or ends by itself."""


# --- chats ---
class ChatMessageReceived(LaneInput, frozen=True):
    """A message from a chat. `before` is set if it begins this session, `body` is None if nothing is to run."""

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
    """What a cron job or a hook says (I-2)."""

    principal: Principal
    key: str
    sending: SendRules
    body: CommandBody
    origin: SentBy


class ChatWord(LaneInput, frozen=True):
    """A word for the gateway itself: `/status` or `/stop` (V-1)."""

    principal: Principal
    key: str
    chat: Chat
    sending: SendRules
    name: Literal["status", "stop"]


# --- transcripts ---
class EntryAdded(LaneInput, frozen=True):
    """A label or a branch of the transcript (X-6). `text` is the label, or the branch's summary."""

    name: Literal["label", "branch"]
    principal: Principal
    said: Mapping[str, Any]
    entry_id: str
    text: str | None


class TranscriptBegun(LaneInput, frozen=True):
    """The session begins with a transcript that is in its file already (X-2, X-6)."""

    principal: Principal
    meta: dict[str, Any]
    ids: list[str]
    leaf: str | None


class RepairBegun(LaneInput, frozen=True):
    """A damaged transcript is to be repaired; `found` is None for a sound one (X-4)."""

    principal: Principal
    found: dict[str, int] | None


class RepairDone(LaneInput, frozen=True):
    """The transcript's file is whole; `found` is None if it was before (X-4)."""

    principal: Principal
    ids: list[str]
    leaf: str | None
    entries: int
    found: dict[str, int] | None = None
    kept: str = ""


# --- compaction on request ---
class CompactionChecked(LaneInput, frozen=True):
    """Check whether the context can be compacted now (T-6)."""

    instructions: str | None


class AgentCompaction(LaneInput, frozen=True):
    """Ask the agent to compact its own context, unless the gateway plans it (`planned_here`) (T-6)."""

    principal: Principal
    instructions: str | None
    planned_here: bool


class CompactionRequested(LaneInput, frozen=True):
    """A compaction that a person asked for was planned; `summary` is a hook's (Z-4, Z-6)."""

    request: CompactionRequest
    prepared: Prepared
    instructions: str | None
    summary: str | None = None
