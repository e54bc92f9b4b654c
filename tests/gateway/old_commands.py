"""Commands that ended long ago."""

from __future__ import annotations

import msgspec

from interlock.ports.ledger import PutCommand, PutSession, WriteBatch
from interlock.protocol.clock import iso
from interlock.protocol.limits import DAY_MS
from small_gateway.desk import NOW
from small_gateway.running import Gateway


async def old_command(gateway: Gateway) -> str:
    """A command of session s1 that ended 40 days ago."""
    command = await gateway.execute()
    await gateway.desk.finish(command)
    await gateway.desk.add_session()
    session = await gateway.desk.ledger.session("s1")
    record = await gateway.desk.ledger.command(command, "default")
    assert record is not None
    assert session is not None
    ended = msgspec.structs.replace(record.command, ended_at=iso(NOW - 40 * DAY_MS))
    await gateway.desk.ledger.commit(WriteBatch([
        PutCommand(msgspec.structs.replace(record, command=ended)),
        PutSession(msgspec.structs.replace(session, created_ms=1))]))
    return command
