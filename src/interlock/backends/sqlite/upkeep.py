"""What operators ask of the ledger on SQLite: counts, and forgetting what is old in small steps (G-5)."""

from __future__ import annotations

from interlock.backends.sqlite import queries
from interlock.backends.sqlite.readers import Readers
from interlock.backends.sqlite.writer import Writer
from interlock.ports.upkeep import Counts, Upkeep


class SqliteUpkeep(Upkeep):
    """See `interlock.ports.upkeep.Upkeep`."""

    _writer: Writer
    _readers: Readers

    async def counts(self) -> Counts:
        found = await self._readers.rows(queries.COUNTS)
        by_kind: dict[str, dict[str, int]] = {"command": {}, "approval": {}, "delivery": {}, "session": {}}
        for kind, state, count in found:
            by_kind[kind][state] = count
        return Counts(by_kind["command"], by_kind["approval"], by_kind["delivery"], by_kind["session"].get("", 0))
