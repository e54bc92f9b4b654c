"""The tables of the config file and the type of each key (G-1)."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

from interlock.command.policy.budget import MAX_BUDGETS, BudgetRule
from interlock.command.policy.policy import Rule
from interlock.command.policy.presets import Preset, rules_of
from interlock.command.redaction import MAX_RULES, RedactionRule
from interlock.config.chats import CronSection, HookSection, SessionSection
from interlock.config.contexts import CompactionSection, DefaultsSection
from interlock.config.notices import NOTICE_TABLES, AppriseSection, NoticeSection, NtfySection, PushSection
from interlock.config.slack import SlackSection
from interlock.config.telegram import TelegramSection
from interlock.ports.agent import AgentSpec, check_roots
from interlock.protocol import limits
from interlock.protocol.access import GIVEN_ROLES, TENANT_ID
from interlock.protocol.records import DEVICES
from interlock.session.chat.chat_route import Binding

DEFAULT_PORT = 7420
LONGEST_MS = 3_650 * 24 * 60 * 60 * 1000
"""Maximum of the config's durations: an instant beyond all years could not be stored."""
LEAST_OUTBOX_BYTES = 64 * limits.KIB
"""A smaller outbox would lose part of a single answer while the link is down."""


class ConfigSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the config's tables."""


class GatewaySection(ConfigSection, frozen=True, kw_only=True):
    """`[gateway]`: its address and transport (L-2), the host names it accepts besides loopback, the browser origins it
    allows."""

    host: str = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = DEFAULT_PORT
    hosts: list[str] = []
    origins: list[str] = []
    tls_cert: str | None = None
    tls_key: str | None = None
    behind_proxy: bool = False
    trusted_proxies: list[str] = []
    buffer_policy: Literal["RING", "DROP", "NONE"] = "RING"
    """What a runner discards of a session's output while the link is down and its buffer is full (D-3)."""

    def __post_init__(self) -> None:
        if (self.tls_cert is None) != (self.tls_key is None):
            missing = "tls_key" if self.tls_key is None else "tls_cert"
            raise ValueError(f"{missing}: a certificate needs its key, and a key its certificate")
        for text in self.trusted_proxies:
            try:
                ipaddress.ip_network(text)
            except ValueError:
                raise ValueError(f"trusted_proxies: {text!r} is neither an address nor a network like "
                                 "10.0.0.0/8") from None

    def public_url(self) -> str | None:
        """Return the URL at which other machines reach the gateway; None if they do not."""
        if not self.hosts or not (self.tls_cert is not None or self.behind_proxy):
            return None
        host = self.hosts[0]
        port = f":{self.port}" if self.tls_cert is not None and ":" not in host and self.port != 443 else ""
        return f"https://{host}{port}"


class PolicySection(ConfigSection, frozen=True, kw_only=True):
    """`[policy]`: the ordered rules of P-1, `[[policy.rules]]`, and ready-made ones after them (Y-4)."""

    use: list[Preset] = []
    on_unasked: Literal["cancel", "tell"] = "cancel"
    """The outcome of a turn in which an agent that asks used a tool without a yes: it ends, or it is only reported."""
    remember_described: bool = False
    """Whether a yes may be remembered for every call of a kind that an agent only describes, in one session."""
    rules: list[Rule] = []

    @property
    def in_force(self) -> list[Rule]:
        """Return the file's own rules, then those of the presets that it uses."""
        return [*self.rules, *rules_of(self.use)]


class LimitsSection(ConfigSection, frozen=True, kw_only=True):
    """`[limits]`: the clocks of C-1 and C-7, in milliseconds."""

    timeout_ms: int = limits.TIMEOUT_DEFAULT_MS
    approval_ttl_ms: int = limits.APPROVAL_TTL_MS
    queue_ttl_ms: int = limits.QUEUE_TTL_MS
    detach_ttl_ms: int = limits.DETACH_TTL_MS
    pause_ttl_ms: int = limits.PAUSE_TTL_MS

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: a time in milliseconds, at least 1")
            if getattr(self, name) > LONGEST_MS:
                raise ValueError(f"{name}: at most ten years ({LONGEST_MS})")
        if self.approval_ttl_ms > limits.APPROVAL_TTL_MAX_MS:
            raise ValueError(f"approval_ttl_ms: at most 30 days ({limits.APPROVAL_TTL_MAX_MS})")


class RunnerSection(ConfigSection, frozen=True, kw_only=True):
    """`[runner]`: the roots of workspaces (A-1); empty means the runner's working directory."""

    roots: list[str] = []
    outbox_bytes: Annotated[int, msgspec.Meta(ge=LEAST_OUTBOX_BYTES)] = limits.OUTBOX_BYTES
    agent_idle_ms: Annotated[int, msgspec.Meta(ge=1, le=LONGEST_MS)] = limits.AGENT_IDLE_MS
    drain_ms: Annotated[int, msgspec.Meta(ge=0, le=LONGEST_MS)] = 0
    check_agents: bool = True

    def __post_init__(self) -> None:
        check_roots(self.roots)


ALGORITHMS = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519"})
"""Permitted signature algorithms of tokens: public keys only, so that a verifier cannot sign."""


class OidcSection(ConfigSection, frozen=True, kw_only=True):
    """`[oidc.NAME]`: an issuer whose tokens are accepted, and the meaning of its claims (K-1)."""

    issuer: str
    audience: Annotated[list[str], msgspec.Meta(min_length=1)]
    tenant: str | None = None
    tenant_claim: str | None = None
    tenants: list[str] = []
    person_claim: str = "sub"
    roles_claim: str = "roles"
    roles: dict[str, str] = {}
    default_roles: list[str] = []
    algorithms: tuple[str, ...] = ("RS256", "PS256", "ES256", "Ed25519")
    types: tuple[str, ...] = ("jwt", "at+jwt")
    leeway_ms: Annotated[int, msgspec.Meta(ge=0, le=300_000)] = 30_000
    login_client: str | None = None
    login_scopes: tuple[str, ...] = ("openid", "offline_access")

    def __post_init__(self) -> None:
        if not self.issuer.startswith(("https://", "http://")):
            raise ValueError("issuer: the issuer's URL, exactly as its tokens name it")
        if (self.tenant is None) == (self.tenant_claim is None):
            raise ValueError("tenant: either `tenant`, one for all, or `tenant_claim` with the list `tenants`")
        if self.tenant_claim is not None and not self.tenants:
            raise ValueError("tenants: the tenants that this issuer may name in its claim")
        for name in (*self.tenants, *([self.tenant] if self.tenant else [])):
            if TENANT_ID.fullmatch(name) is None:
                raise ValueError(f"tenant: {name!r} is not a tenant's id")
        known = [role for role in GIVEN_ROLES if role != "owner"]
        for role in (*self.roles.values(), *self.default_roles):
            if role not in known:
                raise ValueError(f"roles: {role!r} is not a role for a token; known: {', '.join(known)}")
        if not self.algorithms or not ALGORITHMS.issuperset(self.algorithms):
            raise ValueError(f"algorithms: some of {', '.join(sorted(ALGORITHMS))}")


class RatesSection(ConfigSection, frozen=True, kw_only=True):
    """`[rates]`: rate limits and quotas (K-3); 0 means no limit."""

    principal_a_minute: Annotated[int, msgspec.Meta(ge=0, le=10_000_000)] = 12_000
    principal_burst: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 2_000
    tenant_a_minute: Annotated[int, msgspec.Meta(ge=0, le=10_000_000)] = 60_000
    tenant_burst: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 10_000
    refused_a_minute: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 60
    principal_streams: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 1_000
    tenant_streams: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 4_000
    tenant_commands_a_day: Annotated[int, msgspec.Meta(ge=0)] = 0
    principal_commands_a_day: Annotated[int, msgspec.Meta(ge=0)] = 0


class RedactionSection(ConfigSection, frozen=True, kw_only=True):
    """`[redaction]`: `[[redaction.rules]]` for text that leaves (K-4)."""

    rules: list[RedactionRule] = []

    def __post_init__(self) -> None:
        if len(self.rules) > MAX_RULES:
            raise ValueError(f"rules: at most {MAX_RULES}")


class OutgoingSection(ConfigSection, frozen=True, kw_only=True):
    """`[outgoing]`: internal networks that the gateway itself may send requests to, for issuers and webhooks."""

    allow: list[str] = []

    def __post_init__(self) -> None:
        for text in self.allow:
            try:
                ipaddress.ip_network(text)
            except ValueError:
                raise ValueError(f"allow: {text!r} is neither an address nor a network like 127.0.0.1/32") from None


class AuditSection(ConfigSection, frozen=True, kw_only=True):
    """`[audit]`: a bucket under an object lock that stores each signed checkpoint, in addition to the file (U-3)."""

    s3_bucket: str | None = None
    s3_prefix: str = "interlock"
    s3_endpoint: str | None = None
    s3_region: str | None = None
    lock_days: Annotated[int, msgspec.Meta(ge=1, le=36_500)] = 365


class ObjectsSection(ConfigSection, frozen=True, kw_only=True):
    """`[objects]`: a bucket for files and large tool results, instead of a directory of the state (E-5)."""

    s3_bucket: str | None = None
    s3_prefix: str = "interlock/objects"
    s3_endpoint: str | None = None
    s3_region: str | None = None


class ClusterSection(ConfigSection, frozen=True, kw_only=True):
    """`[cluster]`: the database and the bus that several gateways share, instead of a file of the state (C-4)."""

    store: str | None = None
    bus: str | None = None

    def __post_init__(self) -> None:
        if self.store is not None and not self.store.startswith(("postgresql://", "postgres://")):
            raise ValueError("store: the address of a PostgreSQL database begins with postgresql://")
        servers = self.bus.split(",") if self.bus is not None else []
        if not all(one.startswith(("nats://", "tls://")) for one in servers):
            raise ValueError("bus: the address of a NATS server begins with nats:// or tls://; several have commas "
                             "between them")
        if self.bus is not None and self.store is None:
            raise ValueError("bus: gateways that share a bus share a database: name it with store")


class RetentionSection(ConfigSection, frozen=True, kw_only=True):
    """`[retention]`: how long frames, events and files are stored (G-5)."""

    days: Annotated[int, msgspec.Meta(ge=0, le=36_500)] = limits.RETENTION_DAYS


class MetricsSection(ConfigSection, frozen=True, kw_only=True):
    """`[metrics]`: networks that may read `/metrics` without a credential."""

    open_to: list[str] = []

    def __post_init__(self) -> None:
        for text in self.open_to:
            try:
                ipaddress.ip_network(text)
            except ValueError:
                raise ValueError(f"open_to: {text!r} is neither an address nor a network like 10.0.0.0/8") from None


class WebhookSection(ConfigSection, frozen=True, kw_only=True):
    """`[webhooks.NAME]`: a webhook that notifies approvers of a tenant, and the secret that signs it (P-8)."""

    url: str
    tenant: str = "default"
    secret_file: str | None = None
    secret_env: str | None = None

    def __post_init__(self) -> None:
        if (self.secret_file is None) == (self.secret_env is None):
            raise ValueError("secret_file: name the file that holds the secret, or the variable with secret_env")
        if TENANT_ID.fullmatch(self.tenant) is None:
            raise ValueError(f"tenant: {self.tenant!r} is not a tenant's id")


class Config(ConfigSection, frozen=True, kw_only=True):
    """The whole file; a missing file is all defaults."""

    gateway: GatewaySection = GatewaySection()
    policy: PolicySection = PolicySection()
    limits: LimitsSection = LimitsSection()
    runner: RunnerSection = RunnerSection()
    rates: RatesSection = RatesSection()
    redaction: RedactionSection = RedactionSection()
    outgoing: OutgoingSection = OutgoingSection()
    audit: AuditSection = AuditSection()
    objects: ObjectsSection = ObjectsSection()
    cluster: ClusterSection = ClusterSection()
    metrics: MetricsSection = MetricsSection()
    retention: RetentionSection = RetentionSection()
    oidc: dict[str, OidcSection] = {}
    webhooks: dict[str, WebhookSection] = {}
    ntfy: dict[str, NtfySection] = {}
    apprise: dict[str, AppriseSection] = {}
    push: PushSection | None = None
    telegram: TelegramSection | None = None
    slack: SlackSection | None = None
    budgets: list[BudgetRule] = []
    agents: dict[str, AgentSpec] = {}
    defaults: DefaultsSection = msgspec.field(default=DefaultsSection(), name="agents.defaults")
    """`[agents.defaults]` in the file: `defaults` cannot be an agent's id."""
    compaction: CompactionSection = CompactionSection()
    session: SessionSection = SessionSection()
    bindings: list[Binding] = []
    hooks: dict[str, HookSection] = {}
    cron: dict[str, CronSection] = {}

    def notices(self) -> dict[str, dict[str, NoticeSection]]:
        """Return the notices to approvers, by table and name."""
        return {table: getattr(self, table) for table in NOTICE_TABLES}

    def ways(self) -> list[tuple[str, str]]:
        """Return the ways to approvers, webhooks and notices alike, each by tenant and name."""
        tables: list[Mapping[str, WebhookSection | NoticeSection]] = [self.webhooks, *self.notices().values()]
        return [(section.tenant, name) for table in tables for name, section in table.items()]

    def __post_init__(self) -> None:
        ways = self.ways()
        for way in ways:
            if self.push is not None and way[1] == DEVICES:
                raise ValueError(f"push: a webhook or notice has the name {DEVICES!r}, under which deliveries to "
                                 "browsers are kept; give it another one")
            if ways.count(way) > 1:
                table = next(table for table, notices in self.notices().items() if way[1] in notices)
                raise ValueError(f"{table}: two ways to the approvers of tenant "
                                 f"{way[0]!r} have the name {way[1]!r}; what was sent is kept under its name")
        if len(self.budgets) > MAX_BUDGETS:
            raise ValueError(f"budgets: at most {MAX_BUDGETS}")
        names = [budget.name for budget in self.budgets]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"budgets: two have the name {name!r}; what a budget has used is kept under its name")
