"""Usage that a session's agent reports, counted by day (J-13).

The figures are added in the transaction of the frame that reports them, so they are neither lost nor counted twice.
"""

from __future__ import annotations

import msgspec

from interlock.command.policy.budget import DAY_MS
from interlock.engine.bridge.lane import Lane
from interlock.ports.ledger import Add
from interlock.protocol import payloads as p
from interlock.protocol.records import USAGE_FIGURES, UsageRecord

COUNTED_MAX = 10**12
"""Larger numbers of tokens, or micro-dollars, in one report are not counted: a sum over years must not overflow."""


def count_tokens(lane: Lane, tokens: p.TokenUsage, *, estimated: bool) -> None:
    """Count the tokens of an ended turn."""
    _count(lane, input_tokens=tokens.input_tokens, output_tokens=tokens.output_tokens,
           cache_read_tokens=tokens.cache_read_tokens or 0, cache_write_tokens=tokens.cache_write_tokens or 0,
           estimated_turns=int(estimated))


def count_cost(lane: Lane, micros: int) -> None:
    """Count by how much the running total of the cost has grown."""
    _count(lane, cost_micros=micros)


def count_turn(lane: Lane) -> None:
    """Count a turn that has ended, whether its agent reported figures or not."""
    _count(lane, turns=1)


def _count(lane: Lane, **figures: int) -> None:
    """Add figures to the current row. What another gateway controls is counted there (D-5)."""
    state = lane.state
    if state.controller:
        return
    actor = None if lane.active is None else lane.active.driver or lane.active.command.actor
    place = UsageRecord(
        tenant_id=state.tenant_id, day=lane.now // DAY_MS, agent_id=state.agent_id,
        model=state.entry.model_override or state.model, session_id=state.session_id,
        person=f"{actor.type}:{actor.id}" if actor is not None else "")
    added = msgspec.structs.replace(place, **{name: min(figure, COUNTED_MAX) for name, figure in figures.items()})
    for i, write in enumerate(lane.out.writes):
        if isinstance(write, Add) and isinstance(write.record, UsageRecord) and _place_of(write.record) == place:
            lane.out.writes[i] = Add(write.record.plus(added))
            return
    lane.out.writes.append(Add(added))


def _place_of(record: UsageRecord) -> UsageRecord:
    return msgspec.structs.replace(record, **dict.fromkeys(USAGE_FIGURES, 0))
