"""What the REST API shows and takes (racp): commands, approvals, status events, sessions, nodes. One struct each."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

CommandType = Literal["execute", "pause", "resume", "cancel"]
CommandState = Literal[
    "pending_approval", "queued", "dispatched", "running", "pausing", "paused", "resuming", "canceling",
    "succeeded", "failed", "timed_out", "canceled", "rejected", "expired",
]
OnBusy = Literal["enqueue", "reject", "interrupt"]
"""What an execute does that finds its session at work: wait, be refused, or end what runs (C-3)."""
ApprovalState = Literal["pending", "granted", "denied", "expired", "void", "superseded", "consumed"]
ApprovalDoor = Literal["command", "tool"]
Decision = Literal["grant", "deny"]


class Resource(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of what is shown: absent fields stay absent."""


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of what is taken: an unknown field is an error that names it."""


class Actor(Resource, frozen=True, kw_only=True):
    """Who did something, set by the server from the credential."""

    type: Literal["user", "agent"]
    id: str


class Target(Body, frozen=True, kw_only=True, omit_defaults=True):
    """What a command is aimed at (racp section 1). For an execute `agent_id` or a session is needed."""

    agent_id: str | None = None
    session_id: str | None = None
    session_key: str | None = None
    runner_id: str | None = None
    workspace: str | None = None
    command_id: str | None = None


class ApprovalWish(Body, frozen=True, kw_only=True, omit_defaults=True):
    """`approval` of a command's body: may only tighten policy."""

    required: Annotated[int, msgspec.Meta(ge=0)] = 1


class CommandBody(Body, frozen=True, kw_only=True):
    """`POST /v1/commands`. `payload` stays bytes: its SHA-256 is what an approval is bound to (P-2)."""

    type: CommandType
    target: Target
    payload: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    priority: Annotated[int, msgspec.Meta(ge=-100, le=100)] = 0
    timeout_ms: Annotated[int, msgspec.Meta(ge=1)] | None = None
    idempotency_key: str | None = None
    approval: ApprovalWish | None = None
    reason: str | None = None
    on_busy: OnBusy = "enqueue"
    close_session: bool = False
    """End the session's agent when this execute has ended and nothing else waits in the session."""


class Binary(Body, frozen=True, kw_only=True, omit_defaults=True):
    """`value` of a content part that is not text; Node's Buffer form is accepted beside it."""

    encoding: Literal["base64"]
    data: str
    media_type: str | None = None
    sha256: str | None = None
    name: str | None = None


class NodeBuffer(Body, frozen=True, kw_only=True):
    """Node's JSON form of a Buffer, accepted in place of Binary."""

    type: Literal["Buffer"]
    data: list[int]


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
    """The mode for this prompt, such as `plan`; an agent that has none of that name refuses the command (A-6)."""
    model: Annotated[str, msgspec.Meta(min_length=1, max_length=200)] | None = None
    options: dict[str, Any] = {}
    """Options of the agent for this prompt, such as `{"thinking": "high"}`."""
    system_append: str | None = None


class Failure(Resource, frozen=True, kw_only=True):
    """Why a command failed: a code and one sentence."""

    code: str
    message: str


class Notice(Resource, frozen=True, kw_only=True):
    """Something a person must be told about a command or session (D-4, C-7, A-10)."""

    code: str
    message: str
    since: str | None = None
    lost_frame_count: int | None = None


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


class Command(Resource, frozen=True, kw_only=True):
    """A command as every surface shows it (C-0)."""

    id: str
    created_at: str
    updated_at: str
    tenant_id: str
    actor: Actor
    type: CommandType
    target: Target
    state: CommandState
    priority: int = 0
    timeout_ms: int
    attempt: int = 0
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
    reason: str | None = None
    on_busy: OnBusy = "enqueue"


class Vote(Resource, frozen=True, kw_only=True):
    """One person's vote on an approval. One that was withdrawn stays to be seen, and counts no more (P-3)."""

    by: str
    at: str
    decision: Decision
    method: Literal["acl", "signature"]
    comment: str | None = None
    role: str | None = None
    key_id: str | None = None
    """The key that signed it (P-4)."""
    withdrawn_at: str | None = None


class Quorum(Resource, frozen=True, kw_only=True):
    """A part of an approval's quorum: at least `min` of the yeses come from people of `role` (P-1)."""

    role: str
    min: int


class Approval(Resource, frozen=True, kw_only=True):
    """An approval with either door (racp section 3). `input` is the bytes that `digest` (SHA-256, hex) covers."""

    id: str
    tenant_id: str
    door: ApprovalDoor
    kind: Literal["permission", "question"] = "permission"
    state: ApprovalState
    created_at: str
    expires_at: str
    title: str
    tool_name: str | None = None
    agent_id: str
    runner_id: str | None = None
    workspace: str | None = None
    session_id: str
    command_id: str | None = None
    interaction_id: str | None = None
    invocation_id: str | None = None
    requested_by: Actor | None = None
    digest: str
    input: msgspec.Raw
    rule: str
    required: int = 1
    groups: list[Quorum] = []
    deny_threshold: int = 1
    votes: list[Vote] = []
    decided_at: str | None = None
    decided_by: str | None = None
    comment: str | None = None
    answer: str | None = None
    """What was answered to a question (`kind` question)."""
    self_approval: bool = True
    signed: bool = False
    """Only votes that are signed count (P-4)."""
    supersedes: str | None = None
    """The approval whose input was changed into this one's (P-2)."""
    superseded_by: str | None = None
    remembered: str | None = None
    """The rule that its decision left behind (A-9)."""


class RuleMatch(Body, frozen=True, kw_only=True, omit_defaults=True):
    """`match` of what is to be remembered. Left out, the rule covers this very input of this tool and agent only.

    `command` is a regular expression for the whole line, `path` a glob; `any_input` covers whatever the tool is given.
    """

    tool: str | None = None
    command: str | None = None
    path: str | list[str] | None = None
    any_input: bool = False


class Remembering(Body, frozen=True, kw_only=True, omit_defaults=True):
    """`remember` of a vote: "always", for this session or for the tenant (A-9)."""

    scope: Literal["session", "rule"]
    match: RuleMatch | None = None


class RememberedRule(Resource, frozen=True, kw_only=True):
    """A person's "always" as a rule of policy: audited, listed, revocable (A-9, P-1).

    `rule` is what the config's `[[policy.rules]]` would say.
    """

    id: str
    tenant_id: str
    created_at: str
    created_by: str
    approval_id: str
    rule: dict[str, Any]
    revoked_at: str | None = None
    revoked_by: str | None = None


class GrantBody(Body, frozen=True, kw_only=True, omit_defaults=True):
    """`POST /v1/approvals/{id}/grants`. With method signature, `at` is the signed moment (P-4)."""

    decision: Decision
    comment: str | None = None
    method: Literal["acl", "signature"] = "acl"
    signature: str | None = None
    key_id: str | None = None
    at: str | None = None
    option_id: str | None = None
    updated_input: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """Another input than was asked for, as bytes: what is approved then has its own digest (P-2)."""
    remember: Remembering | None = None
    digest: str | None = None
    idempotency_key: str | None = None


class WithdrawalBody(Body, frozen=True, kw_only=True):
    """`POST /v1/approvals/{id}/withdrawals`."""

    idempotency_key: str | None = None


class SigningKeyBody(Body, frozen=True, kw_only=True):
    """`POST /v1/signing-keys`: an Ed25519 public key, 32 bytes as base64."""

    public_key: str
    label: Annotated[str, msgspec.Meta(max_length=128)] = ""
    idempotency_key: str | None = None


class SigningKey(Resource, frozen=True, kw_only=True):
    """A person's key for votes by signature (P-4)."""

    key_id: str
    tenant_id: str
    owner: Actor
    public_key: str
    label: str = ""
    created_at: str
    revoked_at: str | None = None


class AnswerBody(Body, frozen=True, kw_only=True):
    """`POST /v1/approvals/{id}/answers`: the words, or null to decline."""

    text: str | None
    idempotency_key: str | None = None


class Compaction(Resource, frozen=True, kw_only=True):
    """A compaction that was asked for: `message_id` is the control frame that `session.compacted`, or
    `session.error`, names in `metadata.in_reply_to` (T-6)."""

    session_id: str
    request_id: str
    message_id: str
    cursor: str
    """Where the session's stream goes on behind the request."""


class CommandApproval(Resource, frozen=True, kw_only=True):
    """`GET /v1/commands/{id}/approval` in the seed's shape."""

    command_id: str
    required: int
    grants: list[dict[str, str]]


class StatusEvent(Resource, frozen=True, kw_only=True):
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
    """The event that carries no number (S-2)."""

    event: Literal["heartbeat"]
    command_id: str
    agent_id: str
    at: str
    state: str


class FeedEvent(Resource, frozen=True, kw_only=True):
    """One event of a tenant's feed: what changed and where to read it."""

    event: Literal["command", "approval", "session", "runner"]
    at: str
    id: str
    state: str
    command_id: str | None = None
    session_id: str | None = None
    by: str | None = None


class SessionFile(Resource, frozen=True, kw_only=True):
    """A file that travelled in a session (E-5). `purpose`: prompt, output, tool, tool_output, or an agent's word."""

    transfer_id: str
    name: str
    media_type: str
    size: int
    sha256: str
    purpose: str
    created_at: str


class Session(Resource, frozen=True, kw_only=True):
    """A session as every surface shows it (N-3)."""

    session_id: str
    session_key: str
    tenant_id: str
    agent_id: str
    runner_id: str | None = None
    workspace: str | None = None
    state: str
    attached: bool = False
    created_at: str
    updated_at: str
    turn_id: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    context_tokens: int | None = None
    frames: int = 0
    last_durable_seq: int = 0
    lost_frame_count: int = 0
    observed: bool = False
    """Another gateway controls it: here it is shown, and takes no commands (D-5)."""
    controller: str | None = None
    """Id of the gateway that controls it."""


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


class AuditErasureBody(Body, frozen=True, kw_only=True):
    """Body of `POST /v1/audit/erasures` (U-4): records by number, or the `who.id` whose records are meant."""

    records: Annotated[list[int], msgspec.Meta(max_length=500)] | None = None
    who: str | None = None
    idempotency_key: str | None = None
