"""The rows of the ledger, each defined once, with the resource's fields and those that only the engine needs."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from interlock.protocol.access import named_roles
from interlock.protocol.box import Box
from interlock.protocol.drains import Drain
from interlock.protocol.resources import Actor, Approval, Command, Delivery, RememberedRule, SigningKey

EventKind = Literal["C", "M", "notice", "refused", "status", "feed"]


CancelCause = Literal["cancel", "timeout", "pause_ttl", "budget", "tampered", "workspace"]
"""Why a command is to stop: a request, its timeout, the limit of its pause (C-1), a budget that was not raised (P-7),
or workspace files that were not allowed (H-13)."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the ledger's rows. Those of which a gateway holds many at a time are `gc=False`: they are plain data
    without cycles, and the cyclic collector would otherwise scan all that wait in a lane."""


class Event(Record, frozen=True, kw_only=True, gc=False):
    """One element of a numbered stream: `n` counts 1, 2, 3 … in its stream, without gaps (S-1).

    `kind` is C or M for a frame of that direction (`body` is its bytes as received or as sent), "refused" for a frame
    that was recorded and changed nothing, "notice", "status" (a StatusEvent) or "feed" (a FeedEvent) as JSON.
    """

    stream: str
    n: int
    kind: EventKind
    at_ms: int
    body: bytes
    message_id: str = ""


class SessionRecord(Record, frozen=True, kw_only=True, gc=False):
    """A session's row. `machine` is the engine's state of the session's lane, as it encodes it itself."""

    session_id: str
    tenant_id: str
    session_key: str
    agent_id: str
    runner_id: str
    workspace: str
    state: str
    created_ms: int
    updated_ms: int
    deadline_ms: int | None
    machine: bytes
    usage: dict[str, Any]


class CommandRecord(Record, frozen=True, kw_only=True, gc=False):
    """A command's row: the resource and the clocks of C-1, in milliseconds."""

    command: Command
    session_id: str
    created_ms: int
    approval_deadline_ms: int | None = None
    queue_deadline_ms: int | None = None
    remaining_ms: int | None = None
    """The rest of timeout_ms; None before the start."""
    running_since_ms: int | None = None
    """Set while the timeout runs; None while it is stopped (paused, waiting for an approval)."""
    cancel_deadline_ms: int | None = None
    detach_deadline_ms: int | None = None
    prompt_id: str | None = None
    prompt_seq: int | None = None
    """control seq of the prompt that carries it."""
    pause_deadline_ms: int | None = None
    cancel_cause: CancelCause | None = None
    canceled_by: str | None = None
    origin: Literal["user", "cron", "hook", "flush"] = "user"
    """Its origin; a command without a person behind it changes no clock of the session (I-2)."""
    driver: Actor | None = None
    """The person who drives the agent that submitted it (P-3)."""
    close_after: bool = False
    """Whether the session's agent ends with this command, if nothing else waits for it."""
    needs_asking: bool = False
    """Whether policy admitted it because its agent asks before its tool calls: it starts only while that holds
    (H-11)."""
    needs_box: Box | None = None
    """The box that policy or approvers decided on: it starts only in one with the same restrictions (H-18)."""


class Judged(Record, frozen=True, kw_only=True, omit_defaults=True):
    """The facts besides the request that policy used when approvers were asked; times are Unix milliseconds."""

    at_ms: int
    origin: Literal["user", "agent", "cron", "hook", "flush", "system"]
    permission: Literal["asks", "never"]
    trusted_kinds: bool = False
    allowed_tools: tuple[str, ...] = ()
    cost_usd: float = 0.0
    person: str | None = None
    box: Box | None = None
    """The box of the opening that asked, as reported by the runner (H-18)."""
    fell: bool = False
    """Whether the agent had used a tool without a yes before, so that an allow rule does not answer for a person
    (H-12)."""


class ApprovalRecord(Record, frozen=True, kw_only=True):
    """An approval's row."""

    approval: Approval
    expires_ms: int
    judged: Judged | None = None
    """None for what no rule decides, and in rows of earlier versions."""


class SpendingRecord(Record, frozen=True, kw_only=True):
    """A budget pot's usage of a day, or an addition to it (P-7). `day` counts from 1970-01-01, UTC; `scope` is the
    agent or session that the pot belongs to, "" if it belongs to the tenant."""

    tenant_id: str
    budget: str
    scope: str
    day: int
    spent_micros: int = 0
    raised_micros: int = 0


class UsageRecord(Record, frozen=True, kw_only=True):
    """Usage that agents reported for a day and group, or an addition to it (J-13). `day` counts from 1970-01-01, UTC;
    `person` is who submitted the commands, as `user:ann`: the person who drives an agent, and not the agent. Dimensions
    that are not grouped by are "" and 0."""

    tenant_id: str
    day: int = 0
    agent_id: str = ""
    model: str = ""
    session_id: str = ""
    person: str = ""
    turns: int = 0
    estimated_turns: int = 0
    """Turns whose agent died before it reported them: their figures are too low."""
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_micros: int = 0

    def plus(self, other: UsageRecord) -> UsageRecord:
        """Return the sum with another record; the group is unchanged."""
        return msgspec.structs.replace(self, **{name: getattr(self, name) + getattr(other, name)
                                                for name in USAGE_FIGURES})


USAGE_FIGURES = ("turns", "estimated_turns", "input_tokens", "output_tokens", "cache_read_tokens",
                 "cache_write_tokens", "cost_micros")
"""The fields of a UsageRecord that are summed; the fields before them are its group."""


class RuleRecord(Record, frozen=True, kw_only=True):
    """A remembered rule's row (A-9)."""

    rule: RememberedRule


class DrainRecord(Record, frozen=True, kw_only=True):
    """A drain's row (C-5)."""

    tenant_id: str
    drain: Drain


class SigningKeyRecord(Record, frozen=True, kw_only=True):
    """A signing key's row (P-4)."""

    key: SigningKey


DEVICES = "push"
"""The name, as of a webhook, under which deliveries to browsers are stored (J-18)."""


TASK_PUSHES = "a2a tasks"
"""The name, which no webhook can have, under which push notifications of single tasks are stored (O-9)."""


class TaskPush(Record, frozen=True, kw_only=True, omit_defaults=True):
    """The address at which an A2A client is notified of one task (O-9)."""

    config_id: str
    task_id: str
    url: str
    origin: str
    """The base URL of the gateway's pages for that client."""
    key_id: str = ""
    """The credential that set it, as its principal names it: the notifications end with it. Empty in older rows."""
    token: str = ""
    scheme: str = ""
    credentials: str = ""
    cursor: int = 0
    """Number of the last event of the command's stream that needs no further notification."""
    notified: str = ""
    """The last notification."""


class DeliveryRecord(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A notice to approvers that is being delivered (P-8). `due_ms` is when it is sent next, None once it has ended.

    With `push` it represents the notifications of a task, which end with the task: `due_ms` is always None."""

    delivery: Delivery
    due_ms: int | None
    push: TaskPush | None = None


class ControlRecord(Record, frozen=True, kw_only=True):
    """A control frame stored until the runner has it (D-7)."""

    session_id: str
    seq: int
    message_id: str
    body: bytes


class StoredSession(Record, frozen=True, kw_only=True):
    """A session's row as it is stored, with its control frames, for verification (H-5). `usage` and `machine` may be
    unreadable; the other columns are copies of fields of `machine`."""

    session_id: str
    tenant_id: str
    session_key: str
    agent_id: str
    runner_id: str
    workspace: str
    usage: bytes
    machine: bytes
    controls: list[ControlRecord]


class IdempotencyRecord(Record, frozen=True, kw_only=True, gc=False):
    """A finished response, repeated byte by byte (M-1, M-2)."""

    tenant_id: str
    """The tenant of the request. SQLite, which looks up a scope without it, does not store it."""
    scope: str
    fingerprint: str
    status: int
    headers: dict[str, str]
    body: bytes
    created_ms: int
    command_id: str | None = None


class Principal(Record, frozen=True, kw_only=True, gc=False):
    """The requester, by its credential (K-1). `role` may be several, written as `approver+operator`."""

    tenant_id: str
    actor: Actor
    role: str
    key_id: str
    driver: Actor | None = None
    """The person who drives the agent that asks (P-3)."""
    key_makers: tuple[str, ...] = ()
    """The creators of its key, and the creators of theirs, as `user:ann`: each of them could have the secret (H-5)."""

    @property
    def roles(self) -> frozenset[str]:
        """Return the individual roles."""
        return named_roles(self.role)

    @property
    def who(self) -> dict[str, str]:
        """Return it as the audit log names it: {id, role}."""
        return {"id": f"{self.actor.type}:{self.actor.id}", "role": self.role}


class RunnerRecord(Record, frozen=True, kw_only=True):
    """A paired runner, with only the SHA-256 of its token (L-3)."""

    runner_id: str
    tenant_id: str
    token_sha256: str
    device_name: str
    created_ms: int
    last_seen_ms: int
    revoked: bool = False


class FileRecord(Record, frozen=True, kw_only=True):
    """A file that was transferred in a session, in either direction (E-5). `objects` are its chunks in the object
    store, in order."""

    session_id: str
    transfer_id: str
    name: str
    media_type: str
    size: int
    sha256: str
    purpose: str
    created_ms: int
    objects: list[str]


class PairingRecord(Record, frozen=True, kw_only=True):
    """A one-time code that pairs a runner: only its SHA-256, and its creator (L-3)."""

    code_sha256: str
    tenant_id: str
    by: dict[str, str]
    """{id, role}."""
    created_ms: int
    expires_ms: int
    device_name: str = ""


class KeyRecord(Record, frozen=True, kw_only=True):
    """An API key, with only its SHA-256 (K-1). `role` may be several, as a principal's."""

    key_sha256: str
    key_id: str
    tenant_id: str
    principal: Actor
    driver: Actor | None = None
    """The person who drives the agent that uses the key (P-3)."""
    role: str
    created_ms: int
    revoked: bool = False
    label: str = ""
    expires_ms: int | None = None
    origin: Literal["file", "made"] = "file"
    """`file`: the owner's key in the state directory, of which one is valid at a time."""
    last_used_ms: int | None = None
    makers: list[str] = []
    """Who created or rotated it, as `user:ann`, then who created the key that they used, and so on; empty for the
    file's."""


class PushTarget(Record, frozen=True, kw_only=True):
    """Where a browser receives notices: RFC 8030's endpoint, and the keys of RFC 8291 in base64url (J-18)."""

    id: str
    endpoint: str
    p256dh: str
    auth: str
    created_ms: int


class BrowserLoginRecord(Record, frozen=True, kw_only=True):
    """A browser's session, or a one-time code that opens one (J-10, J-15). Its secrets are stored as SHA-256 only.

    It ends with the key that opened it: `key_sha256` is that key's secret when it was opened, so revoking, rotating or
    replacing the key ends it.
    """

    id: str
    """`brs_…` of a session; of a code its SHA-256."""
    form: Literal["session", "code"]
    tenant_id: str
    principal: Actor
    role: str
    """At most what the key allows; if the key allows less now, so does this."""
    key_id: str
    key_sha256: str
    created_ms: int
    expires_ms: int
    """The absolute end, however much it is used."""
    ends_ms: int | None = None
    """For a code: the absolute end of the session that it opens, if it was created from another session."""
    cookie_sha256: str = ""
    half_sha256: str = ""
    last_used_ms: int = 0
    label: str = ""
    """The browser, as it names itself."""
    push: PushTarget | None = None
    """For a session: where its browser is notified of approvals; it ends with the session."""


class TenantRecord(Record, frozen=True, kw_only=True):
    """A tenant. The credentials of a suspended one are refused; `moved_to` is the new address of one that was moved."""

    tenant_id: str
    name: str
    created_ms: int
    suspended: bool = False
    moved_to: str | None = None
    moving: str | None = None
    """The id of the move that is handing it over, here or to another ledger: requests are to be retried soon."""
    known_as: str | None = None
    """The id of the gateway that its runners have known since before it was moved here; None for this ledger's own."""

    @property
    def moved(self) -> str:
        """Return the sentence that refuses requests for a tenant that was moved; "" for one that is here."""
        return "" if self.moved_to is None else f"The tenant {self.tenant_id} was moved to {self.moved_to}."


class TranscriptLine(Record, frozen=True, kw_only=True):
    """A complete transcript line that is not yet in the file (X-3)."""

    tenant_id: str
    session_id: str
    entry_id: str
    line: bytes


class AuditDraft(Record, frozen=True, kw_only=True, gc=False):
    """A record of a transition, before the log assigns it a number and a hash (U-1)."""

    tenant_id: str
    at: str
    who: dict[str, str]
    """{id, role}."""
    action: str
    command_id: str | None = None
    session_id: str | None = None
    approval_id: str | None = None
    meta: dict[str, Any] = {}
    """Strings, booleans, integers below 2^53, objects, arrays only (U-2)."""
    personal: dict[str, str] = {}
    """Address, user agent, free text, by name: stored where it can be erased (U-4). None of it is in `meta`."""


class AuditRecord(Record, frozen=True, kw_only=True, gc=False):
    """A sealed record: `body` is canonical JSON (RFC 8785), `hash` its RFC 6962 leaf hash, hex (U-2).

    `personal` has the values of its commitments that were not erased: (salt in hex, value) by name.
    """

    tenant_id: str
    seq: int
    hash: str
    body: bytes
    personal: dict[str, tuple[str, str]] = {}
