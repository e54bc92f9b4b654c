"""A process that commits entries and writes them to their file as fast as it can; it runs until it is killed.

Each entry's id is printed once its commit has returned, so that what the reader of the pipe has was committed.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import msgspec
import structlog

from interlock.backends.jsonl.transcripts import JsonlTranscripts
from interlock.backends.memory.clock import ManualClock
from interlock.backends.sqlite.ledger import open_ledger
from interlock.engine.sessions.transcript_writer import TranscriptWriter
from interlock.ports.ledger import Append, PutSession, PutTranscript, WriteBatch
from interlock.protocol.records import SessionRecord, TranscriptLine


async def main(state: Path) -> None:
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))  # standard output is for ids alone
    ledger = await open_ledger(state / "ledger.db", ManualClock())
    writer = TranscriptWriter(ledger, JsonlTranscripts(state, ManualClock()))
    row = SessionRecord(session_id="S1", tenant_id="t", session_key="k", agent_id="shell", runner_id="r",
                        workspace="/w", state="idle", created_ms=0, updated_ms=0, deadline_ms=None, machine=b"{}",
                        usage={})
    writer.start()
    n = await ledger.head("t", "s/1")
    while True:
        n += 1
        entry_id = f"{n:08x}"
        line = msgspec.json.encode({"type": "custom", "id": entry_id, "parentId": f"{n - 1:08x}" if n > 1 else None,
                                    "timestamp": "", "customType": "x", "data": {"n": n, "text": "x" * 2_000}})
        await ledger.commit(WriteBatch([
            Append("t", "s/1", "C", 0, b""), PutSession(row),
            PutTranscript(TranscriptLine(tenant_id="t", session_id="S1", entry_id=entry_id, line=line)),
        ]))
        writer.nudge()
        os.write(1, f"{entry_id}\n".encode())


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
