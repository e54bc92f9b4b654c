"""A ledger with a long history: one command that really ran, repeated under new ids, with all of its rows."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import msgspec

from interlock import config
from interlock.app.checkpoints import open_sink
from interlock.app.place import SystemClock
from interlock.app.stores import open_stores
from interlock.engine.bridge.lane_state import LaneState
from interlock.gateway.audit.checkpoints import CheckpointSigner
from interlock.gateway.audit.signing_key import load_or_make_key
from interlock.ports.ledger import Append, AuditAppend, LedgerWrite, PutCommand, PutIdempotency, PutSession, WriteBatch
from interlock.protocol.identifiers import command_stream
from interlock.protocol.limits import UNSIGNED_RECORDS_MAX
from interlock.protocol.records import AuditDraft, IdempotencyRecord, SessionRecord

FILLED = b'"cmd_filled'
"""Begins the name of every command that was filled in, as a record of the log has it."""
A_SESSION = 100
"""Commands of one session."""


def fill(state: Path, command_id: str, count: int) -> float:
    """Copy a command into its own ledger, signing the log as a gateway does; returns the seconds it took."""
    began = time.monotonic()
    asyncio.run(_fill(state, command_id, count))
    return time.monotonic() - began


async def _fill(state: Path, command_id: str, count: int) -> None:
    clock, settings = SystemClock(), config.load(state / config.FILE_NAME)
    stores = await open_stores(state, settings.cluster, clock)
    ledger = stores.ledger
    try:
        # With a signer the ledger takes no batch that leaves too many records unsigned, but signs the log first.
        signer = CheckpointSigner(ledger, load_or_make_key(state), await ledger.gateway_id(),
                                  open_sink(state, settings.audit, clock))
        original = await ledger.command(command_id, "default")
        assert original is not None, f"there is no command {command_id}"
        session = await ledger.session(original.session_id)
        assert session is not None
        events = await ledger.events("default", command_stream(command_id), 0, 1_000)
        log = await ledger.audit(original.command.tenant_id, 0, 10_000)
        bodies = [msgspec.json.decode(one.body) for one in log]
        drafts = [AuditDraft(tenant_id=session.tenant_id, action=body["action"], who=body["who"], at=body["at"],
                             session_id=body.get("session_id"), meta=body.get("meta") or {})
                  for body in bodies if body.get("command_id") == command_id and not body.get("approval_id")]
        at_once = UNSIGNED_RECORDS_MAX // len(drafts)
        for first in range(0, count, at_once):
            writes: list[LedgerWrite] = []
            for number in range(first, min(first + at_once, count)):
                new_id, session_id = f"cmd_filled{number:016}", f"filled-{number // A_SESSION}"
                if number % A_SESSION == 0:
                    writes.append(PutSession(_copied(session, session_id, f"agent:filled:{number}")))
                target = msgspec.structs.replace(original.command.target, session_id=session_id)
                command = msgspec.structs.replace(original.command, id=new_id, target=target,
                                                  idempotency_key=f"filled-{number}")
                writes.append(PutCommand(msgspec.structs.replace(original, command=command, session_id=session_id)))
                writes += [Append(command.tenant_id, command_stream(new_id), one.kind, one.at_ms, one.body)
                           for one in events]
                writes += [AuditAppend(msgspec.structs.replace(draft, command_id=new_id, session_id=session_id))
                           for draft in drafts]
                writes.append(PutIdempotency(IdempotencyRecord(
                    tenant_id=original.command.tenant_id, scope=f"filled-{number}", fingerprint="0" * 64, status=202,
                    headers={}, body=b"{}" * 200, created_ms=original.created_ms, command_id=new_id)))
            await ledger.commit(WriteBatch(writes))
        await signer.sign_tenant(original.command.tenant_id)
    finally:
        await stores.close()


def _copied(session: SessionRecord, session_id: str, key: str) -> SessionRecord:
    """Copy a session that has closed: its lane's own state names it too, and is compared with the row."""
    lane = msgspec.structs.replace(msgspec.json.decode(session.machine, type=LaneState), session_id=session_id,
                                   session_key=key, opening="closed")
    return msgspec.structs.replace(session, session_id=session_id, session_key=key, state="closed", deadline_ms=None,
                                   machine=msgspec.json.encode(lane))
