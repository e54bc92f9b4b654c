"""Resources and bodies of approvals: votes, remembered rules, signing keys, and deliveries (section 3)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from interlock.protocol.box import Box
from interlock.protocol.hold import Holding
from interlock.protocol.limits import MAX_CARD_CHATS
from interlock.protocol.resources.base import Actor, Body, Decision, Resource

ApprovalState = Literal["pending", "granted", "denied", "expired", "void", "superseded", "consumed"]


ApprovalDoor = Literal["command", "tool"]


class Vote(Resource, frozen=True, kw_only=True):
    """One person's vote on an approval. A withdrawn one stays visible, and no longer counts (P-3)."""

    by: str
    at: str
    decision: Decision
    method: Literal["acl", "signature", "passkey"]
    comment: str | None = None
    role: str | None = None
    key_id: str | None = None
    """The key that signed it (P-4)."""
    driver: str | None = None
    """The person who drives the agent that voted: the vote is theirs."""
    option_id: str | None = None
    """The agent's option that it named."""
    key_made_by: str | None = None
    """The requester, if they created the voter's key themselves or by a key that they created: they could have cast
    it."""
    key_makers: list[str] = []
    """The creators of the voter's key, and the creators of theirs: each of them has seen a secret that casts this
    vote."""
    withdrawn_at: str | None = None


class OfferedOption(Resource, frozen=True, kw_only=True):
    """An option of the agent for yes or no, this once; a vote may name it by `option_id`."""

    option_id: str
    label: str
    kind: Literal["allow_once", "reject_once"]


class Quorum(Resource, frozen=True, kw_only=True):
    """A part of an approval's quorum: at least `min` of the yeses come from people of `role` (P-1)."""

    role: str
    min: int


class BudgetHold(Resource, frozen=True, kw_only=True):
    """The budget that is used up (P-7): `limit`, `used` and `raise_by` in tokens or in US dollars, as decimal strings.

    A yes raises the limit to `raise_by` more than is used by then, until `resets_at`, or until the turn's end without
    it.
    """

    name: str
    measure: Literal["tokens_per_turn", "usd_per_day"]
    limit: str
    used: str
    raise_by: str
    scope: str = ""
    """The agent or session that the day's money belongs to; "" if the tenant shares it."""
    resets_at: str | None = None


class PreviewPart(Resource, frozen=True, kw_only=True):
    """One part of an agent's display of its call: a diff, or a text. `truncated` is the number of omitted characters;
    `GET /v1/approvals/{id}/input` has all."""

    kind: Literal["diff", "text"]
    path: str | None = None
    """Of a diff."""
    old_text: str | None = None
    """For a diff; None for a file that is new, according to the agent."""
    text: str
    """Of a diff: the file's new text."""
    truncated: int = 0


class AgentPreview(Resource, frozen=True, kw_only=True):
    """An agent's display of its call besides the input (J-12): the agent's own statement, which is not compared with
    what the tool does. `left_out` counts further parts."""

    parts: list[PreviewPart]
    left_out: int = 0


class ApprovalCard(Resource, frozen=True, kw_only=True):
    """A chat where a bridge has posted this approval, according to the bridge (J-5)."""

    service: str
    chat: str
    """A channel as the service names it, or the person of a direct chat."""
    reported_by: str
    """The owner of the key that reported it, such as `user:ann`."""


class Approval(Resource, frozen=True, kw_only=True):
    """An approval with either door (racp section 3).

    `digest` (SHA-256, hex) covers the bytes of `subject`, and of `input` if there is no subject. `title` names the
    action itself; it is the gateway's statement and not covered by the digest, so Interlock's own clients derive theirs
    from these bytes. `agent_title` is the agent's description of it (Y-1).
    """

    id: str
    tenant_id: str
    door: ApprovalDoor
    kind: Literal["permission", "question"] = "permission"
    state: ApprovalState
    created_at: str
    expires_at: str
    title: str
    agent_title: str = ""
    tool_name: str | None = None
    agent_id: str
    runner_id: str | None = None
    workspace: str | None = None
    box: Box | None = None
    """The box that the agent works in, or will start in (H-18); None if its runner reports none."""
    session_id: str
    command_id: str | None = None
    interaction_id: str | None = None
    invocation_id: str | None = None
    requested_by: Actor | None = None
    driver: Actor | None = None
    """The person who drives the agent that asked."""
    digest: str
    input: msgspec.Raw
    subject: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """The permission request itself, as an InteractionSubject: what a yes covers (H-1)."""
    rule: str
    required: int = 1
    groups: list[Quorum] = []
    deny_threshold: int = 1
    votes: list[Vote] = []
    decided_at: str | None = None
    decided_by: str | None = None
    comment: str | None = None
    answer: str | None = None
    """The answer to a question (`kind` question)."""
    options: list[OfferedOption] = []
    """Options that a vote may name, if the agent offers several for yes or no."""
    option_id: str | None = None
    """The option that the deciding votes named; without it the agent gets its first of the kind."""
    self_approval: bool = True
    signed: bool | Literal["passkey"] = False
    """Whether only signed votes count (P-4); with `passkey` only those with a passkey (J-17)."""
    require_independent: bool = False
    """Whether votes by keys that the requester has created, directly or by keys that they created, do not count
    (H-5)."""
    dangerous: bool = False
    """Whether its rule is marked dangerous: it is decided on its complete card, and by no button in a chat (O-12)."""
    accepts_change: bool | None = None
    """Whether the agent of a tool call accepts a changed input, `updated_input` of a vote (P-2); None if it is not
    known, and for anything else than a tool call."""
    supersedes: str | None = None
    """The approval whose input was changed to this one's (P-2)."""
    superseded_by: str | None = None
    remembered: str | None = None
    """The rule that its decision created (A-9)."""
    verb: str | None = None
    """The request that is asked about instead of a command, such as close, which a grant admits once."""
    holding: Holding | None = None
    """How the agent was held when this was asked, and the evidence (H-10)."""
    workspace_files: bool = False
    """The question is not about the command itself, but whether its agent may start although files of the workspace
    configure it: `input` holds WorkspaceFiles (H-13). A yes is remembered until these files change."""
    budget: BudgetHold | None = None
    """The question is not about the command itself, but whether it may continue past this budget (P-7)."""
    device_name: str | None = None
    """The host that the agent works on, as its runner was paired; absent in the response to a change (J-12)."""
    cards: list[ApprovalCard] = []
    """The chats where it was posted and waits; none once it has ended."""
    preview: AgentPreview | None = None
    """In `GET /v1/approvals/{id}` alone (J-12)."""


class BudgetPot(Resource, frozen=True, kw_only=True):
    """A day's money used so far: by the whole tenant (`scope` ""), an agent, or a session."""

    scope: str = ""
    used_usd: str
    limit_usd: str
    raised_usd: str = "0.00"


class Budget(Resource, frozen=True, kw_only=True):
    """A budget in force and today's usage of it (P-7). Money is a decimal string."""

    name: str
    agent: list[str] = []
    session: str | None = None
    each: Literal["tenant", "agent", "session"]
    tokens_per_turn: int | None = None
    usd_per_day: str | None = None
    resets_at: str
    """When the day ends: the next midnight UTC."""
    pots: list[BudgetPot] = []
    """The pots with the least left first."""
    pots_left_out: int = 0


class RuleMatch(Body, frozen=True, kw_only=True):
    """`match` of what is to be remembered. By default, the rule covers this very input of this tool and agent only.

    `width` is one of those that `GET /v1/approvals/{id}/rule` lists: `exact`, `program` (this program and first word),
    `below` (this tool below this directory), or `described` (every call of this kind that the agent only describes, in
    this session; only if the config has `policy.remember_described`). Otherwise `words` is a program and its words,
    `command` a regular expression for one simple command, `path` a glob. `any_input` covers any input of the tool, and
    is for a no only.
    """

    width: Literal["exact", "program", "below", "described"] | None = None
    tool: str | None = None
    words: str | list[str] | None = None
    command: str | None = None
    path: str | list[str] | None = None
    any_input: bool = False


class Remembering(Body, frozen=True, kw_only=True):
    """`remember` of a vote: "always", for this session or for the tenant (A-9)."""

    scope: Literal["session", "rule"]
    match: RuleMatch | None = None


class RememberedRule(Resource, frozen=True, kw_only=True):
    """A person's "always" as a rule of policy: audited, listed, revocable (A-9, P-1).

    `rule` is in the form of the config's `[[policy.rules]]`.
    """

    id: str
    tenant_id: str
    created_at: str
    created_by: str
    approval_id: str
    rule: dict[str, Any]
    revoked_at: str | None = None
    revoked_by: str | None = None


class PasskeyAssertion(Body, frozen=True, kw_only=True):
    """The result of `navigator.credentials.get` for a challenge (J-17), each in base64url."""

    authenticator_data: Annotated[str, msgspec.Meta(max_length=4_096)]
    client_data_json: Annotated[str, msgspec.Meta(max_length=4_096)]
    signature: Annotated[str, msgspec.Meta(max_length=2_048)]


class GrantBody(Body, frozen=True, kw_only=True):
    """`POST /v1/approvals/{id}/grants`. With the methods signature and passkey `at` is the signed moment (P-4); with
    passkey `assertion` is for the challenge SHA-256 of the statement that a signature would be of (J-17)."""

    decision: Decision
    comment: str | None = None
    method: Literal["acl", "signature", "passkey"] = "acl"
    signature: str | None = None
    assertion: PasskeyAssertion | None = None
    key_id: str | None = None
    at: str | None = None
    option_id: str | None = None
    """One of the approval's `options`, of the kind that fits the decision."""
    updated_input: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """Another input than the requested one, as bytes: what is approved then has its own digest (P-2)."""
    remember: Remembering | None = None
    digest: str | None = None
    idempotency_key: str | None = None


class WithdrawalBody(Body, frozen=True, kw_only=True):
    """`POST /v1/approvals/{id}/withdrawals`."""

    idempotency_key: str | None = None


class CardsBody(Body, frozen=True, kw_only=True):
    """`POST /v1/approvals/{id}/cards`: every chat of one service where the approval waits now, posted by one bridge.

    A chat is an id without spaces: any key that may read can report one, and it must not read as a sentence to
    approvers."""

    service: Annotated[str, msgspec.Meta(min_length=1, max_length=32, pattern=r"^[a-z0-9][a-z0-9_-]*$(?!\n)")]
    chats: Annotated[list[Annotated[str, msgspec.Meta(min_length=1, max_length=128, pattern=r"^\S+$(?!\n)")]],
                     msgspec.Meta(max_length=MAX_CARD_CHATS)]
    idempotency_key: str | None = None


class AnswerBody(Body, frozen=True, kw_only=True):
    """`POST /v1/approvals/{id}/answers`: the text, or null to decline."""

    text: str | None
    idempotency_key: str | None = None


class SigningKeyBody(Body, frozen=True, kw_only=True):
    """`POST /v1/signing-keys`: an Ed25519 public key, 32 bytes as base64."""

    public_key: str
    label: Annotated[str, msgspec.Meta(max_length=128)] = ""
    idempotency_key: str | None = None


class PasskeyBody(Body, frozen=True, kw_only=True):
    """`POST /v1/passkeys` (J-17): a passkey that the browser has just made, and an assertion by it for the challenge
    SHA-256 of `racp-passkey-v1`, a line feed, and canonical {tenant_id, owner, public_key, credential_id, at}."""

    credential_id: Annotated[str, msgspec.Meta(min_length=1, max_length=2_048, pattern=r"^[A-Za-z0-9_-]+$(?!\n)")]
    """In base64url. Python's `$` alone would accept a final line feed."""
    public_key: Annotated[str, msgspec.Meta(max_length=4_096)]
    """DER of SubjectPublicKeyInfo as base64, the result of `response.getPublicKey()`."""
    at: str
    assertion: PasskeyAssertion
    label: Annotated[str, msgspec.Meta(max_length=128)] = ""
    idempotency_key: str | None = None


class Passkey(Resource, frozen=True, kw_only=True):
    """The credential of a key for votes, and the origin of the pages that may use it (J-17)."""

    credential_id: str
    origin: str


class SigningKey(Resource, frozen=True, kw_only=True):
    """A person's key for votes by signature (P-4), or a passkey of theirs (J-17)."""

    key_id: str
    tenant_id: str
    owner: Actor
    public_key: str
    label: str = ""
    created_at: str
    revoked_at: str | None = None
    passkey: Passkey | None = None


class CommandApproval(Resource, frozen=True, kw_only=True):
    """`GET /v1/commands/{id}/approval` in the seed's shape."""

    command_id: str
    required: int
    grants: list[dict[str, str]]


DeliveryState = Literal["pending", "delivered", "dead", "moot"]


class Delivery(Resource, frozen=True, kw_only=True):
    """A notice to approvers through one webhook (P-8).

    pending: not delivered yet · delivered · dead: never delivered · moot: decided before it was delivered.
    """

    id: str
    tenant_id: str
    channel: str
    approval_id: str
    state: DeliveryState
    created_at: str
    attempts: int = 0
    why: str | None = None
    """Why it has not been delivered."""


WayKind = Literal["webhook", "ntfy", "apprise"]


class Webhook(Resource, frozen=True, kw_only=True):
    """A channel to approvers from the config, as it is listed: only its host, since a URL may hold a secret (P-8,
    O-11). For Apprise `host` is the service, such as `discord`."""

    name: str
    kind: WayKind = "webhook"
    host: str
    waiting: int
    dead: int
