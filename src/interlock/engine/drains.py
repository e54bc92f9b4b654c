"""Drains: a gateway's tenant, a runner, an agent or a session starts no new work until it is undrained (C-5).

Running work continues to its end; new requests wait. A drain is a row of the ledger, so it outlives the gateway, and
one of a tenant's concerns that tenant only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

from interlock.command.audit.register import bound, drain_row, ended
from interlock.engine.bridge.lane_state import LaneState
from interlock.engine.lanes.rows import LOOKS, RowAudit
from interlock.ports.clock import Clock
from interlock.ports.entities import DRAINS
from interlock.ports.ledger import AuditAppend, Drop, Ledger, Put, PutIdempotency, WriteBatch
from interlock.ports.signals import Signal
from interlock.protocol.clock import iso
from interlock.protocol.drains import Drain, DrainBody, DrainScope
from interlock.protocol.problems import Problem, malformed
from interlock.protocol.records import AuditDraft, DrainRecord, IdempotencyRecord, Principal
from interlock.session.keys import BadKey, canonical_agent

Key = tuple[str, str, str]
"""Tenant, scope, name."""
REMOVED = "its row was removed from the database; the audit log has it in force"
MAX_DRAINS = 1_000
"""Maximum number of drains of one tenant at one time; every start is matched against them."""


Permit = Callable[[Principal, str, DrainBody], Awaitable[None]]


async def _permitted(_principal: Principal, _verb: str, _body: DrainBody) -> None:
    """Permit everything."""


class Drains:
    """The drains in force, as stored in the ledger. `learn` must be called first."""

    def __init__(self, ledger: Ledger, clock: Clock, rows: RowAudit, permit: Permit = _permitted, *,
                 shared: bool = False) -> None:
        """Create the store; `rows` returns which drains the audit log has in force: one whose row was removed is kept
        (H-5). `permit` asks policy, and raises Problem if that holds it. With `shared` other gateways also change
        drains."""
        self._ledger = ledger
        self._rows = rows
        self._clock = clock
        self._changing = asyncio.Lock()
        self.in_force: dict[Key, Drain] = {}
        """By tenant, scope and name; empty at nearly all times."""
        self.on_undrained = Signal[[]]()
        """Sent when work may start again."""
        self._permit = permit
        self.on_changed = Signal[[]]()
        """Sent when other gateways should read the drains again."""
        self._shared = shared

    async def learn(self) -> None:
        """Read the drains from the ledger: at the start, and after another gateway changed them."""
        before = self.in_force
        found, missing = await self._read()
        for _ in range(LOOKS - 1):  # A drain that begins or ends between the two reads is not missed.
            if not missing:
                break
            found, missing = await self._read()
        for tenant_id, scope, name in sorted(missing):
            await self._rows.drain_is_missing(tenant_id, scope, name)
            found[tenant_id, scope, name] = Drain(scope=cast("DrainScope", scope), id=name or None,
                                                  at=iso(self._clock.now_ms()), by="gateway", reason=REMOVED)
        self.in_force = found
        if before.keys() - found.keys():
            self.on_undrained()

    async def _read(self) -> tuple[dict[Key, Drain], set[Key]]:
        """Read the drains of the ledger, then those that are in force by the log and missing in the ledger."""
        found = {(record.tenant_id, record.drain.scope, record.drain.id or ""): record.drain
                 for record in await self._ledger.drains()}
        return found, await self._rows.drains() - found.keys()

    def covers(self, state: LaneState) -> bool:
        """Return whether a session must not start anything now."""
        return any(
            (state.tenant_id, *place) in self.in_force
            for place in (("gateway", ""), ("runner", state.runner_id), ("agent", state.agent_id),
                          ("session", state.session_id)))

    def of(self, tenant_id: str) -> list[Drain]:
        """Return a tenant's drains, oldest first."""
        return [drain for key, drain in self.in_force.items() if key[0] == tenant_id]

    async def drain(self, principal: Principal, body: DrainBody, keep: Callable[[Any], IdempotencyRecord]) -> None:
        """Start a drain; one that is in force already stays as it is. `keep` makes the response's row from the tenant's
        drains (M-2). Raises Problem."""
        async with self._changing:
            if self._shared:
                await self.learn()
            name = await self._named(principal, body)
            await self._permit(principal, "drain", body)
            key = (principal.tenant_id, body.scope, name)
            begun = self.in_force.get(key)
            changes: list[Any] = []
            if begun is None:
                if len(self.of(principal.tenant_id)) >= MAX_DRAINS:
                    raise Problem("QuotaExceeded", f"{MAX_DRAINS} drains are in force already.")
                begun = Drain(scope=body.scope, id=name or None, at=iso(self._clock.now_ms()),
                              by=principal.who["id"], reason=body.reason)
                record = DrainRecord(tenant_id=principal.tenant_id, drain=begun)
                changes = [Put(record), self._audit(principal, "drain", body, name, bound(record))]
            after = {**self.in_force, key: begun}
            await self._commit(changes, keep, principal, after)

    async def undrain(self, principal: Principal, body: DrainBody, keep: Callable[[Any], IdempotencyRecord]) -> None:
        """End a drain. Raises Problem NotFound if it is not in force."""
        async with self._changing:
            if self._shared:
                await self.learn()
            name = await self._named(principal, body)
            key = (principal.tenant_id, body.scope, name)
            if key not in self.in_force:
                raise Problem("NotFound", f"The {body.scope}{' ' + name if name else ''} is not drained.",
                              hint="`GET /v1/status` lists the drains in force.")
            await self._permit(principal, "undrain", body)
            after = {other: drain for other, drain in self.in_force.items() if other != key}
            row = ended(drain_row(*key))
            await self._commit([Drop(DRAINS, key), self._audit(principal, "undrain", body, name, row)], keep, principal,
                               after)
        self.on_undrained()

    async def _commit(self, changes: list[Any], keep: Callable[[Any], IdempotencyRecord], principal: Principal,
                      after: dict[Key, Drain]) -> None:
        shown = [drain for key, drain in after.items() if key[0] == principal.tenant_id]
        await self._ledger.commit(WriteBatch([*changes, PutIdempotency(keep(shown))]))
        self.in_force = after
        self.on_changed()

    def _audit(self, principal: Principal, action: str, body: DrainBody, name: str, row: dict[str, str]) -> AuditAppend:
        return AuditAppend(AuditDraft(
            tenant_id=principal.tenant_id, at=iso(self._clock.now_ms()), who=principal.who, action=action,
            session_id=name if body.scope == "session" else None, meta={"scope": body.scope, "name": name, **row},
            personal={"reason": body.reason} if body.reason else {}))

    async def _named(self, principal: Principal, body: DrainBody) -> str:
        """Return the name that the scope requires, checked. Raises Problem."""
        if body.scope == "gateway":
            if body.id is not None:
                raise malformed("/id", "scope gateway takes no id")
            return ""
        if not body.id:
            raise malformed("/id", f"name the {body.scope} that is meant")
        if body.scope == "agent":
            try:
                return canonical_agent(body.id)
            except BadKey as error:
                raise malformed("/id", str(error)) from None
        if body.scope == "runner":
            found = await self._ledger.runner(body.id, principal.tenant_id) is not None
        else:
            found = await self._ledger.session(body.id, principal.tenant_id) is not None
        if not found:
            raise Problem("NotFound", f"There is no {body.scope} {body.id}.",
                          hint=f"List them with `GET /v1/{body.scope}s`.")
        return body.id
