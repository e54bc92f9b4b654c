"""The principals of credentials: API keys, runners' tokens, tokens of issuers (K-1); and the owner's key (K-2)."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Coroutine
from contextvars import Context
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import msgspec
import structlog

from interlock.command.audit.register import bound
from interlock.durable_files import replace_file
from interlock.engine.lanes.rows import RowAudit
from interlock.engine.lanes.tenant_place import refusal
from interlock.ports.clock import Clock, Entropy
from interlock.ports.entities import KEYS
from interlock.ports.ledger import AuditAppend, Ledger, LedgerError, LedgerWrite, Note, Put, WriteBatch
from interlock.ports.signals import Signal
from interlock.protocol.access import (
    BROWSER_IDLE_MS,
    OWNER_TENANT,
    LoginIssuer,
    lesser_roles,
    named_roles,
    written_roles,
)
from interlock.protocol.clock import iso
from interlock.protocol.identifiers import ulid
from interlock.protocol.problems import Problem
from interlock.protocol.records import AuditDraft, BrowserLoginRecord, KeyRecord, Principal, TenantRecord
from interlock.protocol.resources import Actor

KEY_PREFIX = "ilk_"
KEY_BYTES = 32
RUNNER_PREFIX = "ilr_"
BROWSER_ID_PREFIX = "brs_"
BROWSER_PREFIX = "ilb_"
"""The two halves of a browser session, joined. It is never sent in this form: a request with it is refused."""
ISSUED_PREFIX = "oidc:"
"""Of the `key_id` of a principal with an issuer's token; the issuer's name follows."""
KEY_CHARS = 256
"""A longer key is refused unread."""
JWT_CHARS = 16_384
"""A longer token of an issuer is refused unread."""
OWNER_FILE = "owner.key"
CACHE_KEYS = 256
USED_INTERVAL_MS = 60_000
"""A key's last use is written at most this often: further uses cost no write."""
REFUSED_KEYS = 4_096
"""Cached refusals: a repeated credential is looked up once in CACHE_MS."""
CACHE_MS = 1_000
"""A credential that another gateway on the same ledger revoked is refused at the latest after this; one revoked here at
once."""
AHEAD_MS = 250
"""A credential that is used so shortly before it has to be looked up again is looked up meanwhile: no request waits."""

CredentialState = Literal["valid", "suspended", "ended"]

log = structlog.get_logger("interlock.gateway")


def digest(key: str) -> str:
    """Return a key's hash as it is stored: SHA-256, hex."""
    return hashlib.sha256(key.encode()).hexdigest()


def new_key(entropy: Entropy) -> str:
    """Create a key: `ilk_` and 32 random bytes in base64url."""
    return KEY_PREFIX + base64.urlsafe_b64encode(entropy(KEY_BYTES)).rstrip(b"=").decode()


def read_owner_key(state_dir: Path) -> str | None:
    """Read the owner key as the command line does; None before the first start."""
    with contextlib.suppress(FileNotFoundError):
        return (state_dir / OWNER_FILE).read_text("ascii").strip() or None
    return None


async def ensure_owner_key(state_dir: Path, ledger: Ledger, clock: Clock, entropy: Entropy, *, shared: bool = False
                           ) -> KeyRecord:
    """Create the owner key at the first start, and ensure at every start that the ledger has its hash (K-2).

    One key of the file is valid at a time: if `owner.key` was removed or replaced, the previous key is revoked. If
    several gateways share the ledger, each may have a file, and none is revoked by another's start.
    """
    key = read_owner_key(state_dir)
    if key is None:
        key = new_key(entropy)
        replace_file(state_dir / OWNER_FILE, key.encode() + b"\n")
    now = clock.now_ms()
    known = await ledger.key(digest(key))
    writes: list[LedgerWrite] = []
    if await ledger.tenant(OWNER_TENANT) is None:
        tenant = TenantRecord(tenant_id=OWNER_TENANT, name="", created_ms=now)
        draft = AuditDraft(tenant_id=OWNER_TENANT, at=iso(now), who={"id": "gateway", "role": "system"},
                           action="policy_change",
                           meta={"step": "tenant_made", "tenant_id": OWNER_TENANT, **bound(tenant)})
        writes += [Put(tenant), AuditAppend(draft)]
    if known is None:
        known = KeyRecord(
            key_sha256=digest(key), key_id="key_" + ulid(now, entropy(10)), tenant_id=OWNER_TENANT, label=OWNER_FILE,
            principal=Actor(type="user", id="owner"), role="owner", created_ms=now, origin="file",
        )
        writes += [Put(known), *await _replacing(ledger, known, now, shared=shared)]
    elif known.revoked:
        log.warning("owner_key_is_revoked", remedy=f"remove {state_dir / OWNER_FILE} and start again for another one")
    if writes:
        await ledger.commit(WriteBatch(writes))
    return known


async def _replacing(ledger: Ledger, fresh: KeyRecord, now_ms: int, *, shared: bool) -> list[LedgerWrite]:
    """Record the file's key, and revoke those before it unless other gateways have files of their own."""
    keys = [] if shared else await ledger.keys(OWNER_TENANT)
    earlier = [msgspec.structs.replace(one, revoked=True) for one in keys if one.origin == "file" and not one.revoked]
    who, at = {"id": "gateway", "role": "system"}, iso(now_ms)
    made = AuditDraft(
        tenant_id=OWNER_TENANT, at=at, who=who, action="key_rotate",
        meta={"step": "owner_file", "key_id": fresh.key_id, "revoked": [one.key_id for one in earlier], **bound(fresh)},
    )
    writes: list[LedgerWrite] = [AuditAppend(made)]
    for one in earlier:
        meta = {"step": "owner_file", "key_id": one.key_id, **bound(one)}
        writes += [Put(one),
                   AuditAppend(AuditDraft(tenant_id=OWNER_TENANT, at=at, who=who, action="revoke", meta=meta))]
    return writes


def owns_all(principal: Principal) -> bool:
    """Return whether it is an owner of the gateway: of the tenant whose machine it is, and so over all the others."""
    return principal.tenant_id == OWNER_TENANT and "owner" in principal.roles


class Issuers(Protocol):
    """A verifier of OIDC issuers' tokens."""

    async def principal(self, token: str) -> Principal:
        """Raises Problem Unauthorized, UpstreamError or Unavailable."""
        ...

    def logins(self) -> list[LoginIssuer]:
        """Return the issuers that have a client for `interlock login`."""
        ...


class _Looked(NamedTuple):
    """The rows of a credential, read in parallel with the logs about them (`Rows.look`)."""

    key: KeyRecord | None
    tenant_id: str
    tenant: TenantRecord | None


class Credentials:
    """The look-up of a bearer token's principal. Accepted tokens are cached for CACHE_MS, at most CACHE_KEYS of
    them."""

    def __init__(self, ledger: Ledger, clock: Clock, issuers: Issuers | None = None,
                 rows: RowAudit | None = None) -> None:
        self._ledger = ledger
        self.rows = rows or RowAudit(ledger, clock)
        """Compares a credential's rows with the audit log (H-5)."""
        self._clock = clock
        self._issuers = issuers
        self._known: OrderedDict[str, tuple[int, Principal]] = OrderedDict()
        self._refused: OrderedDict[str, int] = OrderedDict()
        """Refused credentials, by hash, and until when they are not looked up again."""
        self._looking: dict[str, asyncio.Task[Principal]] = {}
        """Lookups under way, by the hash of what is looked up: requests that arrive meanwhile share one."""
        self.on_forget = Signal[[]]()
        """Sent after a revocation, here or at another gateway."""
        self.on_revoked = Signal[[]]()
        """Sent after a revocation here, so that other gateways also look up again."""

    def known(self, token: str, now_ms: int) -> Principal | None:
        """Return the principal of a token that was looked up within CACHE_MS before `now_ms`; None for any other. In
        the last AHEAD_MS of them it begins the next lookup."""
        if len(token) > JWT_CHARS or not token.isascii():
            return None
        hashed = digest(token)
        known = self._known.get(hashed)
        if known is None or now_ms >= known[0]:
            return None
        if known[0] - now_ms <= AHEAD_MS and hashed not in self._looking:
            # Not in the request's context: this request waits for nothing that is read there.
            self._begin(hashed, self._look_up(token, hashed, known[1], now_ms), Context())
        return known[1]

    async def principal(self, token: str) -> Principal:
        """Return a token's principal. Raises Problem Unauthorized; UpstreamError or Unavailable if an issuer does not
        answer."""
        if len(token) > (JWT_CHARS if self._is_jwt(token) else KEY_CHARS) or not token.isascii():
            raise Problem("Unauthorized", "This is not a credential of Interlock.")
        hashed = digest(token)
        now = self._clock.monotonic_ms()
        known = self._known.get(hashed)
        if known is not None and now < known[0]:
            return known[1]
        if now < self._refused.get(hashed, now):
            raise _unknown()
        looking = self._looking.get(hashed)
        if looking is None:
            self._known.pop(hashed, None)
            before = known[1] if known is not None else None
            looking = self._begin(hashed, self._look_up(token, hashed, before, now))
        return await asyncio.shield(looking)  # A request that ends early does not end it for the others.

    def _begin(self, hashed: str, lookup: Coroutine[Any, Any, Principal], context: Context | None = None
               ) -> asyncio.Task[Principal]:
        """Start a lookup, which requests that arrive meanwhile share."""
        looking = self._looking[hashed] = asyncio.create_task(lookup, context=context)
        looking.add_done_callback(_retrieve_error)
        return looking

    async def _look_up(self, token: str, hashed: str, before: Principal | None, now_ms: int) -> Principal:
        """Judge a token and remember the result, unless something was revoked meanwhile: it may have been read before.
        Raises Problem."""
        try:
            principal = await self._judged(token, hashed, before)
        except Problem as problem:
            if self._ended(hashed) and problem.code == "Unauthorized":
                self._known.pop(hashed, None)
                self._refused.pop(hashed, None)
                self._refused[hashed] = self._clock.monotonic_ms() + CACHE_MS
                if len(self._refused) > REFUSED_KEYS:
                    self._refused.popitem(last=False)
            raise
        except BaseException:
            self._ended(hashed)
            raise
        if self._ended(hashed):
            self._known.pop(hashed, None)  # The one that was looked up longest ago is dropped first.
            self._known[hashed] = (now_ms + CACHE_MS, principal)
            if len(self._known) > CACHE_KEYS:
                self._known.popitem(last=False)
        return principal

    def _ended(self, hashed: str) -> bool:
        """End the running lookup; returns whether its result may be remembered."""
        valid = self._looking.get(hashed) is asyncio.current_task()
        if valid:
            del self._looking[hashed]
        return valid

    async def _judged(self, token: str, hashed: str, before: Principal | None) -> Principal:
        """Judge a token; `before` is its principal when it was last accepted: then all is read at once, in one round
        trip to a networked store. Raises Problem."""
        looked = await self._looked(hashed, before.tenant_id) if before and token.startswith(KEY_PREFIX) else None
        principal = await self._find(token, hashed, looked)
        await self.check_tenant(principal.tenant_id, looked)
        return principal

    async def _looked(self, hashed: str, tenant_id: str) -> _Looked:
        key, tenant, _ = await asyncio.gather(self._ledger.key(hashed), self._ledger.tenant(tenant_id),
                                              self.rows.look(tenant_id))
        return _Looked(key, tenant_id, tenant)

    def trust(self, issuers: Issuers | None) -> None:
        """Trust the tokens of other issuers from now on; accepted tokens are looked up again."""
        self._issuers = issuers
        self.forget()

    def logins(self) -> list[LoginIssuer]:
        """List the issuers at which a person can log in."""
        return self._issuers.logins() if self._issuers is not None else []

    def forget(self) -> None:
        """Drop the cache after a revocation."""
        self.look_again()
        self.on_revoked()

    def look_again(self) -> None:
        """Drop the cache after a revocation at another gateway."""
        self._known.clear()
        self._refused.clear()
        self._looking.clear()  # What was read before counts for those alone who wait for it already.
        self.on_forget()

    def _is_jwt(self, token: str) -> bool:
        return self._issuers is not None and token.count(".") == 2

    async def _find(self, token: str, hashed: str, looked: _Looked | None) -> Principal:
        if token.startswith(KEY_PREFIX):
            return await self._key(hashed, looked)
        if token.startswith(RUNNER_PREFIX):
            return await self._runner(hashed)
        if token.startswith(BROWSER_PREFIX):
            return await self._browser(token)
        if self._issuers is not None and self._is_jwt(token):
            return await self._issuers.principal(token)
        raise Problem("Unauthorized", "This is not a credential of Interlock.")

    async def good_key(self, key_sha256: str) -> KeyRecord | None:
        """Return a key that is accepted now, by the hash of its secret; None if it is not."""
        record = await self._ledger.key(key_sha256)
        if record is not None:
            record = await self.rows.genuine(record.tenant_id, record, lambda: self._ledger.key(key_sha256))
        return record if record is not None and self._is_good(record, key_sha256) else None

    async def state_of(self, tenant_id: str, key_id: str) -> CredentialState:
        """Return whether work that a credential has begun may continue, by the `key_id` of its principal: `suspended`
        while its tenant is, `ended` when its key is revoked or has expired. An issuer's token and an empty `key_id`
        have no row: only their tenant is looked up."""
        try:
            await self.check_tenant(tenant_id)
        except Problem:
            return "suspended"
        if not key_id or key_id.startswith(ISSUED_PREFIX):
            return "valid"
        record = await self._ledger.key_by_id(key_id)
        if record is not None:
            record = await self.rows.genuine(record.tenant_id, record, lambda: self._ledger.key_by_id(key_id))
        return "valid" if record is not None and self._is_good(record, record.key_sha256) else "ended"

    async def principal_of(self, key: KeyRecord, role: str) -> Principal | None:
        """Return the principal of a good key with what both its roles and `role` allow; None if that is nothing, or its
        tenant is suspended."""
        roles = lesser_roles(named_roles(role), named_roles(key.role))
        try:
            await self.check_tenant(key.tenant_id)
        except Problem:
            return None
        return _principal(key, written_roles(roles)) if roles else None

    async def _browser(self, token: str) -> Principal:
        """Return the principal of a browser's credential. Both halves are compared in constant time, and the key behind
        them is looked up each time."""
        session, _, halves = token.removeprefix(BROWSER_PREFIX).partition(".")
        cookie, _, half = halves.partition(".")
        login_id = BROWSER_ID_PREFIX + session
        record = await self._ledger.browser_login(login_id)
        if record is not None:
            record = await self.rows.genuine(record.tenant_id, record, lambda: self._ledger.browser_login(login_id))
        now = self._clock.now_ms()
        if record is None or record.id != login_id or record.form != "session":
            raise _unknown()
        has_cookie = hmac.compare_digest(record.cookie_sha256, digest(cookie))
        has_half = hmac.compare_digest(record.half_sha256, digest(half))
        if not (has_cookie and has_half and is_live(record, now)):
            raise _unknown()
        key = await self.good_key(record.key_sha256)
        if key is None or key.key_id != record.key_id or key.tenant_id != record.tenant_id:
            raise _unknown()
        principal = await self.principal_of(key, record.role)
        if principal is None:
            raise _unknown()
        return principal

    def _is_good(self, record: KeyRecord, key_sha256: str) -> bool:
        """Return whether a row is that of an accepted key. The digest in the row itself counts, and not the one in the
        column that it is found by."""
        return record.key_sha256 == key_sha256 and not record.revoked and (
            record.expires_ms is None or record.expires_ms > self._clock.now_ms())

    async def _key(self, hashed: str, looked: _Looked | None) -> Principal:
        record = looked.key if looked is not None else await self._ledger.key(hashed)
        if record is not None:
            record = await self.rows.genuine(record.tenant_id, record, lambda: self._ledger.key(hashed),
                                             looked=looked is not None and looked.tenant_id == record.tenant_id)
        now = self._clock.now_ms()
        if record is None or not self._is_good(record, hashed):
            raise _unknown()
        if record.last_used_ms is None or abs(now - record.last_used_ms) >= USED_INTERVAL_MS:
            # A failing write (a full disk) must not lock out the person who would fix it.
            with contextlib.suppress(LedgerError):
                await self._ledger.commit(WriteBatch([Note(KEYS, record.tenant_id, record.key_id, now)]))
        return _principal(record, record.role)

    async def _runner(self, hashed: str) -> Principal:
        record = await self._ledger.runner_by_token(hashed)
        if record is not None:
            record = await self.rows.genuine(record.tenant_id, record, lambda: self._ledger.runner_by_token(hashed))
        if record is None or record.token_sha256 != hashed or record.revoked:
            raise _unknown()
        return Principal(tenant_id=record.tenant_id, actor=Actor(type="agent", id=record.runner_id), role="runner",
                         key_id=record.runner_id)

    async def check_tenant(self, tenant_id: str, looked: _Looked | None = None) -> None:
        """Check that a tenant's credentials are accepted. Raises Problem: Unauthorized for a suspended tenant, others
        for one that is not here."""
        known = looked is not None and looked.tenant_id == tenant_id
        tenant = looked.tenant if looked is not None and known else await self._ledger.tenant(tenant_id)
        if tenant is not None and tenant.moving is not None and (closed := refusal(tenant)) is not None:
            raise closed  # Whether its row is on record is not checked before it is open.
        if tenant is None:
            if await self.rows.is_missing(f"tenant/{tenant_id}"):
                raise _unknown()
            return
        genuine = await self.rows.genuine(OWNER_TENANT, tenant, lambda: self._ledger.tenant(tenant_id), looked=known)
        if genuine is not None and genuine.tenant_id == tenant_id and (closed := refusal(genuine)) is not None:
            raise closed
        if genuine is None or genuine.tenant_id != tenant_id or genuine.suspended:
            raise _unknown()


def is_live(record: BrowserLoginRecord, now_ms: int) -> bool:
    """Return whether a browser session has neither ended nor been idle for too long."""
    return now_ms < record.expires_ms and now_ms - record.last_used_ms < BROWSER_IDLE_MS


def _retrieve_error(lookup: asyncio.Task[Principal]) -> None:
    """Mark the error of a lookup as retrieved: every request that waited for it may have been cancelled."""
    if not lookup.cancelled():
        lookup.exception()


def _principal(record: KeyRecord, role: str) -> Principal:
    return Principal(tenant_id=record.tenant_id, actor=record.principal, role=role, key_id=record.key_id,
                     driver=record.driver, key_makers=tuple(record.makers))


def _unknown() -> Problem:
    """Return the same error for every fault of a key: strangers learn nothing of earlier keys."""
    return Problem("Unauthorized", "This credential is not known here, or no longer accepted.")
