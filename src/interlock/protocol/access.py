"""Access: roles, and the resources of keys, tenants and tickets (K-1, K-2)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Literal, get_args

import msgspec

from interlock.protocol.resources import Actor, Body, Resource

Role = Literal["viewer", "operator", "approver", "auditor", "admin", "owner", "runner"]
"""What a credential allows, within its tenant. `owner` can also create tenants; `runner` is a runner's own token."""
GIVEN_ROLES: tuple[str, ...] = tuple(role for role in get_args(Role) if role != "runner")
"""The roles that a key or an issuer's token can have; a runner's is assigned by pairing only (L-3)."""

COVERED_ROLES: dict[str, frozenset[str]] = {
    "owner": frozenset(GIVEN_ROLES),
    "admin": frozenset(GIVEN_ROLES) - {"owner"},
    "operator": frozenset({"operator", "viewer"}),
    "approver": frozenset({"approver", "viewer"}),
    "auditor": frozenset({"auditor", "viewer"}),
    "viewer": frozenset({"viewer"}),
}
"""For each role, the roles whose rights it includes."""

TENANT_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
PERSON_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,127}")
"""The actor of a key. Without a colon: the part before one is the name of an issuer."""

OWNER_TENANT = "default"
"""The tenant of the gateway's owner; its log has the events of the gateway as a whole."""
MAX_KEYS = 1_000
"""Keys of a tenant that are not revoked; a further one is answered 429 QuotaExceeded."""
MAX_TENANTS = 1_000
MAX_BROWSER_CODES = 100
"""Valid codes of a tenant at one time; a further one is answered 429 QuotaExceeded."""
MAX_BROWSER_SESSIONS = 1_000
"""Browser sessions of a tenant; a further one is answered 429 QuotaExceeded."""
MAX_KEY_BROWSER_SESSIONS = 50
"""Browser sessions of one key; a further one ends the least recently used one."""
MAX_PUSH_SUBSCRIPTIONS = 10
"""Browsers in which one person is notified; a further one is answered 429 QuotaExceeded."""
BROWSER_CODE_LIFE_MS = 5 * 60 * 1000
BROWSER_IDLE_MS = 12 * 60 * 60 * 1000
"""A browser session ends after this time without a request."""
BROWSER_LIFE_MS = 14 * 24 * 60 * 60 * 1000
"""Any other session ends after this, however much it is used."""
MAX_MAKERS = 32
"""People who created a key, directly or by keys that they created; beyond this no key is created."""
KEY_LIFE_MAX_MS = 10 * 366 * 24 * 60 * 60 * 1000


def written_roles(roles: Iterable[str]) -> str:
    """Return several roles as one word, as records and audit store them: `approver+operator`."""
    return "+".join(sorted(set(roles)))


def named_roles(written: str | None) -> frozenset[str]:
    """Parse a result of `written_roles`."""
    return frozenset(written.split("+")) if written else frozenset()


def is_current(created_ms: int, expires_ms: int, now_ms: int) -> bool:
    """Return whether a one-time code is valid. A clock that is set back does not prolong it by more than its own life:
    it is also invalid before its creation, apart from that much."""
    return created_ms - (expires_ms - created_ms) <= now_ms < expires_ms


def lesser_roles(one: Iterable[str], other: Iterable[str]) -> frozenset[str]:
    """Return the roles of either side that the other side covers; none if neither covers a role of the other."""
    first, second = frozenset(one), frozenset(other)
    covered_by_first = frozenset[str]().union(*(COVERED_ROLES.get(role, frozenset()) for role in first))
    covered_by_second = frozenset[str]().union(*(COVERED_ROLES.get(role, frozenset()) for role in second))
    return (first & covered_by_second) | (second & covered_by_first)


class Key(Resource, frozen=True, kw_only=True):
    """An API key as it is listed; its secret is shown once, when it is created (K-1)."""

    key_id: str
    tenant_id: str
    label: str
    principal: Actor
    driver: Actor | None = None
    """The person who drives the agent that uses the key."""
    roles: list[str]
    created_at: str
    last_used_at: str | None = None
    """Updated at most once a minute."""
    expires_at: str | None = None
    revoked: bool = False
    created_by: str | None = None
    """Who created it, or rotated its secret last: `user:ann`. None for the owner's key, and for keys from before this
    was recorded."""


class MadeKey(Resource, frozen=True, kw_only=True):
    """A key that was just created, with its secret: the only time it is shown."""

    key: str
    key_id: str
    tenant_id: str
    expires_at: str | None = None


class KeyBody(Body, frozen=True, kw_only=True):
    """`POST /v1/keys`: the key's actor, and what it allows. Only an owner may name another tenant."""

    principal: Actor
    driver: str | None = None
    """For an agent's key: the id of the person who drives it, whose votes its votes are; by default the key's
    creator."""
    roles: Annotated[list[str], msgspec.Meta(min_length=1, max_length=8)]
    label: Annotated[str, msgspec.Meta(max_length=128)] = ""
    ttl_ms: Annotated[int, msgspec.Meta(ge=1_000, le=KEY_LIFE_MAX_MS)] | None = None
    tenant_id: str | None = None
    idempotency_key: str | None = None


class EmptyBody(Body, frozen=True, kw_only=True):
    """A request without parameters besides its path."""

    idempotency_key: str | None = None


class Tenant(Resource, frozen=True, kw_only=True):
    """A tenant, with sessions, commands, runners, keys and an audit log of its own."""

    tenant_id: str
    name: str
    created_at: str
    suspended: bool = False
    """Whether its credentials are refused."""
    moved_to: str | None = None
    """The address it was moved to: requests for it are refused here."""


class TenantBody(Body, frozen=True, kw_only=True):
    """`POST /v1/tenants`."""

    tenant_id: str
    name: Annotated[str, msgspec.Meta(max_length=128)] = ""
    idempotency_key: str | None = None


class Whoami(Resource, frozen=True, kw_only=True):
    """`GET /v1/whoami`: the actor of this request's credential."""

    tenant_id: str
    principal: Actor
    driver: Actor | None = None
    roles: list[str]
    key_id: str


class LoginIssuer(Resource, frozen=True, kw_only=True):
    """An issuer whose tokens the gateway accepts, and the public client that logs a person in there (RFC 8628)."""

    name: str
    issuer: str
    client_id: str
    scopes: list[str]


class TicketBody(Body, frozen=True, kw_only=True):
    """`POST /v1/stream-tickets`: the path that the ticket opens, without query, such as `/v1/events`."""

    path: Annotated[str, msgspec.Meta(min_length=1, max_length=512)]
    idempotency_key: str | None = None


class StreamTicket(Resource, frozen=True, kw_only=True):
    """A ticket for one stream: valid once, for that path only, until `expires_at` (K-2)."""

    ticket: str
    path: str
    expires_at: str


class BrowserSessionBody(Body, frozen=True, kw_only=True):
    """`POST /v1/browser-sessions`: either a one-time code or an API key."""

    code: Annotated[str, msgspec.Meta(min_length=1, max_length=64)] | None = None
    key: Annotated[str, msgspec.Meta(min_length=1, max_length=256)] | None = None


class OpenedBrowserSession(Resource, frozen=True, kw_only=True):
    """A browser session that was just opened. `half` is shown only here: every later request carries it in the header
    `Interlock-Browser`, in addition to the cookie that was set with this response (J-15)."""

    id: str
    half: str
    created_at: str
    expires_at: str
    """The absolute end."""
    idle_ms: int
    """It also ends after this time without a request, in milliseconds."""
    principal: Whoami


class BrowserSession(Resource, frozen=True, kw_only=True):
    """A browser session as it is listed (J-10)."""

    id: str
    principal: Actor
    roles: list[str]
    key_id: str
    """The key that opened it; the session ends with it."""
    created_at: str
    last_used_at: str
    """Updated at most once a minute."""
    expires_at: str
    label: str
    """The browser, as it names itself."""
    current: bool = False
    """Whether it is the session of this request."""


class PushSubscription(Resource, frozen=True, kw_only=True):
    """A browser that is notified of approvals (J-18). Its endpoint and keys are not shown."""

    id: str
    browser_session_id: str
    """The browser session that it ends with."""
    principal: Actor
    host: str
    """The push service."""
    label: str
    """The browser, as it names itself."""
    created_at: str
    current: bool = False
    """Whether it belongs to the browser session of this request."""


class PushKeys(Body, frozen=True, kw_only=True):
    """A browser's keys of RFC 8291, in base64url."""

    p256dh: Annotated[str, msgspec.Meta(min_length=80, max_length=96)]
    auth: Annotated[str, msgspec.Meta(min_length=20, max_length=32)]


class PushSubscriptionBody(Body, frozen=True, kw_only=True):
    """`POST /v1/push-subscriptions`: the result of a browser's `PushSubscription.toJSON()`."""

    endpoint: Annotated[str, msgspec.Meta(min_length=1, max_length=2_048)]
    keys: PushKeys
    idempotency_key: str | None = None


class BrowserCodeBody(Body, frozen=True, kw_only=True):
    """`POST /v1/browser-codes`: the roles of the session that the code opens, at most the caller's own; all of them by
    default."""

    roles: Annotated[list[str], msgspec.Meta(min_length=1, max_length=8)] | None = None
    idempotency_key: str | None = None


class BrowserCode(Resource, frozen=True, kw_only=True):
    """A code that opens a browser session once, until `expires_at`; shown this once. It is in the fragment of
    `/console/#CODE`, which no server sees."""

    code: str
    expires_at: str
    roles: list[str]
