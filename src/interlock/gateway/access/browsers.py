"""Browser sessions: a login in two halves, opened with a one-time code or a key (J-10, J-15).

A cookie is sent to every port of its host, where agents run servers of their own, so it does not suffice: the other
half of the login is a header that only the page which opened the session can send.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hmac
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple

from interlock.command.audit.register import bound, ended, row_of
from interlock.gateway.access.credentials import (
    BROWSER_ID_PREFIX,
    BROWSER_PREFIX,
    KEY_PREFIX,
    Credentials,
    digest,
    is_live,
)
from interlock.gateway.access.rates import Rates
from interlock.ports.clock import Clock, Entropy
from interlock.ports.entities import BROWSER_LOGINS
from interlock.ports.ledger import (
    AuditAppend,
    Expire,
    Ledger,
    LedgerError,
    LedgerWrite,
    Note,
    Put,
    PutIdempotency,
    Redeem,
    Spent,
    WriteBatch,
)
from interlock.protocol.access import (
    BROWSER_CODE_LIFE_MS,
    BROWSER_LIFE_MS,
    GIVEN_ROLES,
    MAX_BROWSER_CODES,
    MAX_BROWSER_SESSIONS,
    MAX_KEY_BROWSER_SESSIONS,
    BrowserCode,
    is_current,
    lesser_roles,
    named_roles,
    written_roles,
)
from interlock.protocol.clock import iso
from interlock.protocol.identifiers import crockford, read_crockford, ulid
from interlock.protocol.problems import Place, Problem
from interlock.protocol.records import AuditDraft, BrowserLoginRecord, IdempotencyRecord, KeyRecord, Principal

HALF_BYTES = 32
CODE_CHARS = 16
"""80 bits."""
USED_INTERVAL_MS = 60_000
"""When a session was last used is written this often at most."""
NOTED_SESSIONS = 4_096
"""Sessions whose last recorded use this gateway caches."""
SUSPECTS_AT_ONCE = 4
"""Maximum number of parallel look-ups of logins from addresses above `refused_a_minute`."""

Remember = Callable[[Any], IdempotencyRecord]


class NewBrowserSession(NamedTuple):
    """A session with its secrets, which are not stored."""

    record: BrowserLoginRecord
    principal: Principal
    cookie: str
    half: str


class BrowserSessions:
    """The browser sessions of all tenants. Everything returned is durable and audited; refusals are `Problem`s."""

    def __init__(self, ledger: Ledger, clock: Clock, entropy: Entropy, credentials: Credentials, rates: Rates) -> None:
        self._ledger = ledger
        self._clock = clock
        self._entropy = entropy
        self._credentials = credentials
        self._rates = rates
        self._suspect_slots = asyncio.Semaphore(SUSPECTS_AT_ONCE)
        self._opening = asyncio.Lock()
        """Counting the open ones and adding one is atomic, or the limits would not hold."""
        self._noted: OrderedDict[str, int] = OrderedDict()

    async def offer(self, principal: Principal, token: str, roles: list[str] | None, remember: Remember) -> BrowserCode:
        """Create a one-time code for a session that acts as `principal`, whose credential `token` is, with at most
        `roles`. Raises Problem InvalidPayload, Forbidden, UnsupportedCapability or QuotaExceeded."""
        role = _given(principal, roles)
        key, ends_ms = await self._key_behind(token)
        now = self._clock.now_ms()
        code = crockford(self._entropy(CODE_CHARS), CODE_CHARS)
        record = BrowserLoginRecord(
            id=digest(code), form="code", tenant_id=principal.tenant_id, principal=principal.actor, role=role,
            key_id=key.key_id, key_sha256=key.key_sha256, created_ms=now, expires_ms=now + BROWSER_CODE_LIFE_MS,
            ends_ms=ends_ms,
        )
        shown = BrowserCode(code="-".join(code[n : n + 4] for n in range(0, CODE_CHARS, 4)),
                            expires_at=iso(record.expires_ms), roles=sorted(named_roles(role)))
        meta = {"step": "code", "key_id": key.key_id, "role": role, **bound(record)}
        async with self._opening:
            known = await self._ledger.browser_logins(principal.tenant_id)
            if sum(_is_current_code(one, now) for one in known) >= MAX_BROWSER_CODES:
                raise Problem("QuotaExceeded", f"{MAX_BROWSER_CODES} login codes are waiting to be used already.",
                              hint="Use one, or wait until the oldest is over: 5 minutes at most.")
            await self._ledger.commit(WriteBatch([
                Expire(BROWSER_LOGINS, now), Put(record), AuditAppend(self._draft(principal, "login", meta)),
                PutIdempotency(remember(shown))]))
        return shown

    async def open_with_code(self, code: str, source: str, cookie: str, label: str, personal: Mapping[str, str]
                             ) -> NewBrowserSession:
        """Open a session with a one-time code. `cookie` is the browser's existing one, if any. Raises Problem
        Unauthorized, RateLimited or QuotaExceeded."""
        login_id = digest(read_crockford(code))
        async with self._looking(source):
            record = await self._ledger.browser_login(login_id)
            if record is not None:
                record = await self._credentials.rows.genuine(
                    record.tenant_id, record, lambda: self._ledger.browser_login(login_id))
            key = await self._key_of(record) if record is not None else None
            now = self._clock.now_ms()
            if record is None or key is None or not _is_current_code(record, now):
                raise self._wrong(source)
            principal = await self._principal(key, record.role, source)
        spend: list[LedgerWrite] = [Redeem(BROWSER_LOGINS, record.tenant_id, record.id, now)]
        try:
            return await self._open(principal, key, cookie, label, personal, record.ends_ms, spend)
        except Spent:
            raise self._wrong(source) from None

    async def open_with_key(self, key: str, source: str, cookie: str, label: str, personal: Mapping[str, str]
                            ) -> NewBrowserSession:
        """Open a session with an API key. Raises Problem Unauthorized, RateLimited or QuotaExceeded."""
        async with self._looking(source):
            record = await self._ledger.key(digest(key)) if key.startswith(KEY_PREFIX) and key.isascii() else None
            if record is None:
                raise self._wrong(source)
            try:
                principal = await self._credentials.principal(key)
            except Problem as problem:
                raise self._wrong(source) if problem.code == "Unauthorized" else problem from None
        return await self._open(principal, record, cookie, label, personal, None, [])

    async def list(self, principal: Principal) -> list[BrowserLoginRecord]:
        """Return the open sessions, newest first: the caller's own, and for an admin the tenant's."""
        found = await self._sessions(principal.tenant_id)
        if principal.roles.isdisjoint({"admin", "owner"}):
            found = [one for one in found if one.principal == principal.actor]
        return found[::-1]

    async def end(self, principal: Principal, login_id: str, remember: Callable[[BrowserLoginRecord], IdempotencyRecord]
                  ) -> BrowserLoginRecord:
        """End a session: the caller's own, or for an admin one of the tenant. Raises Problem NotFound or Forbidden."""
        found = next((one for one in await self.list(principal) if one.id == login_id), None)
        if found is None:
            raise Problem("NotFound", f"There is no browser session {login_id}.",
                          hint="List them with `GET /v1/browser-sessions`.")
        if found.principal != principal.actor and "owner" in named_roles(found.role) and (
                "owner" not in principal.roles):
            raise Problem("Forbidden", "An owner's browser session is ended by an owner alone.")
        with contextlib.suppress(Spent):  # It was ended elsewhere meanwhile.
            await self._ledger.commit(WriteBatch([*self._ending(found, principal, "ended"),
                                                  PutIdempotency(remember(found))]))
        self._credentials.forget()
        return found

    async def note_use(self, tenant_id: str, token: str) -> None:
        """Record that a session was used, once in USED_INTERVAL_MS."""
        login_id, now = id_of(token), self._clock.now_ms()
        if abs(now - self._noted.get(login_id, 0)) < USED_INTERVAL_MS:
            return
        self._noted.pop(login_id, None)
        self._noted[login_id] = now
        if len(self._noted) > NOTED_SESSIONS:
            self._noted.popitem(last=False)
        # A failing write (a full disk) must not lock out the person who would fix it.
        with contextlib.suppress(LedgerError):
            await self._ledger.commit(WriteBatch([Note(BROWSER_LOGINS, tenant_id, login_id, now)]))

    async def _open(self, principal: Principal, key: KeyRecord, cookie: str, label: str, personal: Mapping[str, str],
                    ends_ms: int | None, spend: list[LedgerWrite]) -> NewBrowserSession:
        now = self._clock.now_ms()
        half = _secret(self._entropy)
        async with self._opening:
            known = await self._sessions(principal.tenant_id)
            own = sorted((one for one in known if one.key_id == key.key_id), key=lambda one: one.last_used_ms)
            if len(known) >= MAX_BROWSER_SESSIONS:
                raise Problem("QuotaExceeded", f"{MAX_BROWSER_SESSIONS} browser sessions are open already.",
                              hint="End those that are not needed: `interlock console list`.")
            # Tabs share a cookie, so a second tab keeps the first one logged in. Only a cookie of the same key is
            # accepted: a page of another port can set a cookie, and must not choose the half of another person's
            # session.
            shared = bool(cookie) and any(hmac.compare_digest(one.cookie_sha256, digest(cookie)) for one in own)
            cookie = cookie if shared else _secret(self._entropy)
            record = BrowserLoginRecord(
                id=BROWSER_ID_PREFIX + ulid(now, self._entropy(10)), form="session", tenant_id=principal.tenant_id,
                principal=principal.actor, role=principal.role, key_id=key.key_id, key_sha256=key.key_sha256,
                created_ms=now, last_used_ms=now, cookie_sha256=digest(cookie), half_sha256=digest(half), label=label,
                expires_ms=min(one for one in (now + BROWSER_LIFE_MS, ends_ms, key.expires_ms) if one is not None),
            )
            meta = {"step": "opened", "browser_session": record.id, "key_id": key.key_id, "role": principal.role,
                    "by": "code" if spend else "key", **bound(record)}
            await self._ledger.commit(WriteBatch([*spend, Expire(BROWSER_LOGINS, now), Put(record),
                                                  AuditAppend(self._draft(principal, "login", meta, personal))]))
            for one in own[: max(0, len(own) + 1 - MAX_KEY_BROWSER_SESSIONS)]:
                with contextlib.suppress(Spent):
                    await self._ledger.commit(WriteBatch(self._ending(one, principal, "displaced")))
                self._credentials.forget()
        return NewBrowserSession(record, principal, cookie, f"{record.id.removeprefix(BROWSER_ID_PREFIX)}.{half}")

    def _ending(self, record: BrowserLoginRecord, principal: Principal, step: str) -> list[LedgerWrite]:
        meta = {"step": step, "browser_session": record.id, "key_id": record.key_id, **ended(row_of(record))}
        return [Redeem(BROWSER_LOGINS, record.tenant_id, record.id, self._clock.now_ms()),
                AuditAppend(self._draft(principal, "logout", meta))]

    async def _sessions(self, tenant_id: str) -> list[BrowserLoginRecord]:
        """Return the open sessions of a tenant; those that are idle for too long, or whose key is gone, have ended."""
        now = self._clock.now_ms()
        good = {key.key_sha256 for key in await self._ledger.keys(tenant_id)
                if not key.revoked and (key.expires_ms is None or key.expires_ms > now)}
        return [one for one in await self._ledger.browser_logins(tenant_id)
                if one.form == "session" and one.key_sha256 in good and is_live(one, now)]

    async def _key_behind(self, token: str) -> tuple[KeyRecord, int | None]:
        """Return the key behind a credential, and the latest end of what it opens."""
        if token.startswith(BROWSER_PREFIX):
            session = await self._ledger.browser_login(id_of(token))
            key = await self._ledger.key(session.key_sha256) if session is not None else None
            if session is not None and key is not None:
                return key, session.expires_ms
        elif token.startswith(KEY_PREFIX) and (key := await self._ledger.key(digest(token))) is not None:
            return key, None
        raise Problem("UnsupportedCapability", "Only an API key can open browser sessions: they end with it, and the "
                      "token of an issuer cannot be revoked here.", hint="Make a key with `interlock keys create`.")

    async def _key_of(self, record: BrowserLoginRecord) -> KeyRecord | None:
        """Return the key that created a code, if it is still valid."""
        key = await self._credentials.good_key(record.key_sha256)
        return key if key is not None and key.key_id == record.key_id and key.tenant_id == record.tenant_id else None

    async def _principal(self, key: KeyRecord, role: str, source: str) -> Principal:
        """Return the principal of a key with at most `role`. Raises Problem Unauthorized."""
        principal = await self._credentials.principal_of(key, role)
        if principal is None:
            raise self._wrong(source)
        return principal

    def _looking(self, source: str) -> AbstractAsyncContextManager[Any]:
        """Limit look-ups of logins: those of an address that sends many bad ones run a few at a time, and a good one is
        accepted."""
        return self._suspect_slots if self._rates.is_refusing(source) else contextlib.nullcontext()

    def _wrong(self, source: str) -> Problem:
        """Return the same error for every fault. Raises Problem RateLimited instead after too many of them."""
        self._rates.refused(source)
        return Problem("Unauthorized", "This code or key is not known, was used, or is no longer good.",
                       hint="Get another code with `interlock console`.")

    def _draft(self, principal: Principal, action: str, meta: dict[str, Any], personal: Mapping[str, str] | None = None
               ) -> AuditDraft:
        return AuditDraft(tenant_id=principal.tenant_id, at=iso(self._clock.now_ms()), who=principal.who,
                          action=action, meta=meta, personal=dict(personal or {}))


def token_of(half: str, cookie: str) -> str:
    """Join the two halves to one credential, which is looked up, held and forwarded like any other. Raises Problem
    Unauthorized for a malformed half."""
    session, dot, secret = half.partition(".")
    if not dot or not session.isalnum() or not secret or "." in cookie:
        raise Problem("Unauthorized", "The header Interlock-Browser is invalid.")
    return f"{BROWSER_PREFIX}{session}.{cookie}.{secret}"


def id_of(token: str) -> str:
    """Return the session id of a browser's credential; "" for any other credential."""
    if not token.startswith(BROWSER_PREFIX):
        return ""
    return BROWSER_ID_PREFIX + token.removeprefix(BROWSER_PREFIX).partition(".")[0]


def _is_current_code(record: BrowserLoginRecord, now_ms: int) -> bool:
    return record.form == "code" and is_current(record.created_ms, record.expires_ms, now_ms)


def _given(principal: Principal, roles: list[str] | None) -> str:
    """Return the roles of a code. Raises Problem InvalidPayload or Forbidden."""
    if roles is None:
        return principal.role
    unknown = sorted(set(roles) - set(GIVEN_ROLES))
    if unknown:
        raise Problem("InvalidPayload", f"There is no role {unknown[0]!r}; known: {', '.join(GIVEN_ROLES)}.",
                      errors=(Place("/roles", "not a known role"),))
    if not set(roles) <= lesser_roles(roles, principal.roles):
        raise Problem("Forbidden", f"A code allows at most what you may do yourself: {principal.role}.")
    return written_roles(roles)


def _secret(entropy: Entropy) -> str:
    return base64.urlsafe_b64encode(entropy(HALF_BYTES)).rstrip(b"=").decode()
