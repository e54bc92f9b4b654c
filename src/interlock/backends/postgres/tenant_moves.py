"""The steps of a tenant's move in the database of its source or its destination, each of them one transaction.

While a tenant is frozen its lanes cannot be taken, commits under their earlier epochs are refused, and so are appends
to its audit log: no gateway changes it, whether it knows of the move or not.
"""

from __future__ import annotations

import msgspec

from interlock.backends import entity_rows
from interlock.backends.postgres import statements
from interlock.backends.postgres.database import PostgresConnection, Row
from interlock.backends.postgres.texts import encoded
from interlock.backends.postgres.transaction import CommitGroup
from interlock.command.audit.audit import FIRST_PREV
from interlock.command.audit.register import bound
from interlock.ports.entities import TENANTS
from interlock.ports.leases import PASSED_ON, Instance, MoveStep
from interlock.ports.ledger import AuditAppend, LedgerError, Put, WriteBatch
from interlock.protocol.access import OWNER_TENANT
from interlock.protocol.clock import iso
from interlock.protocol.records import AuditDraft, TenantRecord

WHO = {"id": "gateway", "role": "system"}
MOVES = """
SELECT tenant_id, move_id, step, ends_ms FROM tenant_move WHERE ends_ms > interlock_now_ms() ORDER BY tenant_id
"""
ACKNOWLEDGE = """
INSERT INTO tenant_move_ack (tenant_id, instance_id, move_id, step)
SELECT tenant_id, $2::text, move_id, step FROM tenant_move WHERE tenant_id = $1 AND move_id = $3 AND step = $4
ON CONFLICT (tenant_id, instance_id) DO UPDATE SET move_id = excluded.move_id, step = excluded.step RETURNING 1
"""
NOTE = """
INSERT INTO tenant_move (tenant_id, move_id, step, ends_ms) VALUES ($1, $2, $3, interlock_now_ms() + $4)
ON CONFLICT (tenant_id) DO UPDATE SET move_id = excluded.move_id, step = excluded.step, ends_ms = excluded.ends_ms
"""
UNACKNOWLEDGED = """
SELECT instance_id, address FROM instance WHERE expires_ms > interlock_now_ms() AND NOT EXISTS (
    SELECT FROM tenant_move_ack AS ack WHERE ack.tenant_id = $1 AND ack.instance_id = instance.instance_id
    AND ack.move_id = $2 AND ack.step = $3) ORDER BY instance_id
"""
_FORGET = "DELETE FROM tenant_move WHERE tenant_id = $1"
_FORGET_ACKS = "DELETE FROM tenant_move_ack WHERE tenant_id = $1"
_OVERDUE = """
SELECT tenant_id, move_id FROM tenant_move WHERE step = 'frozen' AND ends_ms <= interlock_now_ms()
ORDER BY tenant_id FOR UPDATE SKIP LOCKED
"""
_IN_TIME = """
SELECT 1 FROM tenant_move WHERE tenant_id = $1 AND move_id = $2 AND step = 'frozen' AND ends_ms > interlock_now_ms()
FOR UPDATE
"""
"""Locks the move, so that `_OVERDUE` skips it if its time ends before the tenant has departed. The two lock the tenant
and the move in opposite orders, and would wait for each other."""
_LANES = "SELECT session_id AS name FROM session WHERE tenant_id = $1 UNION ALL SELECT 'house:' || $1"
FREEZE_LANES = f"""
INSERT INTO lane (tenant_id, name, epoch, frozen) SELECT $1, name, 1, true FROM ({_LANES}) AS own ORDER BY name
ON CONFLICT (tenant_id, name) DO UPDATE SET epoch = lane.epoch + 1, frozen = true, instance_id = ''
"""
_THAW_LANES = f"UPDATE lane SET frozen = false, instance_id = $2 WHERE tenant_id = $1 AND name IN ({_LANES})"
FREEZE_HEAD = "UPDATE audit_head SET frozen = $2 WHERE tenant_id = $1"
_TENANT = "SELECT body FROM tenant WHERE tenant_id = $1 FOR UPDATE"


class HandoverOver(LedgerError):
    """Raised if the tenant is open at its source again, or another move replaced this one: nothing was moved."""


async def note(connection: PostgresConnection, tenant_id: str, move_id: str, step: MoveStep, life_ms: int) -> None:
    """Record the step of a tenant's move. Raises asyncpg's exceptions."""
    await connection.execute(NOTE, encoded(tenant_id), move_id, step, life_ms)


async def forget(connection: PostgresConnection, tenant_id: str) -> None:
    """Delete the record of a tenant's move."""
    await connection.execute(_FORGET, encoded(tenant_id))
    await connection.execute(_FORGET_ACKS, encoded(tenant_id))


async def unacknowledged(connection: PostgresConnection, tenant_id: str, move_id: str, step: MoveStep
                         ) -> list[Instance]:
    """Return the live gateways that have not acknowledged a step."""
    return [Instance(*row) for row in await connection.fetch(UNACKNOWLEDGED, encoded(tenant_id), move_id, step)]


async def freeze(connection: PostgresConnection, tenant_id: str, move_id: str, life_ms: int) -> None:
    """Freeze the tenant for at most `life_ms`: no gateway changes it. Raises HandoverOver if it is moved already."""
    record = await _tenant(connection, tenant_id)
    if record is None or record.moved_to is not None or record.moving is not None:
        raise HandoverOver(f"The tenant {tenant_id} is being moved already, or was.")
    await _put(connection, msgspec.structs.replace(record, moving=move_id), "tenant_moving")
    await freeze_rows(connection, tenant_id)
    await note(connection, tenant_id, move_id, "frozen", life_ms)


async def freeze_rows(connection: PostgresConnection, tenant_id: str) -> None:
    """Refuse every commit of its lanes and every record of its log."""
    await connection.execute(FREEZE_LANES, encoded(tenant_id))
    await connection.execute(statements.ADD_HEADS, [encoded(tenant_id)], FIRST_PREV)
    await connection.execute(FREEZE_HEAD, encoded(tenant_id), True)


async def depart(connection: PostgresConnection, tenant_id: str, move_id: str, place: str, gateway_id: str) -> None:
    """Set the tenant's new address; it stays frozen here. Raises HandoverOver if it is open again."""
    record = await _tenant(connection, tenant_id)
    in_time = await connection.fetchval(_IN_TIME, encoded(tenant_id), move_id)
    if record is None or record.moving != move_id or in_time is None:
        raise HandoverOver(f"The tenant {tenant_id} was not handed over within the time that was announced.")
    await _put(connection, msgspec.structs.replace(record, moving=None, moved_to=place), "tenant_moved", gateway_id)
    await forget(connection, tenant_id)


async def thaw(connection: PostgresConnection, tenant_id: str, move_id: str) -> bool:
    """Open the tenant at its source again; returns whether this move held it."""
    record = await _tenant(connection, tenant_id)
    if record is None or record.moving != move_id:
        return False
    await _put(connection, msgspec.structs.replace(record, moving=None), "tenant_stays")
    await _open_rows(connection, tenant_id)
    await forget(connection, tenant_id)
    return True


async def thaw_overdue(connection: PostgresConnection) -> list[str]:
    """Open every tenant that was frozen for longer than announced; returns them."""
    found = [(row[0], row[1]) for row in await connection.fetch(_OVERDUE)]
    return [tenant_id for tenant_id, move_id in found if await thaw(connection, tenant_id, move_id)]


async def arrive(connection: PostgresConnection, closed: TenantRecord, source: str) -> None:
    """Write the row of a tenant that arrives from the ledger `source`, closed. It is on record, so that the log of the
    destination's owner also verifies if the move ends here. Raises asyncpg's exceptions."""
    await _put(connection, closed, "tenant_arriving", source)


async def open_here(connection: PostgresConnection, tenant_id: str, move_id: str, source: str) -> bool:
    """Accept the tenant at its destination; its lanes are taken up at once. Returns false if that was done before."""
    record = await _tenant(connection, tenant_id)
    if record is None or record.moving != move_id:
        return False
    await _put(connection, msgspec.structs.replace(record, moving=None), "tenant_moved_in", source)
    await _open_rows(connection, tenant_id)
    await forget(connection, tenant_id)
    return True


async def _open_rows(connection: PostgresConnection, tenant_id: str) -> None:
    # Orphans at once: a gateway takes over those with a clock.
    await connection.execute(_THAW_LANES, encoded(tenant_id), PASSED_ON)
    await connection.execute(FREEZE_HEAD, encoded(tenant_id), False)


async def _tenant(connection: PostgresConnection, tenant_id: str) -> TenantRecord | None:
    row: Row | None = await connection.fetchrow(_TENANT, encoded(tenant_id))
    return entity_rows.record_of(TENANTS, row) if row is not None else None


async def _put(connection: PostgresConnection, record: TenantRecord, step: str, gateway_id: str = "") -> None:
    """Write the tenant's row with the record of the owner's log that binds it."""
    at_ms = int(await connection.fetchval("SELECT interlock_now_ms()"))
    other = {"gateway_id": gateway_id} if gateway_id else {}
    group = CommitGroup()
    group.add(WriteBatch([Put(record), AuditAppend(AuditDraft(
        tenant_id=OWNER_TENANT, at=iso(at_ms), who=WHO, action="policy_change",
        meta={"step": step, "tenant_id": record.tenant_id, **other, **bound(record)}))]))
    await group.run(connection)
