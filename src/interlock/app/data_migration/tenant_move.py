"""Moving one tenant to a cluster that has others: its rows and its audit chain unchanged.

Three commits, in this order: the source is marked (from then on it refuses the tenant and names the new address), the
destination has all rows (with the tenant suspended there), the destination accepts the tenant. A move that was
interrupted between any two of them is completed by the same call; at no time do both accept the tenant.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import asyncpg
import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from interlock.app.data_migration.audit_comparison import agree, database_end
from interlock.app.data_migration.report import ANOTHER, MoveRefused, TenantReport, compared
from interlock.app.data_migration.tables import MigratedTable, columns_there
from interlock.app.data_migration.tenant_rows import TENANT_TABLES, where
from interlock.app.data_migration.tenant_source import TenantSource
from interlock.backends.postgres.audit_rows import audit_rows
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
from interlock.command.audit.audit import CHECKPOINT_FACT, checkpoint_line, write_noted
from interlock.command.audit.audit_check import verify_records
from interlock.command.audit.audit_tree import subtree
from interlock.command.audit.note import origin_of, sign_checkpoint
from interlock.command.audit.register import bound, row_of
from interlock.engine.lanes.rows import WHO, RowAudit
from interlock.gateway.audit.audit_state import verify_tenants
from interlock.gateway.audit.checkpoints import compute
from interlock.ports.clock import Clock
from interlock.ports.ledger import AuditAppend, Ledger, LedgerError, Put, WriteBatch
from interlock.protocol.access import OWNER_TENANT
from interlock.protocol.clock import iso
from interlock.protocol.records import AuditDraft, TenantRecord

MOVED_IN_FACT = "tenant_moved_in/"
"""Followed by a tenant, the name of the destination's fact that holds the report of the move."""
_HAS_TENANT = """
SELECT EXISTS (SELECT FROM tenant WHERE tenant_id = $1) OR EXISTS (SELECT FROM audit_head WHERE tenant_id = $1)
    OR EXISTS (SELECT FROM session WHERE tenant_id = $1) OR EXISTS (SELECT FROM api_key WHERE tenant_id = $1)
"""
_PUT_FACT = "INSERT INTO store (name, value) VALUES ($1, $2)"


class Destination(NamedTuple):
    """The cluster that a tenant is moved to."""

    dsn: str
    place: str
    """The address that the source names to people and runners: that of a gateway there."""
    key: Ed25519PrivateKey
    """Its gateways' signing key."""


class _Move(NamedTuple):
    source: TenantSource
    state: Path
    tenant: TenantRecord
    to: Destination
    ledger: PostgresLedger
    gateway_id: str
    clock: Clock


async def move_tenant(source: TenantSource, state: Path, tenant_id: str, to: Destination, clock: Clock, *,
                      dry_run: bool = False) -> TenantReport:
    """Move a suspended tenant. `state` has the source's public key and checkpoints. Raises MoveRefused, LedgerError."""
    tenant = await source.ledger.tenant(tenant_id)
    if tenant is None or tenant_id == OWNER_TENANT:
        raise MoveRefused(f"The tenant {tenant_id} is the owner's own and cannot be moved alone."
                          if tenant is not None else f"There is no tenant {tenant_id} in {source.shown}.")
    ledger = await open_in_postgres(read_settings(to.dsn), clock, keeps_transcripts=True)
    try:
        move = _Move(source, state, tenant, to, ledger, await ledger.gateway_id(), clock)
        if move.gateway_id == source.gateway_id:
            raise MoveRefused(f"{shown(to.dsn)} is the ledger that the tenant is moved from.")
        done = await _moved_before(move)
        if done is None:
            await _check(move)
            planned = await _plan(move, dry_run=dry_run)
            if dry_run:
                return planned
            done = await _copy(move, planned)
        elif dry_run:
            return msgspec.structs.replace(done, dry_run=True)
        await open_at_destination(move, done)
        await asyncio.to_thread(verify_at_destination, move.to, done)
        return done
    finally:
        await ledger.close()


async def _moved_before(move: _Move) -> TenantReport | None:
    """Return what an earlier call has moved, if the destination has it. Raises MoveRefused."""
    tenant, name = move.tenant, move.tenant.tenant_id
    if tenant.moved_to is not None and tenant.moved_to != move.to.place:
        raise MoveRefused(f"{tenant.moved} To complete that move, name the same place.")
    found = await move.ledger.fact(MOVED_IN_FACT + name)
    if found is None:
        return None
    report = msgspec.json.decode(found, type=TenantReport)
    if tenant.moved_to is None or report.source != move.source.gateway_id:
        raise MoveRefused(f"A tenant {name} was moved to {shown(move.to.dsn)} from another ledger.")
    return report


async def _check(move: _Move) -> None:
    """Raise MoveRefused for a tenant that cannot be moved now."""
    tenant, name = move.tenant, move.tenant.tenant_id
    if not tenant.suspended:
        raise MoveRefused(f"The tenant {name} is not suspended: start its gateway, run `interlock tenants suspend "
                          f"{name}`, and stop the gateway again.")
    owners = await RowAudit(move.ledger, move.clock).register(OWNER_TENANT)
    if not owners.begun:
        raise MoveRefused(f"No gateway has worked on {shown(move.to.dsn)} yet: start one there first.")
    await verify_source(move.source.ledger, move.state, move.source.store, tenant, move.clock)


async def verify_source(ledger: Ledger, state: Path, store: str | None, tenant: TenantRecord, clock: Clock) -> None:
    """Verify the tenant's log and the owner's at the source, and the tenant's row. Raises MoveRefused."""
    name = tenant.tenant_id
    reports = await asyncio.to_thread(verify_tenants, state, store)
    bad = next((one for one in reports if not one.ok and one.tenant_id in (name, OWNER_TENANT)), None)
    if bad is not None:
        raise MoveRefused(f"The audit log of {bad.tenant_id} does not verify, so nothing was moved: {bad.message}")
    how = await RowAudit(ledger, clock).how(OWNER_TENANT, row_of(tenant))
    if how is not None:
        raise MoveRefused(f"The stored row of the tenant {name} {how}, so nothing was moved.")


async def _plan(move: _Move, *, dry_run: bool) -> TenantReport:
    """Count the data to move. Raises MoveRefused."""
    source, name = move.source, move.tenant.tenant_id
    at_work = await source.at_work(name)
    if any(at_work):
        raise MoveRefused("The tenant {} is at work: {} commands, {} approvals and {} deliveries have not ended. Wait "
                          "for them, or end them, before it is suspended.".format(name, *at_work))
    size, root = await source.ledger.audit_tree(name)
    if await compute(subtree(0, size), source.ledger, name) != root:
        raise MoveRefused(f"The tree over the audit log of {name} does not fit its records, so nothing was moved.")
    rows = {table.name: await source.count(table, name) for table in TENANT_TABLES}
    objects = set[str]()
    files = next(table for table in TENANT_TABLES if table.name == "file")
    async for row in source.rows(files, name):
        objects.update(cast("list[str]", row[-1]))
    return TenantReport(tenant_id=name, source=source.gateway_id, to=move.to.place, gateway_id=move.gateway_id,
                        rows=rows, objects=len(objects), audit_records=size, audit_root=root.hex(), dry_run=dry_run)


async def _copy(move: _Move, planned: TenantReport) -> TenantReport:
    """Copy and compare in one transaction of the destination; the source is marked before that is committed."""
    name, connection = move.tenant.tenant_id, await first_connection(read_settings(move.to.dsn))
    try:
        await connection.execute("BEGIN; LOCK TABLE tenant IN SHARE ROW EXCLUSIVE MODE")
        if await connection.fetchval(_HAS_TENANT, name):
            raise MoveRefused(f"{shown(move.to.dsn)} has a tenant {name} already, so nothing was moved. {ANOTHER}")
        counts = await _copy_rows(move, connection)
        compared(planned.rows, counts)
        compared(planned.rows, {table.name: await connection.fetchval(
            f"SELECT count(*) FROM {table.name} WHERE {where(table, 'postgres')}", name) for table in TENANT_TABLES})
        agree({name: await move.source.end(name)}, {name: await database_end(connection, name)})
        await _put_tenant_row(move, connection, planned)
        await mark_source(move)
        await commit_copy(connection)
    except asyncpg.UniqueViolationError as error:
        taken = str(getattr(error, "constraint_name", ""))
        raise MoveRefused(f"{shown(move.to.dsn)} has a row with the same name as one of {name} ({taken}), so nothing "
                          f"was moved. {ANOTHER}") from error
    except (MoveRefused, LedgerError):
        raise
    except Exception as error:
        raise translate(error) from error
    finally:
        await close_quietly(connection)  # What was not committed is rolled back.
    return planned


async def commit_copy(connection: PostgresConnection) -> None:
    """Make the copy durable: the second of the three commits."""
    await connection.execute("COMMIT")


async def _copy_rows(move: _Move, connection: PostgresConnection) -> dict[str, int]:
    name, counts = move.tenant.tenant_id, dict[str, int]()
    streams: dict[int, int] = {}
    for table in TENANT_TABLES:
        rows = move.source.rows(table, name)
        if table.name == "stream":
            streams = await _copy_streams(connection, name, rows)
            counts[table.name] = len(streams)
            continue
        there = columns_there(table)
        kept = [index for index, column in enumerate(there) if column != table.counter]
        if table.name == "event":
            rows = _renumbered(rows, streams)
        counts[table.name] = await _write(connection, table, tuple(there[index] for index in kept), kept, rows)
    await move.source.copy_transcripts(connection, name)
    return counts


async def _copy_streams(connection: PostgresConnection, tenant_id: str, rows: AsyncIterator[tuple[Any, ...]]
                        ) -> dict[int, int]:
    """Write streams under numbers of the destination; returns those by the source's."""
    numbers: dict[int, int] = {}
    async for number, stream, head in rows:
        numbers[number] = await connection.fetchval(
            "INSERT INTO stream (tenant_id, name, head) VALUES ($1, $2, $3) RETURNING id",
            encoded(tenant_id), stream, head)
    return numbers


async def _renumbered(rows: AsyncIterator[tuple[Any, ...]], streams: dict[int, int]
                      ) -> AsyncIterator[tuple[Any, ...]]:
    async for stream, *rest in rows:
        yield streams[stream], *rest


async def _write(connection: PostgresConnection, table: MigratedTable, columns: tuple[str, ...], kept: list[int],
                 rows: AsyncIterator[tuple[Any, ...]]) -> int:
    count = 0

    async def made() -> AsyncIterator[tuple[Any, ...]]:
        nonlocal count
        async for row in rows:
            count += 1
            yield tuple(row[index] for index in kept)

    await cast("Any", connection).copy_records_to_table(table.name, records=made(), columns=columns, timeout=None)
    return count


async def _put_tenant_row(move: _Move, connection: PostgresConnection, report: TenantReport) -> None:
    """Write the tenant's row, suspended, the checkpoint that the destination continues from, and the report."""
    name = move.tenant.tenant_id
    suspended = msgspec.structs.replace(move.tenant, suspended=True, moved_to=None)
    await connection.execute("INSERT INTO tenant (tenant_id, body) VALUES ($1, $2)", name,
                             msgspec.json.encode(suspended))
    await connection.execute(_PUT_FACT, CHECKPOINT_FACT + name,
                             write_noted(report.audit_records, moved_checkpoint(move.to, report)))
    await connection.execute(_PUT_FACT, MOVED_IN_FACT + name, msgspec.json.encode(report).decode())


def moved_checkpoint(to: Destination, report: TenantReport) -> bytes:
    """Return the checkpoint that the destination continues from, signed with its key."""
    signed = sign_checkpoint(to.key, origin_of(report.gateway_id, report.tenant_id), report.audit_records,
                             bytes.fromhex(report.audit_root))
    return checkpoint_line(signed)


async def mark_source(move: _Move) -> None:
    """Make the source refuse the tenant and name the new address: the first of the three commits. Does nothing if an
    earlier call has done it."""
    if move.tenant.moved_to is None:
        marked = msgspec.structs.replace(move.tenant, moved_to=move.to.place)
        await move.source.ledger.commit(WriteBatch([
            Put(marked), _record(move, marked, "tenant_moved", move.gateway_id)]))


async def open_at_destination(move: _Move, report: TenantReport) -> None:
    """Accept the tenant at the destination: the third of the three commits. Does nothing if an earlier call has done
    it."""
    name = report.tenant_id
    there = await move.ledger.tenant(name)
    owners = await RowAudit(move.ledger, move.clock).register(OWNER_TENANT)
    if there is None or owners.rows.get(f"tenant/{name}"):
        return
    opened = msgspec.structs.replace(there, suspended=False)
    await move.ledger.commit(WriteBatch([
        Put(opened), _record(move, opened, "tenant_moved_in", report.source),
        *await adopted_records(move.source.ledger, name, move.clock)]))


async def adopted_records(ledger: Ledger, name: str, clock: Clock) -> list[AuditAppend]:
    """Return a record for the owner's log of the destination that binds the tenant's rows which only the owner's log of
    the source binds: those that were there before rows were bound."""
    adopted = await _adopted_at_source(ledger, name, clock)
    return [AuditAppend(AuditDraft(tenant_id=OWNER_TENANT, at=iso(clock.now_ms()), who=WHO, action="adopted", meta={
        "row": "adopted", "row_sha256": "", "rows": adopted, "denials": []}))] if adopted else []


async def _adopted_at_source(ledger: Ledger, name: str, clock: Clock) -> dict[str, str]:
    audit = RowAudit(ledger, clock)
    owners, own = await audit.register(OWNER_TENANT), await audit.register(name)
    found = [*await ledger.keys(name), *await ledger.rules(name, revoked=True), *await ledger.signing_keys(name),
             *await ledger.runners(name)]
    rows = {row.name: row.sha256 for row in map(row_of, found)}
    return {row: digest for row, digest in rows.items()
            if row not in own.rows and owners.rows.get(row) == digest}


def _record(move: _Move, tenant: TenantRecord, step: str, other: str) -> AuditAppend:
    meta = {"step": step, "tenant_id": tenant.tenant_id, "gateway_id": other, **bound(tenant)}
    return AuditAppend(AuditDraft(tenant_id=OWNER_TENANT, at=iso(move.clock.now_ms()), who=WHO,
                                  action="policy_change", meta=meta))


def verify_at_destination(to: Destination, report: TenantReport) -> None:
    """Verify the whole chain at the destination, against its checkpoint. Raises MoveRefused."""
    with audit_rows(read_settings(to.dsn)) as rows:
        found = verify_records(rows.records(report.tenant_id), moved_checkpoint(to, report), to.key.public_key())
    if not found.ok:
        raise MoveRefused(f"The audit log of {report.tenant_id} does not verify at {shown(to.dsn)}: {found.message}")
