"""Resources and bodies of commands, and the events of their streams (racp sections 1 and 4)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from interlock.protocol.resources.approvals import ApprovalState
from interlock.protocol.resources.base import Actor, Body, Resource

CommandType = Literal["execute", "pause", "resume", "cancel"]


CommandState = Literal[
    "pending_approval", "queued", "dispatched", "running", "pausing", "paused", "resuming", "canceling",
    "succeeded", "failed", "timed_out", "canceled", "rejected", "expired",
]


WorkspaceAccess = Literal["rw", "ro", "none"]
"""The agent's access to its workspace, enforced if it asks (`control.session.open`)."""


OnBusy = Literal["enqueue", "reject", "interrupt"]
"""The behaviour of an execute whose session is busy: wait, be refused, or end the running command (C-3)."""


class Target(Body, frozen=True, kw_only=True, gc=False):
    """The target of a command (racp section 1). For an execute `agent_id` or a session is required."""

    agent_id: str | None = None
    session_id: str | None = None
    session_key: str | None = None
    runner_id: str | None = None
    workspace: str | None = None
    workspace_access: WorkspaceAccess | None = None
    """Absent is rw for a new session, and the current access of an existing one."""
    command_id: str | None = None


class ApprovalRequirement(Body, frozen=True, kw_only=True):
    """`approval` of a command's body: may only make policy stricter."""

    required: Annotated[int, msgspec.Meta(ge=0)] = 1


SetByGateway = Annotated[
    msgspec.Raw, msgspec.Meta(description="Set by the gateway: ignored, and named in Interlock-Ignored-Fields.")
]
COMMON_FIELDS = ("id", "created_at", "tenant_id", "actor")
"""RACP's common fields that a command's body may carry and the gateway sets itself."""


class CommandBody(Body, frozen=True, kw_only=True, gc=False):
    """`POST /v1/commands`. `payload` is not decoded: its SHA-256 is what an approval is bound to (P-2)."""

    type: CommandType
    target: Target
    payload: Annotated[msgspec.Raw, msgspec.Meta(extra_json_schema={"$ref": "#/components/schemas/ExecutePayload"})] \
        | msgspec.UnsetType = msgspec.UNSET
    priority: Annotated[int, msgspec.Meta(ge=-100, le=100)] = 0
    timeout_ms: Annotated[int, msgspec.Meta(ge=1)] | None = None
    idempotency_key: str | None = None
    approval: ApprovalRequirement | None = None
    reason: str | None = None
    on_busy: OnBusy = "enqueue"
    close_session: bool = False
    """Whether to end the session's agent when this execute has ended and nothing else waits in the session."""
    id: SetByGateway | msgspec.UnsetType = msgspec.UNSET
    created_at: SetByGateway | msgspec.UnsetType = msgspec.UNSET
    tenant_id: SetByGateway | msgspec.UnsetType = msgspec.UNSET
    actor: SetByGateway | msgspec.UnsetType = msgspec.UNSET


class Binary(Body, frozen=True, kw_only=True):
    """`value` of a content part that is not text; Node's Buffer form is also accepted."""

    encoding: Literal["base64"]
    data: str
    media_type: str | None = None
    sha256: str | None = None
    name: str | None = None


class NodeBuffer(Body, frozen=True, kw_only=True):
    """Node's JSON form of a Buffer, accepted instead of Binary."""

    type: Literal["Buffer"]
    data: list[Annotated[int, msgspec.Meta(ge=0, le=255)]]


class ContentPart(Body, frozen=True, kw_only=True):
    """One part of a message (llm-bridge-spec)."""

    contentType: Literal["text", "image", "audio", "video", "file"]  # noqa: N815 - the name is the specification's
    value: Any


class UserMessage(Body, frozen=True, kw_only=True):
    """One message of an execute (llm-bridge-spec UserMessage)."""

    role: Literal["user"]
    content: list[ContentPart]
    name: str | None = None


class ExecutePayload(Body, frozen=True, kw_only=True):
    """`payload` of an execute."""

    messages: list[UserMessage]
    tools: list[str] = []
    mode: Annotated[str, msgspec.Meta(min_length=1, max_length=200)] | None = None
    """The mode for this prompt, such as `plan`; an agent without a mode of that name refuses the command (A-6)."""
    model: Annotated[str, msgspec.Meta(min_length=1, max_length=200)] | None = None
    options: dict[str, Any] = {}
    """Options of the agent for this prompt, such as `{"thinking": "high"}`."""
    system_append: str | None = None
    land: bool = False
    """Whether to send the agent nothing: the turn only asks whether staged changes land (H-17). There are no messages
    then."""


class Failure(Resource, frozen=True, kw_only=True):
    """Why a command failed: a code and one sentence."""

    code: str
    message: str


class Notice(Resource, frozen=True, kw_only=True):
    """Something that a person must see about a command or session (D-4, C-7, A-10)."""

    code: str
    message: str
    since: str | None = None
    lost_frame_count: int | None = None


class Denial(Resource, frozen=True, kw_only=True):
    """A tool call that was not allowed, so it did not run (Y-5).

    `by` is the actor who denied it, `policy:` and a rule's name, `gateway` for an approval that expired, or `runner`.
    `rule` is the policy rule that denied it, or that required the denied approval.
    """

    tool_name: str
    title: str
    by: str
    rule: str | None = None
    reason: str | None = None
    approval_id: str | None = None
    invocation_id: str | None = None
    at: str


VERBOSE_NOTICES = frozenset({"AutoCompacted"})
"""Codes of notices that only verbose surfaces show: nothing is lost, and no action is needed."""


class ToolCall(Resource, frozen=True, kw_only=True):
    toolCallId: str  # noqa: N815 - llm-bridge-spec's name
    name: str
    arguments: msgspec.Raw


class TokenCount(Resource, frozen=True, kw_only=True):
    promptTokens: int  # noqa: N815 - llm-bridge-spec's name
    completionTokens: int  # noqa: N815
    totalTokens: int  # noqa: N815


class Output(Resource, frozen=True, kw_only=True):
    """`output` of a result (racp section 1)."""

    output: list[dict[str, Any]]
    session_id: str
    usage: TokenCount | None = None
    tool_calls: list[ToolCall] = []
    exit_code: int | None = None
    awaiting_input: bool = False
    notices: list[Notice] = []


class Result(Resource, frozen=True, kw_only=True):
    ok: bool
    output: Output


class Command(Resource, frozen=True, kw_only=True, gc=False):
    """A command as every surface shows it (C-0)."""

    id: str
    created_at: str
    updated_at: str
    tenant_id: str
    actor: Actor
    driver: Actor | None = None
    """The person who drives the agent that submitted it (P-3)."""
    type: CommandType
    target: Target
    state: CommandState
    priority: int = msgspec.field(default_factory=int)
    """Always sent, including 0: a factory is not a default that `omit_defaults` omits."""
    timeout_ms: int
    attempt: int = 0
    title: str | None = None
    """In lists: the first line of the prompt, at most 80 characters; the payload is omitted there."""
    payload: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    payload_sha256: str | None = None
    idempotency_key: str | None = None
    approval_id: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    turn_id: str | None = None
    result: Result | None = None
    error: Failure | None = None
    notices: list[Notice] = []
    denials: list[Denial] = []
    """Its tool calls that were not allowed, the newest last."""
    reason: str | None = None
    on_busy: OnBusy = "enqueue"


class StatusEvent(Resource, frozen=True, kw_only=True, gc=False):
    """One durable event of a command's stream (racp section 4); fields by `event`."""

    event: Literal["state", "progress", "result", "error", "notice", "approval"]
    command_id: str
    at: str
    state: CommandState | None = None
    previous: CommandState | None = None
    stage: Literal["retrieval", "tool", "chat"] | None = None
    percent: float | None = None
    ok: bool | None = None
    output: Output | None = None
    code: str | None = None
    message: str | None = None
    notice: Notice | None = None
    approval_id: str | None = None
    approval_state: ApprovalState | None = None
    by: str | None = None


class Heartbeat(Resource, frozen=True, kw_only=True):
    """The event without a number (S-2)."""

    event: Literal["heartbeat"]
    command_id: str
    agent_id: str
    at: str
    state: str


class FeedEvent(Resource, frozen=True, kw_only=True, gc=False):
    """An event of a tenant's feed: what changed and where to read it."""

    event: Literal["command", "approval", "session", "runner"]
    at: str
    id: str
    state: str
    command_id: str | None = None
    session_id: str | None = None
    by: str | None = None
