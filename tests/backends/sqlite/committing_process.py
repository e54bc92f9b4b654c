"""A process that commits as fast as it can and prints each acknowledged number; it runs until it is killed."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from interlock.backends.memory.clock import ManualClock
from interlock.backends.sqlite.ledger import open_ledger
from interlock.ports.ledger import Append, AuditAppend, WriteBatch
from interlock.protocol.clock import iso
from interlock.protocol.records import AuditDraft

WRITERS = 16


async def main(path: Path) -> None:
    ledger = await open_ledger(path, ManualClock())
    draft = AuditDraft(tenant_id="t1", at=iso(0), who={"id": "u", "role": "owner"}, action="enqueue")

    async def write(name: int) -> None:
        i = 0
        while True:
            i += 1
            token = f"{os.getpid()}-{name}-{i}"
            receipt = await ledger.commit(WriteBatch([Append("t1", "s/1", "C", 0, token.encode()), AuditAppend(draft)]))
            # One unbuffered write a line: every line that the pipe's reader has was acknowledged before the kill.
            os.write(1, f"{receipt.numbers[0]} {token}\n".encode())

    await asyncio.gather(*(write(name) for name in range(WRITERS)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
