"""The base of all payloads, and the types that several of them use."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from interlock.protocol.limits import LARGEST_SEQ, MAX_ID_CHARS

Severity = Literal["warning", "error", "fatal"]
AgentState = Literal["idle", "running", "waiting_approval", "waiting_input", "compacting", "paused", "terminated"]
StopReason = Literal["end_turn", "max_tokens", "cancelled", "error", "tool_use", "awaiting_input"]
OptionKind = Literal["allow_once", "allow_always", "reject_once", "reject_always"]
ToolStatus = Literal["ok", "error", "denied", "cancelled"]
OutputType = Literal[
    "text", "file_content", "empty", "diff", "file_list", "web_content", "structured", "agent_result"
]
Channel = Literal["stdout", "stderr", "progress", "agent"]
Outcome = Literal["allowed", "denied", "expired", "void"]


Count = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_SEQ)]
"""A number of things, or a position among them: never negative, and within the range of a store and a JSON reader."""
FrameId = Annotated[str, msgspec.Meta(max_length=MAX_ID_CHARS)]
"""An id that the maker of a frame chose."""
CommitId = Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{40}|[0-9a-f]{64})?$", max_length=64)]
"""A git commit; "" for a repository that has none."""
TurnId = Annotated[str, msgspec.Meta(
    pattern="^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-4[0-9A-Fa-f]{3}-[89ABab][0-9A-Fa-f]{3}-[0-9A-Fa-f]{12}$", max_length=36)]
"""A UUID v4 (RAWP-DPS 7.5.1)."""


class Payload(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Base of all payloads: absent fields stay absent on the wire. A decoded payload never refers to itself, so the
    cyclic collector skips it."""
