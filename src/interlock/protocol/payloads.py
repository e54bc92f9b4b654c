"""The payload of every frame (rawp section 4), one struct each. Unknown fields stay in the bytes."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

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


class Payload(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Base of all payloads: absent fields stay absent on the wire. What was decoded never points back at itself, so
    the cyclic collector is spared it."""


# --- agent. ---
class TextDelta(Payload, frozen=True, kw_only=True):
    """`agent.text.delta`, `agent.thinking.delta`: `offset` counts code points of the block before `text` (E-4)."""

    turn_id: str
    block_id: str
    offset: int
    text: str


class TextDone(Payload, frozen=True, kw_only=True):
    """`agent.text.done`, `agent.thinking.done`: closes the block and replaces it (E-4)."""

    turn_id: str
    block_id: str
    text: str


class InteractionOption(Payload, frozen=True, kw_only=True):
    """One answer that the agent offers; `option_id` goes back to it."""

    option_id: str
    label: str
    kind: OptionKind


class InteractionContext(Payload, frozen=True, kw_only=True):
    """What the question is about; `input` is the tool's input as the agent gave it."""

    tool_name: str
    invocation_id: str | None = None
    input: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class InteractionRequest(Payload, frozen=True, kw_only=True):
    """`agent.interaction.request` (A-5)."""

    interaction_id: str
    interaction_type: Literal["PERMISSION", "QUESTION"]
    title: str
    context: InteractionContext
    options: list[InteractionOption] = []
    expires_at: str | None = None


class AgentError(Payload, frozen=True, kw_only=True):
    """`agent.error` (A-2)."""

    severity: Severity
    error_code: str
    message: str
    turn_id: str | None = None
    retryable: bool | None = None


class FileChunk(Payload, frozen=True, kw_only=True):
    """Which piece this is: `index` counts from 0 to below `count`."""

    index: int
    count: int


class FileTransfer(Payload, frozen=True, kw_only=True):
    """`agent.file.transfer`."""

    transfer_id: str
    name: str
    media_type: str
    size: int
    sha256: str
    purpose: str
    content: str
    chunk: FileChunk | None = None


class StateChanged(Payload, frozen=True, kw_only=True):
    """`agent.state.changed`."""

    state: AgentState
    previous: AgentState


# --- tool. ---
class ToolRequest(Payload, frozen=True, kw_only=True):
    """`tool.invoke.request`; the digest of an approval is SHA-256 of `input`'s bytes as received (P-2)."""

    invocation_id: str
    turn_id: str
    tool_name: str
    input: msgspec.Raw
    title: str | None = None
    parent_invocation_id: str | None = None


class ToolStream(Payload, frozen=True, kw_only=True):
    """`tool.invoke.stream`: `offset` counts code points of this channel before `text` (E-4)."""

    invocation_id: str
    channel: Channel
    offset: int
    text: str


class Truncated(Payload, frozen=True, kw_only=True):
    """What was cut from a tool's output (E-5)."""

    bytes_total: int
    bytes_kept: int
    sha256: str


class ToolResult(Payload, frozen=True, kw_only=True):
    """`tool.invoke.result`."""

    invocation_id: str
    status: ToolStatus
    output_type: OutputType
    output: Any
    duration_ms: int
    truncated: Truncated | None = None


# --- control. ---
class PromptRequest(Payload, frozen=True, kw_only=True):
    """`control.prompt.request`; `content` is the blocks of `input_type` "blocks"."""

    prompt_id: str
    input_type: Literal["text", "blocks"]
    origin: Literal["user", "cron", "hook", "flush", "system"]
    text: str | None = None
    content: list[dict[str, Any]] | None = None
    command_id: str | None = None
    timeout_ms: int | None = None
    mode: str | None = None
    model: str | None = None
    options: dict[str, Any] | None = None
    system_append: str | None = None
    silent: bool = False
    context: dict[str, Any] | None = None


class InteractionResponse(Payload, frozen=True, kw_only=True):
    """`control.interaction.response`; `by` is the person or rule that decided."""

    interaction_id: str
    decision: Literal["allow", "deny"]
    by: str
    option_id: str | None = None
    answer: str | None = None
    updated_input: dict[str, Any] | None = None
    message: str | None = None


class InteractionTimeout(Payload, frozen=True, kw_only=True):
    """`control.interaction.timeout`: a deny (A-5)."""

    interaction_id: str


class SessionCompact(Payload, frozen=True, kw_only=True):
    """`control.session.compact` (A-6): answered by `session.compacted` with trigger `requested`."""

    request_id: str
    instructions: str | None = None
    plan: dict[str, Any] | None = None


class ModeSwitch(Payload, frozen=True, kw_only=True):
    """`control.mode.switch` (A-6)."""

    mode: str


class SessionOpen(Payload, frozen=True, kw_only=True):
    """`control.session.open`; `workspace` is absolute on the runner, "" means the runner's first root."""

    session_id: str
    agent_id: str
    workspace: str
    workspace_access: Literal["rw", "ro", "none"]
    resume: bool = False
    buffer_policy: Literal["RING", "DROP", "NONE"] = "RING"


class SessionClose(Payload, frozen=True, kw_only=True):
    """`control.session.close`: the termination of A-4, then `session.closed`."""

    reason: str


class SessionRelease(Payload, frozen=True, kw_only=True):
    """`control.session.release`: control passes to the gateway named by `to` (D-5)."""

    to: str


class TurnCancel(Payload, frozen=True, kw_only=True):
    """`control.turn.cancel`: without `turn_id` it means whatever the session works on, or nothing."""

    reason: str
    turn_id: str | None = None


class TurnPause(Payload, frozen=True, kw_only=True):
    """`control.turn.pause`."""

    reason: str | None = None


class TurnResume(Payload, frozen=True, kw_only=True):
    """`control.turn.resume`."""

    reason: str | None = None


# --- session. ---
class Features(msgspec.Struct, frozen=True, kw_only=True):
    """What an adapter can do (A-6); also what hello tells of each agent."""

    adapter_type: Literal["process", "sdk"]
    permission: Literal["asks", "never"] = "never"
    context_owner: Literal["agent", "gateway"] = "agent"
    context_compaction: bool = False
    plan_mode: bool = False
    pause: Literal["none", "boundary", "signal"] = "none"
    resume_session: bool = False
    single_turn_process: bool = False
    images: bool = False
    thinking: bool = False


class AgentIdentity(Payload, frozen=True, kw_only=True):
    """Which agent a session has."""

    agent_id: str
    name: str
    version: str | None = None
    model: str | None = None


class Capabilities(Payload, frozen=True, kw_only=True):
    """`session.capabilities` (A-6): the runner's answers an open; the gateway's own follows it."""

    dps_version: str
    features: dict[str, Any]
    agent: AgentIdentity | None = None


class BufferStatus(Payload, frozen=True, kw_only=True):
    """`buffer_status` of `session.history` (D-2)."""

    policy_applied: Literal["RING", "DROP", "NONE"]
    truncated: bool
    lost_frame_count: int | None = None
    buffer_high_watermark: int | None = None


class History(Payload, frozen=True, kw_only=True):
    """`session.history` (D-2): `frames` are whole envelopes, as bytes."""

    frames: list[msgspec.Raw]
    buffer_status: BufferStatus
    last_sync_timestamp: str
    last_message_id: str


class Compacted(Payload, frozen=True, kw_only=True):
    """`session.compacted` (T-6)."""

    summary: str
    previous_token_count: int
    current_token_count: int
    preserved_elements: dict[str, Any]
    trigger: Literal["auto", "manual", "requested"]


class TokenUsage(Payload, frozen=True, kw_only=True):
    """Tokens of one turn; unknown ones after a crash are 0 with `metadata.estimated`."""

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    thinking_tokens: int | None = None


class Quota(Payload, frozen=True, kw_only=True):
    """`cost_usage`, `message_usage`: `limit` -1 is unlimited."""

    limit: float
    used: float
    unit: str


class ContextWindow(Payload, frozen=True, kw_only=True):
    """`utilization` is 0.0 to 1.0; what is not known is absent."""

    capacity: int | None = None
    used: int | None = None
    utilization: float | None = None


class Usage(Payload, frozen=True, kw_only=True):
    """`session.usage` (T-2): `token_usage` counts this turn, the quotas are running totals."""

    token_usage: TokenUsage
    cost_usage: Quota
    message_usage: Quota
    context_window: ContextWindow
    time_to_reset: str
    turn_id: str | None = None


class SessionError(Payload, frozen=True, kw_only=True):
    """`session.error` (T-5)."""

    error_code: str
    message: str
    fatal: bool


class TurnStart(Payload, frozen=True, kw_only=True):
    """`session.turn.start`; `metadata.prompt_id` names the prompt."""

    turn_id: str
    turn_index: int
    mode: str | None = None


class TurnEnd(Payload, frozen=True, kw_only=True):
    """`session.turn.end` (A-2, T-3)."""

    turn_id: str
    stop_reason: StopReason
    tool_invocation_count: int | None = None


class SessionClosed(Payload, frozen=True, kw_only=True):
    """`session.closed`: the last frame of one opening (17.2.3)."""

    reason: str
    exit_code: int | None = None
    signal: int | None = None


# --- x-interlock. ---
class AgentOffer(Payload, frozen=True, kw_only=True):
    """One agent in hello (L-4)."""

    agent_id: str
    adapter: str
    adapter_type: Literal["process", "sdk"]
    permission: Literal["asks", "never"]
    context_owner: Literal["agent", "gateway"]
    version: str | None = None
    trusted_kinds: bool = False


class RefusedControl(Payload, frozen=True, kw_only=True):
    """A control frame that the runner stored and refused (D-7)."""

    message_id: str
    error_code: str
    message: str


class HelloSession(Payload, frozen=True, kw_only=True):
    """One session in hello (L-4)."""

    session_id: str
    last_seq_sent: int
    control_seq: int
    state: AgentState
    refused: list[RefusedControl] = []
    turn_id: str | None = None
    prompt_id: str | None = None


class Hello(Payload, frozen=True, kw_only=True):
    """`x-interlock.hello` (L-4)."""

    versions: list[str]
    runner_id: str
    boot_id: str
    agents: list[AgentOffer]
    sessions: list[HelloSession]
    features: list[str] = []
    device_name: str = ""
    roots: list[str] = []


class WelcomeSession(Payload, frozen=True, kw_only=True):
    """What the gateway has of one session (L-4): all up to `last_durable_seq` is durable."""

    session_id: str
    last_durable_seq: int


class Welcome(Payload, frozen=True, kw_only=True):
    """`x-interlock.welcome` (L-4)."""

    version: str
    link_id: str
    gateway_id: str
    limits: dict[str, int]
    sessions: list[WelcomeSession]
    features: list[str] = []


class Ack(Payload, frozen=True, kw_only=True):
    """`x-interlock.ack`, both directions: all up to `seq` is durable on the side that says so (D-1, D-7)."""

    session_id: str
    seq: int


class LiveAgent(Payload, frozen=True, kw_only=True):
    """One agent that the runner vouches for (L-5)."""

    session_id: str
    agent_id: str
    state: AgentState
    turn_id: str | None = None


class Heartbeat(Payload, frozen=True, kw_only=True):
    """`x-interlock.heartbeat` (L-5): what is listed, the runner vouches for."""

    agents: list[LiveAgent]


class InteractionHeld(Payload, frozen=True, kw_only=True):
    """`x-interlock.interaction.held`: the gateway has it (A-5)."""

    interaction_id: str
    approval_id: str
    expires_in_ms: int


class InteractionResolved(Payload, frozen=True, kw_only=True):
    """`x-interlock.interaction.resolved`: what the runner in fact handed to the agent (P-2)."""

    interaction_id: str
    outcome: Outcome
    decided_at: str
    by: str | None = None


class ControlChanged(Payload, frozen=True, kw_only=True):
    """`x-interlock.control.changed`: the gateway that controls the session from now on (D-5)."""

    gateway_id: str
