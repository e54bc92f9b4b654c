"""Sessions, runners and other listed resources."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from interlock.protocol.hold import Holding
from interlock.protocol.payloads import AgentSettings, PlanChanged
from interlock.protocol.resources.base import Body, Resource
from interlock.protocol.resources.commands import WorkspaceAccess


class SessionFile(Resource, frozen=True, kw_only=True):
    """A file that was transferred in a session (E-5). `purpose`: prompt, output, tool, tool_output, or an agent's own
    value."""

    transfer_id: str
    name: str
    media_type: str
    size: int
    sha256: str
    purpose: str
    created_at: str


SessionActivity = Literal["opening", "idle", "queued", "running", "paused", "waiting_approval", "compacting", "closing",
                          "closed"]
"""The current state of a session, in one word; a later version may add further ones."""


class Session(Resource, frozen=True, kw_only=True):
    """A session as every surface shows it (N-3)."""

    session_id: str
    session_key: str
    tenant_id: str
    agent_id: str
    title: str | None = None
    """Its name for people: its label, otherwise the name or subject of its chat (J-11), otherwise the first line of its
    first prompt (Y-8)."""
    waiting: int | None = None
    """Its pending approvals; None in the response to a change, which does not count them."""
    runner_id: str | None = None
    workspace: str | None = None
    workspace_access: WorkspaceAccess = "rw"
    state: str
    attached: bool = False
    created_at: str
    updated_at: str
    turn_id: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    cost_usd: float = 0.0
    """Its cost in US dollars, as its agent reports; 0 for an agent that does not report it."""
    context_tokens: int | None = None
    """How much of the model's window the conversation takes; None while it is unknown."""
    context_estimated: bool = False
    """Whether `context_tokens` is the gateway's estimate, and not what the agent reported."""
    context_window: int | None = None
    """The model's window in tokens: by the config, by the agent's report, otherwise by the catalog (Z-1)."""
    model: str | None = None
    """The model in use: the key's choice, otherwise the agent's report."""
    compactions: int = 0
    frames: int = 0
    last_durable_seq: int = 0
    lost_frame_count: int = 0
    observed: bool = False
    """Whether another gateway controls it: here it is shown, and accepts no commands (D-5)."""
    entry: dict[str, Any] = {}
    """Its key's fields, by the names of the session store: overrides, label, policy, who takes part (I-4)."""
    controller: str | None = None
    """Id of the gateway that controls it."""
    holding: Holding | None = None
    """How its agent is held, and the evidence (H-10)."""
    plan: PlanChanged | None = None
    """Its agent's current plan, and the turn that it is of; none in a list, nor in the response to a change (J-14)."""
    settings: AgentSettings | None = None
    """Its agent's available settings and their values, as its runner last reported them; shown together with the plan
    (J-14)."""


UsageDimension = Literal["day", "agent", "model", "session", "person"]
"""Dimensions by which usage is grouped."""


class UsageFigures(Resource, frozen=True, kw_only=True):
    """Usage that agents reported (J-13). `cost_usd` is a decimal string of US dollars; an agent that reports no cost
    adds none. `estimated_turns` are those whose agent died before it reported them: their figures are too low."""

    turns: int
    estimated_turns: int
    input_tokens: int
    output_tokens: int
    total_tokens: int
    """Input and output, without tokens from the model's cache."""
    cache_read_tokens: int
    cache_write_tokens: int
    cost_usd: str


class UsageItem(UsageFigures, frozen=True, kw_only=True):
    """Usage of one day, agent, model, session or person, or of several of these together; dimensions that are not
    grouped by are absent."""

    day: str | msgspec.UnsetType = msgspec.UNSET
    """Of UTC, as 2026-11-25."""
    agent_id: str | msgspec.UnsetType = msgspec.UNSET
    model: str | msgspec.UnsetType | None = msgspec.UNSET
    """Null if it is unknown."""
    session_id: str | msgspec.UnsetType = msgspec.UNSET
    person: str | msgspec.UnsetType | None = msgspec.UNSET
    """Who submitted the commands, as `user:ann`; the person who drives an agent, not the agent. Null for turns that
    belong to no command."""


class UsageReport(Resource, frozen=True, kw_only=True):
    """`GET /v1/usage`: usage that agents reported, day by day in UTC, the last day included."""

    first_day: str = msgspec.field(name="from")
    last_day: str = msgspec.field(name="to")
    by: list[UsageDimension]
    items: list[UsageItem]
    left_out: int
    """Items beyond the limit, the smallest of the oldest days; `total` includes them."""
    total: UsageFigures


class Compaction(Resource, frozen=True, kw_only=True):
    """A requested compaction: `message_id` is the control frame that `session.compacted`, or `session.error`, names in
    `metadata.in_reply_to` (T-6)."""

    session_id: str
    request_id: str
    message_id: str
    cursor: str
    """The position in the session's stream after the request."""


class Node(Resource, frozen=True, kw_only=True):
    """A runner as `GET /v1/edge/nodes` lists it (L-6)."""

    node_id: str
    device_name: str
    status: Literal["online", "busy", "offline"]
    last_seen: str
    capabilities: list[str]
    active_sessions_count: int
    config_versions: dict[str, str]
    agents: list[dict[str, Any]] = []
    roots: list[str] = []
    software: str | None = None
    """Its software and version; None from a runner that does not report it (J-14)."""
    system: str | None = None
    """Its operating system, with release, and the machine."""
    outbox_bytes: int | None = None
    """The unacknowledged bytes in its outbox at its last heartbeat; None before the first one, and for one that is
    attached to another gateway of the cluster."""
    clock_offset_ms: int | None = None
    """How far its clock was ahead of the gateway's at its last heartbeat, including the transit."""
    frames_passed_over: int | None = None
    """Its frames that were passed over since the gateway's start, because they name no session of it; None for one that
    is attached to another gateway of the cluster."""
    contested_at: str | None = None
    """The last time since the gateway's start at which a process of it attached again after another one had: two
    processes use one token, and replace each other's links."""


class Runner(Resource, frozen=True, kw_only=True):
    """A paired runner, as `GET /v1/runners` lists it; a revoked one stays in the list (L-3)."""

    runner_id: str
    device_name: str
    status: Literal["online", "busy", "offline"]
    created_at: str
    last_seen: str
    revoked: bool


class PairingCode(Resource, frozen=True, kw_only=True):
    """A one-time code that pairs one runner; shown once (L-3)."""

    code: str
    expires_at: str
    device_name: str | None = None


class RunnerToken(Resource, frozen=True, kw_only=True):
    """A runner's id and its token, shown once (L-3)."""

    runner_id: str
    token: str


class AuditResumeBody(Body, frozen=True, kw_only=True):
    """Body of `POST /v1/audit/resume` (U-3): the first `size` records with the root `root`, in hex, are accepted."""

    size: Annotated[int, msgspec.Meta(ge=0)]
    root: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$", max_length=64)]
    reason: Annotated[str, msgspec.Meta(max_length=1_000)] | None = None
    idempotency_key: str | None = None


class AuditErasureBody(Body, frozen=True, kw_only=True):
    """Body of `POST /v1/audit/erasures` (U-4): records by number, or the `who.id` whose records are meant."""

    records: Annotated[list[int], msgspec.Meta(max_length=500)] | None = None
    who: str | None = None
    idempotency_key: str | None = None
