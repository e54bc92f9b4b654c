"""Moving a tenant between two clusters whose gateways keep running: it is closed for a moment, and nothing is lost
(K-1).

The tenant is copied while it is in use, and the changes since are copied again. Then it is handed over: frozen at the
source, the rest copied and compared, open at the destination. Commits, in this order: frozen, the copy (closed), the
move recorded at the source, open at the destination. A hand-over that takes longer than announced is abandoned by the
source's gateways themselves; one that was killed is completed, or restarted, by the same call.
"""

from __future__ import annotations

import asyncio
import os
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

import asyncpg
import msgspec

from interlock.app.data_migration.report import ANOTHER, MoveRefused, TenantReport
from interlock.app.data_migration.tenant_move import (
    MOVED_IN_FACT,
    Destination,
    adopted_records,
    moved_checkpoint,
    verify_at_destination,
    verify_source,
)
from interlock.app.data_migration.tenant_passes import TenantCopy
from interlock.backends.postgres import tenant_moves
from interlock.backends.postgres.database import (
    PostgresConnection,
    close_quietly,
    first_connection,
    read_settings,
    shown,
)
from interlock.backends.postgres.faults import translate
from interlock.backends.postgres.ledger import PostgresLedger
from interlock.backends.postgres.ledger import open_ledger as open_in_postgres
from interlock.backends.postgres.texts import encoded
from interlock.command.audit.audit import CHECKPOINT_FACT, write_noted
from interlock.engine.lanes.rows import RowAudit
from interlock.ports.clock import Clock
from interlock.ports.leases import MoveStep
from interlock.ports.ledger import LedgerError, WriteBatch
from interlock.protocol.access import OWNER_TENANT
from interlock.protocol.records import TenantRecord

HANDOVER_MS = 30_000
"""Maximum time for which a tenant is closed; after it the source's gateways reopen it by themselves."""
ACKNOWLEDGE_S = 10.0
"""Live gateways that do not acknowledge a step within this end the hand-over."""
ANNOUNCED_MS = 3_600_000
QUICK_S = 0.5
"""A pass within this time may be the last before the hand-over."""
PASSES = 8
"""Passes after which the tenant is handed over, however long the last one took."""
LOOK_S = 0.02
_BEGIN = "BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0"
_ALONE = "SELECT pg_try_advisory_lock(hashtextextended('interlock move of ' || $1, 0))"
_TENANT = "SELECT body FROM tenant WHERE tenant_id = $1 FOR UPDATE"
_PUT_FACT = "INSERT INTO store (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
_OBJECTS = """
SELECT count(DISTINCT object) FROM file, unnest(objects) AS object
WHERE session_id IN (SELECT session_id FROM session WHERE tenant_id = $1)
"""


class HandoverOrder(NamedTuple):
    """The order to move a tenant from the database `source` of a cluster whose public key and checkpoints are in
    `state`."""

    source: str
    state: Path
    tenant_id: str
    to: Destination


class _Side(NamedTuple):
    """A ledger and a connection to its database."""

    ledger: PostgresLedger
    connection: PostgresConnection
    gateway_id: str


async def hand_over(order: HandoverOrder, clock: Clock, *, dry_run: bool = False) -> TenantReport:
    """Move a tenant in use. Raises MoveRefused, LedgerError; then it is open at the source, as before."""
    source = await _open(order.source, clock)
    try:
        target = await _open(order.to.dsn, clock)
        try:
            if source.gateway_id == target.gateway_id:
                raise MoveRefused(f"{shown(order.to.dsn)} is the ledger that the tenant is moved from.")
            if not await source.connection.fetchval(_ALONE, order.tenant_id):
                raise MoveRefused(f"The tenant {order.tenant_id} is being moved by another call.")
            return await TenantHandover(order, clock, source, target).run(dry_run=dry_run)
        except asyncpg.UniqueViolationError as error:
            taken = str(getattr(error, "constraint_name", ""))
            raise MoveRefused(f"{shown(order.to.dsn)} has a row with the same name as one of {order.tenant_id} "
                              f"({taken}), so nothing was moved. {ANOTHER}") from error
        except (MoveRefused, LedgerError):
            raise
        except Exception as error:
            raise translate(error) from error
        finally:
            await _close(target)
    finally:
        await _close(source)


async def _open(dsn: str, clock: Clock) -> _Side:
    ledger = await open_in_postgres(read_settings(dsn), clock, keeps_transcripts=True)
    try:
        return _Side(ledger, await first_connection(read_settings(dsn)), await ledger.gateway_id())
    except BaseException:
        await ledger.close()
        raise


async def _close(side: _Side) -> None:
    await close_quietly(side.connection)
    await side.ledger.close()


class TenantHandover:
    """One move of one tenant."""

    def __init__(self, order: HandoverOrder, clock: Clock, source: _Side, target: _Side) -> None:
        self._asked = order
        self._name = order.tenant_id
        self._clock = clock
        self._source = source
        self._target = target
        self._id = "m_" + os.urandom(8).hex()

    async def run(self, *, dry_run: bool) -> TenantReport:
        """Move, or complete what an earlier call has started."""
        tenant = await self._source.ledger.tenant(self._name)
        if tenant is None or self._name == OWNER_TENANT:
            raise MoveRefused(f"The tenant {self._name} is the owner's own and cannot be moved alone."
                              if tenant is not None else f"There is no tenant {self._name} in "
                              f"{shown(self._asked.source)}.")
        if tenant.moved_to is not None:
            return await self._complete(tenant)
        await self._check(tenant)
        if dry_run:
            copy = TenantCopy(self._source.connection, self._target.connection, self._name)
            return await self._report(await copy.counts(self._source.connection), dry_run=True)
        if tenant.moving is not None:  # By a call that was killed: it would be reopened at its deadline anyway.
            await self._source.ledger.transact(partial(tenant_moves.thaw, tenant_id=self._name, move_id=tenant.moving))
        try:
            return await self._move()
        finally:
            await close_quietly(self._target.connection)  # What was not committed is rolled back.

    async def _move(self) -> TenantReport:
        await self._announce(self._source.ledger, "announced")
        await self._announce(self._target.ledger, "arriving")
        try:
            copy = await self._copied_while_at_work()
        except BaseException:
            await self._forget_both()
            raise
        began_s = time.monotonic()
        await self._source.ledger.transact(partial(tenant_moves.freeze, tenant_id=self._name, move_id=self._id,
                                                   life_ms=HANDOVER_MS))
        try:
            await self._acknowledged(self._source, "frozen")
            report = await self._arrive(copy)
            await depart(self)
        except BaseException as error:
            # If this move does not hold it any more, it departed, or its gateways have reopened it.
            stays = await self._source.ledger.transact(
                partial(tenant_moves.thaw, tenant_id=self._name, move_id=self._id))
            there = await self._source.ledger.tenant(self._name)
            if stays or there is None or there.moved_to is None:
                await close_quietly(self._target.connection)
                await self._forget_both()
                if isinstance(error, (tenant_moves.HandoverOver, TimeoutError)):
                    raise MoveRefused(f"{error} It is open at the source as before.") from error
                raise
            report = await self._reported()
        await open_there(self, report)
        report = msgspec.structs.replace(report, closed_ms=round(1000 * (time.monotonic() - began_s)))
        await asyncio.to_thread(verify_at_destination, self._asked.to, report)
        return report

    async def _check(self, tenant: TenantRecord) -> None:
        if not (await RowAudit(self._target.ledger, self._clock).register(OWNER_TENANT)).begun:
            raise MoveRefused(f"No gateway has worked on {shown(self._asked.to.dsn)} yet: start one there first.")
        there = await self._target.ledger.tenant(self._name)
        if there is not None and there.moved_to is None and there.moving is None:
            raise MoveRefused(f"{shown(self._asked.to.dsn)} has a tenant {self._name} already, so nothing was "
                              f"moved. {ANOTHER}")
        await verify_source(self._source.ledger, self._asked.state, self._asked.source, tenant, self._clock)

    async def _copied_while_at_work(self) -> TenantCopy:
        target = self._target.connection
        await target.execute(_BEGIN)
        copy = TenantCopy(self._source.connection, target, self._name)
        await target.fetchrow(_TENANT, encoded(self._name))
        await copy.clear()
        for _ in range(PASSES):
            began_s = time.monotonic()
            await copy.run()
            if time.monotonic() - began_s < QUICK_S:
                break
        return copy

    async def _arrive(self, copy: TenantCopy) -> TenantReport:
        """Copy the changes since, compare both sides, and have the destination's gateways read it."""
        target, name = self._target.connection, encoded(self._name)
        await copy.run(last=True)
        report = await self._report(await copy.counts(target))
        tenant = await self._source.ledger.tenant(self._name)
        assert tenant is not None, "it is frozen"
        known = tenant.known_as or self._source.gateway_id
        closed = msgspec.structs.replace(tenant, moving=self._id,
                                         known_as=known if known != self._target.gateway_id else None)
        await tenant_moves.arrive(target, closed, self._source.gateway_id)
        await target.execute(_PUT_FACT, CHECKPOINT_FACT + name, write_noted(
            report.audit_records, moved_checkpoint(self._asked.to, report)))
        await target.execute(_PUT_FACT, MOVED_IN_FACT + name, msgspec.json.encode(report).decode())
        await tenant_moves.freeze_rows(target, self._name)
        await tenant_moves.note(target, self._name, self._id, "arrived", HANDOVER_MS)
        await commit_copy(target)
        if records := await adopted_records(self._source.ledger, self._name, self._clock):
            await self._target.ledger.commit(WriteBatch(records))
        await self._acknowledged(self._target, "arrived")
        return report

    async def depart(self) -> None:
        """Record the new address at the source."""
        await self._source.ledger.transact(partial(
            tenant_moves.depart, tenant_id=self._name, move_id=self._id, place=self._asked.to.place,
            gateway_id=self._target.gateway_id))

    async def open_there(self, report: TenantReport) -> None:
        """Accept the tenant at the destination. Does nothing if that was done before."""
        there = await self._target.ledger.tenant(self._name)
        if there is not None and there.moving is not None:
            await self._target.ledger.transact(partial(tenant_moves.open_here, tenant_id=self._name,
                                                       move_id=there.moving, source=report.source))

    async def _complete(self, tenant: TenantRecord) -> TenantReport:
        """Continue a move that the source has recorded already."""
        if tenant.moved_to != self._asked.to.place:
            raise MoveRefused(f"{tenant.moved} To complete that move, name the same place.")
        report = await self._reported()
        if report.source != self._source.gateway_id:
            raise MoveRefused(f"A tenant {self._name} was moved to {shown(self._asked.to.dsn)} from another ledger.")
        await open_there(self, report)
        await asyncio.to_thread(verify_at_destination, self._asked.to, report)
        return msgspec.structs.replace(report, closed_ms=0)

    async def _reported(self) -> TenantReport:
        found = await self._target.ledger.fact(MOVED_IN_FACT + self._name)
        if found is None:
            raise MoveRefused(f"The tenant {self._name} was moved, and not to {shown(self._asked.to.dsn)}.")
        return msgspec.json.decode(found, type=TenantReport)

    async def _report(self, rows: dict[str, int], *, dry_run: bool = False) -> TenantReport:
        size, root = await self._source.ledger.audit_tree(self._name)
        objects = await self._source.connection.fetchval(_OBJECTS, encoded(self._name))
        return TenantReport(tenant_id=self._name, source=self._source.gateway_id, to=self._asked.to.place,
                            gateway_id=self._target.gateway_id, rows=rows, objects=int(objects), audit_records=size,
                            audit_root=root.hex(), dry_run=dry_run)

    async def _announce(self, ledger: PostgresLedger, step: MoveStep) -> None:
        await ledger.transact(partial(tenant_moves.note, tenant_id=self._name, move_id=self._id, step=step,
                                      life_ms=ANNOUNCED_MS))

    async def _forget_both(self) -> None:
        for side in (self._source, self._target):
            await side.ledger.transact(partial(tenant_moves.forget, tenant_id=self._name))

    async def _acknowledged(self, side: _Side, step: MoveStep) -> None:
        """Wait until each live gateway has acknowledged a step. Raises TimeoutError with the sentence."""
        until_s = time.monotonic() + ACKNOWLEDGE_S
        while missing := await tenant_moves.unacknowledged(side.connection, self._name, self._id, step):
            if time.monotonic() > until_s:
                raise TimeoutError(f"The gateway {missing[0].instance_id} ({missing[0].address or 'no address'}) did "
                                   f"not follow the move within {ACKNOWLEDGE_S:.0f} s; is it of an earlier version?")
            await asyncio.sleep(LOOK_S)


async def commit_copy(connection: PostgresConnection) -> None:
    """Make the copy durable; the tenant is closed in it."""
    await connection.execute("COMMIT")


async def depart(move: TenantHandover) -> None:
    """Record the new address at the source."""
    await move.depart()


async def open_there(move: TenantHandover, report: TenantReport) -> None:
    """Make the destination accept the tenant."""
    await move.open_there(report)
