"""Steps that write audit records and damage the ledger that contains them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from interlock.backends.memory.clock import ManualClock
from interlock.backends.sqlite.ledger import LEDGER_NAME
from interlock.ports.ledger import AuditAppend, Ledger, Receipt, WriteBatch
from interlock.protocol.clock import iso
from interlock.protocol.records import AuditDraft

CLOCK = ManualClock(5000)


async def write(ledger: Ledger, count: int = 5, tenant_id: str = "t1", action: str = "approve"
                ) -> Receipt:
    draft = AuditDraft(tenant_id=tenant_id, at=iso(0), who={"id": "u", "role": "owner"}, action=action,
                       meta={"decision": "grant"})
    return await ledger.commit(WriteBatch([AuditAppend(draft)] * count))


def with_triggers_dropped(state: Path, *statements: str) -> None:
    database = sqlite3.connect(state / LEDGER_NAME)
    for name in ("audit_never_updated", "audit_never_deleted", "audit_never_replaced"):
        database.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        assert database.execute(statement).rowcount != 0
    database.commit()
    database.close()
