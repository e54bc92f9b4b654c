"""Creation, rotation and revocation of API keys, each with its audit record (K-1)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from interlock.command.approval import named
from interlock.command.audit.register import bound
from interlock.engine.lanes.tenant_place import refusal
from interlock.gateway.access.credentials import OWNER_TENANT, Credentials, digest, new_key, owns_all
from interlock.gateway.access.exclusive_changes import ExclusiveChanges, Lanes
from interlock.ports.clock import Clock, Entropy
from interlock.ports.ledger import AuditAppend, Ledger, Put, PutIdempotency, WriteBatch
from interlock.protocol.access import (
    GIVEN_ROLES,
    MAX_KEYS,
    MAX_MAKERS,
    PERSON_ID,
    KeyBody,
    MadeKey,
    named_roles,
    written_roles,
)
from interlock.protocol.api.operation import ADMINS
from interlock.protocol.clock import iso
from interlock.protocol.identifiers import ulid
from interlock.protocol.problems import Place, Problem, malformed
from interlock.protocol.records import AuditDraft, IdempotencyRecord, KeyRecord, Principal
from interlock.protocol.resources import Actor

DRIVER_CHARS = 512
"""A person of an issuer has its name, a colon, and a subject of up to 255 characters."""

Remember = Callable[[Any], IdempotencyRecord]


class KeyStore:
    """The keys of all tenants. Everything returned is durable and audited; refusals are `Problem`s."""

    def __init__(self, ledger: Ledger, clock: Clock, entropy: Entropy, credentials: Credentials) -> None:
        self._ledger = ledger
        self._clock = clock
        self._entropy = entropy
        self._credentials = credentials
        self._counting = asyncio.Lock()
        """Counting a tenant's keys and adding one is atomic, or the limit would not hold."""
        self._changes = ExclusiveChanges(ledger, "keys")

    async def list(self, principal: Principal, tenant_id: str | None) -> list[KeyRecord]:
        """Return all keys of a tenant, by age; for others than admins their own, and those of the agents that they
        drive. Raises Problem."""
        keys = await self._ledger.keys(self._tenant(principal, tenant_id))
        return keys if _is_admin(principal) else [record for record in keys if _is_own(record, principal)]

    async def make(self, principal: Principal, body: KeyBody, remember: Remember) -> MadeKey:
        """Create a key. Raises Problem InvalidPayload, Forbidden, NotFound or QuotaExceeded."""
        tenant_id = self._tenant(principal, body.tenant_id)
        roles = self._roles(principal, body.roles, tenant_id)
        if PERSON_ID.fullmatch(body.principal.id) is None:
            raise Problem("InvalidPayload", "The id of a key's owner has letters, digits and . _ @ - alone.",
                          errors=(Place("/principal/id", "invalid"),))
        async with self._counting:
            known, tenant = await asyncio.gather(self._ledger.keys(tenant_id), self._ledger.tenant(tenant_id))
            if not known and tenant is None:
                raise Problem("NotFound", f"There is no tenant {tenant_id}.", hint="See `interlock tenants`.")
            if tenant is not None and (closed := refusal(tenant)) is not None:
                raise closed
            if sum(not one.revoked for one in known) >= MAX_KEYS:
                raise Problem("QuotaExceeded", f"The tenant has {MAX_KEYS} keys that are not revoked already.",
                              hint="Revoke those that no one uses: `interlock keys` shows when each was last used.")
            now = self._clock.now_ms()
            secret = new_key(self._entropy)
            record = KeyRecord(
                key_sha256=digest(secret), key_id="key_" + ulid(now, self._entropy(10)), tenant_id=tenant_id,
                principal=body.principal, driver=_driver(principal, body, tenant_id), role=roles, created_ms=now,
                label=body.label.strip(), origin="made",
                expires_ms=now + body.ttl_ms if body.ttl_ms is not None else None, makers=_makers(principal),
            )
            made = _shown_once(record, secret)
            await self._commit(record, self._draft(record, principal, "key_rotate", "made"), remember(made))
        return made

    async def rotate(self, principal: Principal, key_id: str, remember: Remember) -> MadeKey:
        """Replace a key's secret; the old one is refused at once. Raises Problem."""
        made = await self._changes.make(lambda lanes: self._rotate(principal, key_id, remember, lanes))
        self._credentials.forget()
        return made

    async def _rotate(self, principal: Principal, key_id: str, remember: Remember, lanes: Lanes) -> MadeKey:
        record = await self._genuine(await self._find(principal, key_id))
        if record.revoked:
            raise Problem("Conflict", f"The key {key_id} is revoked.", hint="Make another: `interlock keys create`.")
        if record.origin == "file":
            raise Problem("Conflict", f"The key {key_id} is the one in this gateway's state directory.",
                          hint="End the gateway, remove owner.key there, and start it again: it makes another.")
        secret = new_key(self._entropy)
        changed = msgspec.structs.replace(record, key_sha256=digest(secret), makers=_makers(principal))
        made = _shown_once(changed, secret)
        await self._commit(changed, self._draft(changed, principal, "key_rotate", "rotated"), remember(made), lanes)
        return made

    async def revoke(self, principal: Principal, key_id: str, remember: Remember) -> KeyRecord:
        """Revoke a key permanently. A revoked one stays so. Raises Problem."""
        revoked = await self._changes.make(lambda lanes: self._revoke(principal, key_id, remember, lanes))
        self._credentials.forget()
        return revoked

    async def _revoke(self, principal: Principal, key_id: str, remember: Remember, lanes: Lanes) -> KeyRecord:
        record = await self._find(principal, key_id)
        if not _is_admin(principal) and not _is_own(record, principal):
            raise _no_key(key_id)
        revoked = msgspec.structs.replace(record, revoked=True)
        if record.revoked:
            await self._ledger.commit(WriteBatch([PutIdempotency(remember(revoked))]))
        else:
            await self._commit(revoked, self._draft(revoked, principal, "revoke", "key"), remember(revoked), lanes)
        return revoked

    async def _commit(self, record: KeyRecord, draft: AuditDraft, answer: IdempotencyRecord, lanes: Lanes = ()) -> None:
        await self._ledger.commit(WriteBatch([Put(record), AuditAppend(draft), PutIdempotency(answer)], lanes))

    async def _find(self, principal: Principal, key_id: str) -> KeyRecord:
        """Return a key of the principal's tenant, or any for an owner. Only an owner may change an owner's key: anyone
        who could rotate it would be the owner."""
        within = None if owns_all(principal) else principal.tenant_id
        record = await self._ledger.key_by_id(key_id, within)
        if record is None:
            raise _no_key(key_id)
        if "owner" in named_roles(record.role) and not owns_all(principal):
            raise Problem("Forbidden", "An owner's key is changed by an owner alone.")
        return record

    async def _genuine(self, record: KeyRecord) -> KeyRecord:
        """Check that a row was not edited: a new secret's record would otherwise vouch for the edit. Raises Problem."""
        found = await self._credentials.rows.genuine(
            record.tenant_id, record, lambda: self._ledger.key_by_id(record.key_id, record.tenant_id))
        if found is None:
            raise Problem("Conflict", f"The stored row of the key {record.key_id} is not the one in the audit record "
                          "of its last change, so the key is refused.", hint="Revoke it, and make another.")
        return found

    def _tenant(self, principal: Principal, named: str | None) -> str:
        if named is None or named == principal.tenant_id:
            return principal.tenant_id
        if not owns_all(principal):
            raise Problem("NotFound", f"There is no tenant {named}.")
        return named

    def _roles(self, principal: Principal, roles: list[str], tenant_id: str) -> str:
        unknown = sorted(set(roles) - set(GIVEN_ROLES))
        if unknown:
            raise Problem("InvalidPayload", f"There is no role {unknown[0]!r} for a key; known: "
                          f"{', '.join(GIVEN_ROLES)}.", errors=(Place("/roles", "not a known role"),),
                          hint="A runner's token comes by pairing: `interlock runners code`.")
        if "owner" in roles and tenant_id != OWNER_TENANT:
            raise Problem("InvalidPayload", f"Only keys of the tenant {OWNER_TENANT} can be an owner's.",
                          errors=(Place("/roles", "not for this tenant"),), hint="Give it the role admin.")
        if "owner" in roles and not owns_all(principal):
            raise Problem("Forbidden", "An owner's key is made by an owner alone.")
        return written_roles(roles)

    def _draft(self, record: KeyRecord, principal: Principal, action: str, step: str) -> AuditDraft:
        # Without the label: it is free text, and the log cannot forget (U-4).
        meta = {"step": step, "key_id": record.key_id, "role": record.role,
                "principal": named(record.principal), "makers": record.makers,
                **({"driver": named(record.driver)} if record.driver is not None else {}), **bound(record)}
        return AuditDraft(tenant_id=record.tenant_id, at=iso(self._clock.now_ms()), who=principal.who, action=action,
                          meta=meta)


def _is_admin(principal: Principal) -> bool:
    return not principal.roles.isdisjoint(ADMINS)


def _is_own(record: KeyRecord, principal: Principal) -> bool:
    """Return whether a key belongs to the caller, or to an agent that they drive."""
    return principal.tenant_id == record.tenant_id and principal.actor in (record.principal, record.driver)


def _no_key(key_id: str) -> Problem:
    return Problem("NotFound", f"There is no key {key_id}.", hint="List them with `GET /v1/keys`.")


def _driver(maker: Principal, body: KeyBody, tenant_id: str) -> Actor | None:
    """Return the person behind an agent's key: the named one, otherwise its creator. A person with several keys, or
    agents with keys, is one voter (P-3). Raises Problem."""
    if body.driver is not None:
        if body.principal.type != "agent":
            raise malformed("/driver", "a person drives an agent; this key is a person's")
        if not (0 < len(body.driver) <= DRIVER_CHARS and body.driver.isprintable()):
            raise malformed("/driver", f"is a person's id, of at most {DRIVER_CHARS} characters")
        return Actor(type="user", id=body.driver)
    if body.principal.type != "agent" or tenant_id != maker.tenant_id:
        return None
    return maker.driver or (maker.actor if maker.actor.type == "user" else None)


def _makers(principal: Principal) -> list[str]:
    """Return everyone who could have the secret of a key that a principal creates: the principal, and the creators of
    their key. Raises Problem."""
    makers = list(dict.fromkeys([named(principal.driver or principal.actor), *principal.key_makers]))
    if len(makers) > MAX_MAKERS:
        raise Problem("QuotaExceeded", f"A key has at most {MAX_MAKERS} people in the line of those who made it.",
                      hint="Ask a person whose own key was made by an owner to make it.")
    return makers


def _shown_once(record: KeyRecord, secret: str) -> MadeKey:
    return MadeKey(key=secret, key_id=record.key_id, tenant_id=record.tenant_id,
                   expires_at=iso(record.expires_ms) if record.expires_ms is not None else None)
