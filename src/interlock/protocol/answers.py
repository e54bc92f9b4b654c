"""Responses of the REST API besides the resources: pages, lists, proofs, the gateway's own state."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from interlock.protocol.access import BrowserSession, Key, LoginIssuer, PushSubscription, Tenant
from interlock.protocol.drains import Drain
from interlock.protocol.payloads import ChangedCommit, ChangedFile, StagedFile
from interlock.protocol.resources import (
    Approval,
    Budget,
    Command,
    CommandState,
    Delivery,
    Node,
    Notice,
    RememberedRule,
    Resource,
    Runner,
    Session,
    SessionFile,
    SigningKey,
    Webhook,
)

COMPONENTS = "#/components/schemas/"
"""Where an API document keeps the schemas of what are bytes here."""


def _form(name: str) -> msgspec.Meta:
    """Return the schema of a value that is sent as it was stored, without decoding."""
    return msgspec.Meta(extra_json_schema={"$ref": COMPONENTS + name})


class CommandPage(msgspec.Struct, frozen=True):
    """A page of commands, newest first, without their payloads (their digests stay)."""

    items: list[Command]
    next_cursor: str | None
    has_more: bool


class StatusPage(msgspec.Struct, frozen=True):
    """A page of a command's status events (S-1)."""

    events: list[Annotated[msgspec.Raw, _form("StatusEvent")]]
    next_cursor: str
    has_more: bool
    state: CommandState
    terminal: bool
    last_heartbeat_at: str | None


class ApprovalPage(msgspec.Struct, frozen=True):
    """A page of approvals, newest first."""

    items: list[Approval]
    next_cursor: str | None
    has_more: bool


class SessionPage(msgspec.Struct, frozen=True):
    """A page of sessions, newest activity first."""

    items: list[Session]
    next_cursor: str | None
    has_more: bool


class SessionHistory(msgspec.Struct, frozen=True):
    """The sessions that a key has had, newest first (I-3)."""

    items: list[Session]


class StagedChanges(msgspec.Struct, frozen=True, kw_only=True):
    """An agent's changes that have not landed (H-17), as its runner last reported them. `digest` is SHA-256 over all,
    hex; `count` counts all of them, of which `files` lists the first; `refused` can never land. `approval_id` is the
    pending question, if there is one."""

    session_id: str
    workspace: str | None
    approval_id: str | None
    digest: str
    count: int
    files: list[StagedFile]
    refused: list[StagedFile]


class GitChanges(Resource, frozen=True, kw_only=True):
    """Changes in a session's workspace since the session began, according to git, read by the runner for this response
    (J-4). `why_not` is one sentence if nothing could be read, as without a repository; `partly` is one if not all was,
    or if something else is compared with. `commit` is the commit that is compared with, null if there is none; `head`
    is the commit that is checked out, null before the first one; `commits` are those between the two, newest first.
    `count` counts every path, of which `files` lists the first."""

    session_id: str
    workspace: str | None
    why_not: str | None
    partly: str | None
    branch: str | None
    commit: str | None
    head: str | None
    commits: list[ChangedCommit]
    count: int
    files: list[ChangedFile]


class FrameEvent(Resource, frozen=True, kw_only=True):
    """One element of a session's stream: a frame of the runner (kind C) or of the gateway (M), one that was recorded
    and changed nothing (refused), or a notice. `n` counts the durable ones; a delta has none (S-1)."""

    n: int | None = None
    kind: Literal["C", "M", "notice", "refused"]
    frame: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    notice: Notice | None = None


class FramePage(msgspec.Struct, frozen=True):
    """A page of a session's stream. `previous_cursor` is `before` of the previous page; null if none is stored."""

    events: list[Annotated[msgspec.Raw, _form("FrameEvent")]]
    next_cursor: str
    has_more: bool
    previous_cursor: str | None = None


class FeedPage(msgspec.Struct, frozen=True):
    """A page of a tenant's feed."""

    events: list[Annotated[msgspec.Raw, _form("FeedEvent")]]
    next_cursor: str
    has_more: bool


class FilePage(msgspec.Struct, frozen=True):
    """A page of a session's files, in the order in which they were stored."""

    items: list[SessionFile]
    next_cursor: str | None
    has_more: bool


class ClusterGateway(msgspec.Struct, frozen=True, kw_only=True):
    """A live gateway of a cluster. Times are PostgreSQL's; `since` is null for one of an earlier version."""

    instance_id: str
    address: str
    since: str | None
    last_beat_at: str
    lanes: int
    """Sessions, keys and duties that it owns."""


class SharedServer(msgspec.Struct, frozen=True, kw_only=True):
    """PostgreSQL or NATS, as reached by the queried gateway. Without `reachable` there is no version or latency.
    `trouble` is one sentence about the problem and its consequences; a database that waits for its synchronous standby
    has one although it is reachable."""

    where: str
    reachable: bool
    version: str | None = None
    latency_ms: float | None = None
    trouble: str | None = None


class LostLease(msgspec.Struct, frozen=True, kw_only=True):
    """A loss of the queried gateway's lease: others took over its sessions. `reason` is one sentence."""

    ago_s: int
    reason: str


class ClusterHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The gateways that share a ledger, and the two servers that they share. `lost_lease` is the last loss of the
    queried gateway's lease within an hour."""

    gateways: list[ClusterGateway]
    database: SharedServer
    bus: SharedServer
    lost_lease: LostLease | None = None


class MissingSession(msgspec.Struct, kw_only=True):
    """A session whose runner has more than the ledger."""

    session_id: str
    runner_id: str
    known: bool = True
    """False if the ledger does not have the session at all; then only `last_seq` of its runner is known."""
    frames: int = 0
    """Frames that had been acknowledged."""
    controls: int = 0
    """Control frames that had been sent."""
    commands: list[str] = []
    """Commands that were closed with `LedgerRestored`."""


class RestoredLedger(msgspec.Struct, kw_only=True):
    """What the ledger is known to lack, after an older copy of it was restored. Found since the gateways started."""

    records_signed: int | None = None
    """Audit records that a stored checkpoint covers; None if no checkpoint is ahead of the ledger."""
    records_kept: int | None = None
    """Audit records that the ledger had when that was found."""
    commands_closed: int = 0
    """Commands that were closed with `LedgerRestored`."""
    session_count: int = 0
    sessions: list[MissingSession] = []
    """The first 100 of them."""


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """`GET /v1/status`. Each count stops at PAGE_MAX."""

    gateway_id: str
    version: str
    state_dir: str
    store_path: str
    tenant_id: str
    role: str
    commands: dict[str, int]
    approvals_pending: int
    sessions: int
    viewers: int
    """Readers of the tenant's streams at this gateway."""
    runners: list[Node]
    drains: list[Drain] = []
    unsigned: str | None = None
    """Why the tenant's audit log cannot be signed; meanwhile no new command is accepted."""
    restored: RestoredLedger | None = None
    """What the ledger lacks after an older copy of it was restored, as far as this gateway has found it."""
    cluster: ClusterHealth | None = None
    """Only in a cluster, for operators and auditors of the tenant `default`, whose machines the gateways are."""


class DrainList(msgspec.Struct, frozen=True):
    """The tenant's drains in force, oldest first (C-5)."""

    drains: list[Drain]


class NodeList(msgspec.Struct, frozen=True):
    """`GET /v1/edge/nodes`."""

    nodes: list[Node]


class AuditLine(Resource, frozen=True, kw_only=True):
    """One record of an audit log. `record` is its bytes, whose hash `hash` is (hex); `personal` the values that its
    commitments hide, as [salt in hex, value], until they are erased (U-2, U-4)."""

    seq: int
    hash: str
    personal: dict[str, list[str]] | None = None
    record: msgspec.Raw


class AuditKey(msgspec.Struct, frozen=True, kw_only=True):
    """The key that signs a tenant's audit log. `public_key` is its 32 bytes in base64, `sha256` their hash in hex;
    `origin` is the first line of each checkpoint, `note_key_id` the four bytes in hex that its signature begins
    with."""

    origin: str
    algorithm: Literal["Ed25519"]
    public_key: str
    sha256: str
    note_key_id: str


class AuditPage(msgspec.Struct, frozen=True):
    """A page of the log: {seq, hash, personal, record} each, oldest first."""

    items: list[Annotated[msgspec.Raw, _form("AuditLine")]]
    next_cursor: str
    has_more: bool


class Erased(msgspec.Struct, frozen=True):
    """The records whose personal data was erased, and whether more were requested than one request erases."""

    erased: list[int]
    has_more: bool


class KeptCheckpoint(msgspec.Struct, frozen=True):
    """A stored checkpoint of the log, and its location."""

    where: Literal["file", "ledger"]
    size: int
    root: str


class SigningState(msgspec.Struct, frozen=True, kw_only=True):
    """`GET /v1/audit/signing`: the current end of the log, and why it cannot be signed, if so; the root in hex."""

    unsigned: str | None
    size: int
    root: str
    kept: list[KeptCheckpoint]


class Resumed(msgspec.Struct, frozen=True):
    """Number of accepted records; the log is signed again, with a further record of who accepted them."""

    accepted: int


class InclusionProof(msgspec.Struct, frozen=True):
    """That record `seq` is leaf `seq` - 1 of the tree of `size` records; all hashes in hex, lowest sibling first."""

    seq: int
    size: int
    hash: str
    root: str
    proof: list[str]


class ConsistencyProof(msgspec.Struct, frozen=True):
    """That the tree of `first` records is the beginning of that of `second`; all hashes in hex."""

    first: int
    second: int
    first_root: str
    second_root: str
    proof: list[str]


class RunnerList(msgspec.Struct, frozen=True):
    """`GET /v1/runners`: every runner that was ever paired, oldest first."""

    runners: list[Runner]


class PolicyRules(msgspec.Struct, frozen=True):
    """`GET /v1/policy`: the rules in force in the config's form, each with its `source`."""

    rules: list[dict[str, Any]]


class ProposedWidth(msgspec.Struct, frozen=True):
    """A width of an "always", and the resulting rule."""

    width: Literal["exact", "program", "below", "described"]
    rule: dict[str, Any]


class ProposedRule(msgspec.Struct, frozen=True):
    """`GET /v1/approvals/{id}/rule`: the result of a vote with `remember` (A-9).

    `rule` is that of the requested width; `widths` are all that fit this call, the narrowest first (H-8).
    """

    rule: dict[str, Any]
    widths: list[ProposedWidth] = []


class BudgetList(msgspec.Struct, frozen=True):
    """`GET /v1/budgets`: in the order of the config."""

    budgets: list[Budget]


class RuleList(msgspec.Struct, frozen=True):
    """`GET /v1/policy/rules`: every rule that was ever remembered, oldest first."""

    rules: list[RememberedRule]


class Explanation(msgspec.Struct, frozen=True):
    """Policy's verdict on a call. `steps` are the rules in order up to the one that decides; `missed` is the match
    field that kept a rule from deciding, and `glob` its expression, if that looks like a glob of a shell. `unclear` is
    why no allow rule about the input can cover this call, such as a command that can be read in two ways; null if its
    input was understood."""

    effect: str
    rule: str
    required: int
    reason: str | None
    steps: list[dict[str, str | None]]
    unclear: str | None = None


class SigningKeyList(msgspec.Struct, frozen=True):
    """`GET /v1/signing-keys`: every key that was ever registered, oldest first: votes of the past name them."""

    signing_keys: list[SigningKey]


class LoginIssuerList(msgspec.Struct, frozen=True):
    """The issuers at which a person can log in for this gateway."""

    items: list[LoginIssuer]


class KeyList(msgspec.Struct, frozen=True):
    """`GET /v1/keys`: every key that was ever made in the tenant, oldest first."""

    keys: list[Key]


class BrowserSessionList(msgspec.Struct, frozen=True):
    """`GET /v1/browser-sessions`: the open ones, newest first."""

    items: list[BrowserSession]


class PushSubscriptionList(msgspec.Struct, frozen=True):
    """`GET /v1/push-subscriptions`, newest first. `key` is the key for browsers' subscriptions, in base64url; null if
    the gateway is not configured to notify browsers."""

    key: str | None
    items: list[PushSubscription]


class TenantList(msgspec.Struct, frozen=True):
    """`GET /v1/tenants`."""

    tenants: list[Tenant]


class WebhookList(msgspec.Struct, frozen=True):
    """`GET /v1/webhooks`."""

    webhooks: list[Webhook]


class DeliveryList(msgspec.Struct, frozen=True):
    """`GET /v1/webhooks/deliveries`, newest first."""

    deliveries: list[Delivery]


class Arrived(msgspec.Struct, frozen=True):
    """`POST /v1/webhooks/{name}/test`: the receiver accepted a test message."""

    arrived: bool


class Health(msgspec.Struct, frozen=True):
    """`GET /healthz`."""

    ok: bool


class PrunedTenant(msgspec.Struct, frozen=True, kw_only=True):
    """What was deleted of one tenant."""

    tenant_id: str
    sessions: int = 0
    events: int = 0
    """Frames, notices and status events."""
    files: int = 0
    controls: int = 0
    feed: int = 0
    deliveries: int = 0


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /v1/prune`: what was deleted, or with `dry_run` what would be; tenants without any are omitted."""

    dry_run: bool
    before: str
    objects: int
    answers: int
    tenants: list[PrunedTenant]


class RetentionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """`GET /v1/retention`: how long data is stored (G-5). Transcripts and the audit log stay until they are removed by
    hand.
    """

    keep_ms: int | None
    """Frames, events, files and sent notices, after the last turn of their session; null is unlimited."""
    answers_ms: int
    """Answers under an idempotency key."""
    usage_ms: int
    """Usage by the day."""
    last_pruned_at: str | None
    """When the daily run last took place; null if it never did."""


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """`GET /readyz`: `ok` if the ledger accepts writes, the lanes are up and every audit log can be signed. A drain is
    shown, and does not make it false. `bus` is that of a cluster; an unavailable one does not make it false either,
    since sessions whose runners are attached here continue."""

    ok: bool
    ledger: Literal["writes", "refuses"]
    lanes: Literal["up", "down"]
    draining: bool
    audit: Literal["signs", "refuses"] = "signs"
    bus: Literal["reachable", "away"] | msgspec.UnsetType = msgspec.UNSET
