"""Reads of access entities: keys, runners, rules, usage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from interlock.ports.entities import (
    BROWSER_LOGINS,
    DELIVERIES,
    DRAINS,
    KEYS,
    PAIRINGS,
    RULES,
    RUNNERS,
    SIGNING_KEYS,
    SPENDING,
    TENANTS,
    Entities,
    RowCondition,
    equal,
    equal_if_set,
)
from interlock.ports.usage import UsageQuery, UsageSums
from interlock.protocol.records import (
    BrowserLoginRecord,
    DeliveryRecord,
    DrainRecord,
    KeyRecord,
    PairingRecord,
    RuleRecord,
    RunnerRecord,
    SigningKeyRecord,
    SpendingRecord,
    TenantRecord,
)


class AccessReads(Entities, Protocol):
    """Named reads of entities, the same query on every store. With `tenant_id`, rows of other tenants are excluded by
    the query itself (K-1)."""

    async def runner(self, runner_id: str, tenant_id: str) -> RunnerRecord | None:
        """Return a tenant's runner."""
        return await self.one(RUNNERS, equal("runner_id", runner_id), equal("tenant_id", tenant_id))

    async def runner_by_token(self, token_sha256: str) -> RunnerRecord | None:
        """Return the runner that has a token."""
        return await self.one(RUNNERS, equal("token_sha256", token_sha256))

    async def runners(self, tenant_id: str) -> list[RunnerRecord]:
        """Return a tenant's runners, oldest first."""
        return await self.rows(RUNNERS, equal("tenant_id", tenant_id))

    async def runners_named(self, runner_ids: Sequence[str], tenant_ids: Sequence[str]) -> list[RunnerRecord]:
        """Return the runners with these ids that exist and belong to these tenants, in no particular order."""
        where = (RowCondition("tenant_id", "in", tenant_ids), RowCondition("runner_id", "in", runner_ids))
        return await self.select(RUNNERS, where, (), None)

    async def pairing(self, code_sha256: str) -> PairingRecord | None:
        """Return a pairing code."""
        return await self.one(PAIRINGS, equal("code_sha256", code_sha256))

    async def pairings(self, tenant_id: str, now_ms: int) -> int:
        """Return how many codes of a tenant are good at `now_ms`."""
        return await self.count(PAIRINGS, equal("tenant_id", tenant_id), RowCondition("expires_ms", ">", now_ms))

    async def browser_login(self, login_id: str) -> BrowserLoginRecord | None:
        """Return a browser session or code."""
        return await self.one(BROWSER_LOGINS, equal("id", login_id))

    async def browser_logins(self, tenant_id: str) -> list[BrowserLoginRecord]:
        """Return a tenant's browser sessions and codes, by their ids."""
        return await self.rows(BROWSER_LOGINS, equal("tenant_id", tenant_id))

    async def key(self, key_sha256: str) -> KeyRecord | None:
        """Return the key that has a secret."""
        return await self.one(KEYS, equal("key_sha256", key_sha256))

    async def key_by_id(self, key_id: str, tenant_id: str | None = None) -> KeyRecord | None:
        """Return a key."""
        return await self.one(KEYS, equal("key_id", key_id), *equal_if_set("tenant_id", tenant_id))

    async def keys(self, tenant_id: str) -> list[KeyRecord]:
        """Return all keys of a tenant, including revoked ones, by id."""
        return await self.rows(KEYS, equal("tenant_id", tenant_id))

    async def tenant(self, tenant_id: str) -> TenantRecord | None:
        """Return a tenant."""
        return await self.one(TENANTS, equal("tenant_id", tenant_id))

    async def tenants(self) -> list[TenantRecord]:
        """Return all tenants, by their id."""
        return await self.rows(TENANTS)

    async def rule(self, rule_id: str, tenant_id: str) -> RuleRecord | None:
        """Return a remembered rule of a tenant."""
        return await self.one(RULES, equal("id", rule_id), equal("tenant_id", tenant_id))

    async def rules(self, tenant_id: str | None = None, *, revoked: bool = False) -> list[RuleRecord]:
        """Return the remembered rules of a tenant, or of all tenants, oldest first; with `revoked` including the
        revoked ones."""
        return await self.rows(RULES, *equal_if_set("tenant_id", tenant_id),
                               *equal_if_set("revoked", None if revoked else False))

    async def signing_key(self, key_id: str, tenant_id: str | None = None) -> SigningKeyRecord | None:
        """Return a key for signed votes."""
        return await self.one(SIGNING_KEYS, equal("key_id", key_id), *equal_if_set("tenant_id", tenant_id))

    async def signing_keys(self, tenant_id: str) -> list[SigningKeyRecord]:
        """Return a tenant's keys for signed votes, oldest first, including revoked ones."""
        return await self.rows(SIGNING_KEYS, equal("tenant_id", tenant_id))

    async def drains(self) -> list[DrainRecord]:
        """Return all drains that are in force, oldest first."""
        return await self.rows(DRAINS)

    async def delivery(self, delivery_id: str, tenant_id: str) -> DeliveryRecord | None:
        """Return a question to a tenant's approvers."""
        return await self.one(DELIVERIES, equal("id", delivery_id), equal("tenant_id", tenant_id))

    async def deliveries(self, tenant_id: str, state: str | None, limit: int) -> list[DeliveryRecord]:
        """Return a tenant's questions to approvers, newest first."""
        where = (equal("tenant_id", tenant_id), *equal_if_set("state", state))
        return await self.select(DELIVERIES, where, ("-place",), limit)

    async def deliveries_due(self, now_ms: int, limit: int) -> list[DeliveryRecord]:
        """Return the deliveries of approval notices that are due at `now_ms`, the longest waiting first (P-8)."""
        return await self.select(DELIVERIES, (RowCondition("due_ms", "<=", now_ms),), ("due_ms", "place"), limit)

    async def next_delivery_ms(self) -> int | None:
        """Return when the next delivery is due; None if none is."""
        found = await self.select(DELIVERIES, (RowCondition("due_ms", "<=", 2**62),), ("due_ms", "place"), 1)
        return found[0].due_ms if found else None

    async def spending(self, day: int) -> list[SpendingRecord]:
        """Return every pot of a day."""
        return await self.rows(SPENDING, equal("day", day))

    async def usage(self, query: UsageQuery) -> UsageSums:
        """Return the sums of the usage that agents reported (J-13)."""
        ...
