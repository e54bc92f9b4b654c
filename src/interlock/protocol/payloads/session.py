"""`session.`: a session's life cycle, its turns, its figures."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

import msgspec

from interlock.protocol.box import Box
from interlock.protocol.payloads.agent import AgentSettings
from interlock.protocol.payloads.base import CommitId, Count, FrameId, Payload, StopReason, TurnId


class Features(msgspec.Struct, frozen=True, kw_only=True):
    """What an adapter can do (A-6); also what hello declares of each agent."""

    adapter_type: Literal["process", "sdk"]
    permission: Literal["asks", "never"] = "never"
    context_owner: Literal["agent", "gateway"] = "agent"
    context_compaction: bool = False
    plan_mode: bool = False
    modes: list[str] = []
    """The ids of its modes, for a prompt's `mode` and `control.mode.switch`; its adapter refuses those that could let
    tools run unasked (A-6)."""
    pause: Literal["none", "boundary", "signal"] = "none"
    resume_session: bool = False
    single_turn_process: bool = False
    images: bool = False
    audio: bool = False
    files: bool = False
    thinking: bool = False
    model_switch: bool = False
    """Whether a prompt may name its model."""
    prompt_options: bool = False
    """Whether a prompt may carry options, such as `thinking`."""
    system_append: bool = False
    questions: bool = False
    """Whether it asks its user questions that are answered in words (QUESTION)."""
    updated_input: bool = False
    """Whether it accepts a tool's input as changed by a person (P-2)."""
    read_only: bool = False
    """Whether it may be opened with `workspace_access` ro."""


class AgentIdentity(Payload, frozen=True, kw_only=True):
    """The agent of a session."""

    agent_id: str
    name: str
    version: str | None = None
    model: str | None = None


class Capabilities(Payload, frozen=True, kw_only=True):
    """`session.capabilities` (A-6): the runner's answers an open; the gateway's own follows it."""

    dps_version: str
    features: dict[str, Any]
    agent: AgentIdentity | None = None
    box: Box | None = None
    """The box of this very opening, as reported by the runner (H-18); None if it reports none."""
    settings: AgentSettings | None = None
    """The agent's available settings and their values (J-14); None from an adapter that does not report them."""
    workspace_commit: CommitId | None = None
    """The commit that was checked out in the workspace before the agent started (J-4): "" in a repository without one,
    None if there is no repository that the runner reads."""


class BufferStatus(Payload, frozen=True, kw_only=True):
    """`buffer_status` of `session.history` (D-2)."""

    policy_applied: Literal["RING", "DROP", "NONE"]
    truncated: bool
    lost_frame_count: Count | None = None
    buffer_high_watermark: Count | None = None


class History(Payload, frozen=True, kw_only=True):
    """`session.history` (D-2): `frames` are whole envelopes, as bytes."""

    frames: list[msgspec.Raw]
    buffer_status: BufferStatus
    last_sync_timestamp: str
    last_message_id: str


class Covers(msgspec.Struct, frozen=True):
    """The part of a plan that a summary covers: the first entry kept, and the number of entries summarised."""

    first_kept: str
    entries: int


class PreservedElements(TypedDict, total=False):
    """The elements that a compaction is known to have preserved (T-6): an unknown list is absent, or null."""

    files_modified: list[str] | None
    decisions_made: list[str] | None
    errors_encountered: list[str] | None
    active_todos: list[dict[str, Any]] | None


class Compacted(Payload, frozen=True, kw_only=True):
    """`session.compacted` (T-6); `request_id` and `covers` answer a request with a plan (Z-4)."""

    summary: str
    previous_token_count: Count
    current_token_count: Count
    preserved_elements: PreservedElements = msgspec.field(default_factory=PreservedElements)
    """All of its fields are optional, so it may be absent when received; it is always sent."""
    trigger: Literal["auto", "manual", "requested"]
    request_id: FrameId | None = None
    covers: Covers | None = None


class TokenUsage(Payload, frozen=True, kw_only=True):
    """Tokens of one turn, or of one model request; unknown ones after a crash are 0 with `metadata.estimated`."""

    input_tokens: Count
    output_tokens: Count
    cache_read_tokens: Count | None = None
    cache_write_tokens: Count | None = None
    thinking_tokens: Count | None = None


class Quota(Payload, frozen=True, kw_only=True):
    """`cost_usage`: `limit` -1 is unlimited."""

    limit: Annotated[float, msgspec.Meta(ge=-1)]
    used: Annotated[float, msgspec.Meta(ge=0)]
    unit: str


class MessageQuota(Payload, frozen=True, kw_only=True):
    """`message_usage`: messages are counted, so its unit is fixed."""

    limit: Annotated[float, msgspec.Meta(ge=-1)]
    used: Annotated[float, msgspec.Meta(ge=0)]
    unit: Literal["COUNT"]


class ContextWindow(Payload, frozen=True, kw_only=True):
    """`utilization` is 0.0 to 1.0; unknown values are absent."""

    capacity: Count | None = None
    used: Count | None = None
    utilization: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None


class Usage(Payload, frozen=True, kw_only=True):
    """`session.usage` (T-2): `token_usage` counts this turn, the quotas are running totals. `request_usage` counts the
    turn's last model request alone; it is absent if the agent does not report it."""

    token_usage: TokenUsage
    cost_usage: Quota
    message_usage: MessageQuota
    context_window: ContextWindow = msgspec.field(default_factory=ContextWindow)
    """All of its fields are optional, so it may be absent when received; it is always sent."""
    time_to_reset: str
    turn_id: FrameId | None = None
    request_usage: TokenUsage | None = None


class WorkspaceFile(Payload, frozen=True, kw_only=True):
    """One file that configures an agent (H-13): its path relative to the workspace, what such a file could do, and what
    this one would do, line by line. `sha256` (hex) is of its content; one that was not read has `unread` and its
    `size`."""

    path: str
    could: list[str]
    does: list[str] = []
    size: Count = 0
    sha256: str = ""
    leads_to: str | None = None
    """The target of its symbolic link."""
    unread: str | None = None
    """Why it was not read; it changes with the file's size and time."""


class WorkspaceFiles(Payload, frozen=True, kw_only=True):
    """The workspace files that would configure an agent (H-13), sorted by path; SHA-256 of these bytes is what a yes
    covers."""

    agent_id: str
    directory: str
    files: list[WorkspaceFile]


class SessionError(Payload, frozen=True, kw_only=True):
    """`session.error` (T-5). With WORKSPACE_NOT_TRUSTED `workspace_files` holds WorkspaceFiles: an open that names
    their digest in `trusted_files` starts the agent (H-13)."""

    error_code: str
    message: str
    fatal: bool
    workspace_files: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class TurnStart(Payload, frozen=True, kw_only=True):
    """`session.turn.start`; `metadata.prompt_id` names the prompt."""

    turn_id: TurnId
    turn_index: Count
    mode: str | None = None


class TurnEnd(Payload, frozen=True, kw_only=True):
    """`session.turn.end` (A-2, T-3)."""

    turn_id: FrameId
    stop_reason: StopReason
    tool_invocation_count: Count | None = None


class SessionClosed(Payload, frozen=True, kw_only=True):
    """`session.closed`: the last frame of one opening (17.2.3)."""

    reason: str
    exit_code: int | None = None
    signal: int | None = None
