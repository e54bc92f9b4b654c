"""What operators ask of the ledger in memory (G-5)."""

from __future__ import annotations

from collections import Counter

from interlock.command.machine import TERMINAL
from interlock.ports.upkeep import Counts, Upkeep
from interlock.protocol.records import ApprovalRecord, CommandRecord, DeliveryRecord, SessionRecord


class MemoryUpkeep(Upkeep):
    """See `interlock.ports.upkeep.Upkeep`."""

    _commands: dict[str, CommandRecord]
    _approvals: dict[str, ApprovalRecord]
    _deliveries: dict[str, DeliveryRecord]
    _sessions: dict[str, SessionRecord]

    async def counts(self) -> Counts:
        commands = Counter(record.command.state for record in self._commands.values())
        approvals = Counter(record.approval.state for record in self._approvals.values())
        deliveries = Counter(record.delivery.state for record in self._deliveries.values())
        return Counts(
            {state: count for state, count in commands.items() if state not in TERMINAL},
            {state: approvals[state] for state in ("pending", "granted") if approvals[state]},
            {state: deliveries[state] for state in ("pending", "dead") if deliveries[state]},
            len(self._sessions),
        )
