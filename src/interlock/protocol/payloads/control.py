"""`control.`: the gateway's requests to a session (M)."""

from __future__ import annotations

from typing import Any, Literal

from interlock.protocol.box import Box
from interlock.protocol.payloads.base import Count, FrameId, Payload


class PromptRequest(Payload, frozen=True, kw_only=True):
    """`control.prompt.request`; `content` is the blocks of `input_type` "blocks". A prompt of `input_type` "landing"
    sends the agent nothing: its turn asks whether staged changes land (H-17)."""

    prompt_id: FrameId
    input_type: Literal["text", "blocks", "landing"]
    origin: Literal["user", "cron", "hook", "flush", "system"]
    text: str | None = None
    content: list[dict[str, Any]] | None = None
    command_id: str | None = None
    timeout_ms: Count | None = None
    mode: str | None = None
    model: str | None = None
    options: dict[str, Any] | None = None
    system_append: str | None = None
    silent: bool = False
    context: dict[str, Any] | None = None
    only_if_asks: bool = False
    """Whether it is refused with NOT_ASKING, before a turn starts, if the agent does not ask before its tool calls
    (H-11)."""
    only_in_box: Box | None = None
    """The prompt is refused with NOT_BOXED, before a turn starts, if the opening's box has fewer restrictions than this
    one (H-18)."""


class InteractionResponse(Payload, frozen=True, kw_only=True):
    """`control.interaction.response`; `by` is the person or rule that decided."""

    interaction_id: FrameId
    decision: Literal["allow", "deny"]
    by: str
    option_id: str | None = None
    answer: str | None = None
    updated_input: dict[str, Any] | None = None
    message: str | None = None


class InteractionTimeout(Payload, frozen=True, kw_only=True):
    """`control.interaction.timeout`: a deny (A-5)."""

    interaction_id: FrameId


class SessionCompact(Payload, frozen=True, kw_only=True):
    """`control.session.compact` (A-6): answered by `session.compacted` with trigger `requested`."""

    request_id: FrameId
    instructions: str | None = None
    plan: dict[str, Any] | None = None


class ModeSwitch(Payload, frozen=True, kw_only=True):
    """`control.mode.switch` (A-6)."""

    mode: str


class SessionOpen(Payload, frozen=True, kw_only=True):
    """`control.session.open`; `workspace` is absolute on the runner, "" means the runner's first root. The agent starts
    although files there configure it if `trusted_files` is the SHA-256 (hex) of the runner's report of them (H-13)."""

    session_id: FrameId
    agent_id: str
    workspace: str
    workspace_access: Literal["rw", "ro", "none"]
    resume: bool = False
    buffer_policy: Literal["RING", "DROP", "NONE"] = "RING"
    trusted_files: str | None = None


class SessionClose(Payload, frozen=True, kw_only=True):
    """`control.session.close`: the termination of A-4, then `session.closed`."""

    reason: str


class SessionRelease(Payload, frozen=True, kw_only=True):
    """`control.session.release`: control passes to the gateway named by `to` (D-5)."""

    to: str


class TurnCancel(Payload, frozen=True, kw_only=True):
    """`control.turn.cancel`: without `turn_id` it means the session's current turn, if any."""

    reason: str
    turn_id: FrameId | None = None


class TurnPause(Payload, frozen=True, kw_only=True):
    """`control.turn.pause`."""

    reason: str | None = None


class TurnResume(Payload, frozen=True, kw_only=True):
    """`control.turn.resume`."""

    reason: str | None = None
