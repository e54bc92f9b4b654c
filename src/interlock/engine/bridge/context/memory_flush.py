"""The silent turn before a compaction, in which the agent writes down what must be kept (Z-5)."""

from __future__ import annotations

import hashlib
from datetime import datetime

import msgspec

from interlock.command.audit.record_seal import target
from interlock.engine.bridge.lane import SYSTEM, Lane
from interlock.protocol.records import CommandRecord
from interlock.protocol.resources import Actor, Command
from interlock.session.context import memory_flush

FIRST = 100
"""The priority of a flush, above all waiting commands: what it must store is in the context now."""
REASON = "memory flush before a compaction"


def due(lane: Lane, window: int, tokens: int) -> bool:
    """Return whether a memory flush is due: once in a compaction cycle, and only if the gateway owns the context and
    the agent asks before it writes to a workspace that it may write."""
    state, entry = lane.state, lane.state.entry
    if state.context.owner != "gateway" or state.controller or lane.draining:
        return False
    if state.workspace_access != "rw" or state.permission != "asks" or entry.archived_at is not None:
        return False
    if not state.attached or state.opening != "open":
        return False
    return memory_flush.flush_due(lane.limits.compaction.settings, window, tokens, compactions=entry.compaction_count,
                              flushed_at=entry.memory_flush_compaction_count)


def start(lane: Lane) -> None:
    """Queue the flush as the next turn. It is counted now: a failed one is not retried in this cycle."""
    rules, entry = lane.limits.compaction, lane.state.entry
    settings = rules.settings.memory_flush
    date = datetime.fromtimestamp(lane.wall / 1000, rules.zone).date().isoformat()
    text = memory_flush.prompt(settings, date)
    raw = msgspec.json.encode({
        "messages": [{"role": "user", "content": [{"contentType": "text", "value": text}]}],
        "system_append": memory_flush.system_prompt(settings, date)})
    digest = hashlib.sha256(raw).hexdigest()
    command = Command(
        id=lane.new_id("cmd"), created_at=lane.at, updated_at=lane.at, tenant_id=lane.state.tenant_id,
        actor=Actor(type="agent", id=SYSTEM["id"]), type="execute", target=lane.state.target, priority=FIRST,
        state="queued", timeout_ms=lane.limits.timeout_ms, payload=msgspec.Raw(raw), payload_sha256=digest,
        reason=REASON)
    kept = lane.keep(CommandRecord(
        command=command, session_id=lane.state.session_id, created_ms=lane.now, origin="flush", needs_asking=True,
        queue_deadline_ms=lane.now + lane.limits.queue_ttl_ms))
    lane.state.patch_entry(memory_flush_at=lane.wall, memory_flush_compaction_count=entry.compaction_count)
    lane.record_state(kept, None, SYSTEM, {"rule": "memory flush", "digest": digest, "target_sha256": target(kept),
                                        "needs_asking": True},
                    {"reason": REASON})
