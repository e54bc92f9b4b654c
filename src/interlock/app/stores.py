"""The stores of a gateway: a file of its state, or a database that several gateways share, with their bus."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, Protocol

import structlog

from interlock.app.data_migration.departure import why_not_here
from interlock.app.place import CLOCK_NAME, DeadlineClock, Sources
from interlock.backends.bus_local.bus import LocalBus
from interlock.backends.jsonl.transcripts import JsonlTranscripts
from interlock.backends.sqlite.ledger import LEDGER_NAME, open_ledger
from interlock.backends.sqlite.writer import Measured
from interlock.config import ClusterSection, ConfigError
from interlock.ports.bus import Bus
from interlock.ports.clock import Clock
from interlock.ports.leases import Leases
from interlock.ports.ledger import Ledger, LedgerError
from interlock.ports.transcripts import TranscriptStore
from interlock.protocol.extras import install

NATS = "interlock.backends.bus_nats"
LOOK_S = 10.0
"""Interval at which the store's time is read: a machine's own clock drifts."""
TRIES = 5
"""Number of reads of the clock; the latest of the answers counts."""
log = structlog.get_logger("interlock.gateway")


class MeasuredLedger(Ledger, Protocol):
    """A ledger that reports on its transactions."""

    def measure(self, measured: Measured, stepwise: Callable[[str], None]) -> None: ...


class SharedLeases(Leases, Protocol):
    """Leases that are closed in the end."""

    async def close(self) -> None: ...


class Others(NamedTuple):
    """The shared parts if several gateways share a ledger."""

    leases: SharedLeases
    bus: Bus


class Stores(NamedTuple):
    """The stores that a gateway uses. `clock` is the deadline clock, `shown` is the ledger's address, for
    people."""

    ledger: MeasuredLedger
    transcripts: TranscriptStore
    clock: Clock
    shown: str
    others: Others | None
    wall: Clock
    """The clock of the times that are stored and shown: this machine's, or in a cluster the ledger's."""

    async def close(self) -> None:
        """Close all of them; what was acknowledged is durable."""
        await self.transcripts.close()
        if self.others is not None:
            await self.others.bus.close()
            with suppress(LedgerError):
                await self.others.leases.close()
        if isinstance(self.clock, LedgerClock):
            await self.clock.stop()
        await self.ledger.close()


class LedgerClock:
    """Milliseconds since the epoch by the store's clock: gateways whose clocks differ by a minute agree (C-1)."""

    def __init__(self, wall: Clock, sources: Sources | None = None) -> None:
        """Create the clock; until `start` the time is that of `wall`."""
        self._leases: Leases | None = None
        self._sources: Sources = sources or Sources()
        self._offset_ms = wall.now_ms() - self._sources.since_boot_ms()
        self._task: asyncio.Task[None] | None = None

    async def start(self, leases: Leases) -> None:
        """Read the store's time, and again every LOOK_S. Raises LedgerError."""
        self._leases = leases
        await self.look()
        self._task = asyncio.create_task(self._look_on(), name="ledger clock")

    async def stop(self) -> None:
        """Stop reading."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def look(self) -> None:
        """Read the time. Raises LedgerError.

        An answer only shows that the store's time was read before it arrived: how long it was under way is unknown. So
        the time is behind the store's by the transit of the fastest answer, and never ahead: a deadline may be late by
        that much, and never early."""
        assert self._leases is not None, "it was started"
        offsets = [await self._leases.now_ms() - self._sources.since_boot_ms() for _ in range(TRIES)]
        self._offset_ms = max(offsets)

    async def _look_on(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self.look()
            except LedgerError as error:
                log.warning("ledger_time_not_had", error=str(error))

    def now_ms(self) -> int:
        """Return the line's time."""
        return self._sources.since_boot_ms() + self._offset_ms

    def monotonic_ms(self) -> int:
        """Return milliseconds that never decrease."""
        return self._sources.since_boot_ms()


async def open_stores(state: Path, section: ClusterSection, wall: Clock) -> Stores:
    """Open the stores of the config. Raises LedgerError, BusError, ConfigError, each with one sentence."""
    if section.store is None:
        if (moved := why_not_here(state)) is not None:
            raise LedgerError(moved)
        ledger = await open_ledger(state / LEDGER_NAME, wall)
        return Stores(ledger, JsonlTranscripts(state, wall), DeadlineClock(state / CLOCK_NAME),
                      str(state / LEDGER_NAME), None, wall)
    return await _open_shared(state, section.store, section.bus, wall)


async def _open_shared(state: Path, store: str, bus: str | None, wall: Clock) -> Stores:
    try:  # Heavy imports that a single gateway does not need.
        from interlock.backends.postgres.database import read_settings, shown
        from interlock.backends.postgres.leases import open_leases
        from interlock.backends.postgres.ledger import open_ledger as open_database
        from interlock.backends.postgres.primaries import FILE_NAME, Primaries
        from interlock.backends.postgres.transcripts import PostgresTranscripts
    except ModuleNotFoundError:
        raise ConfigError([f"[cluster]: store needs the extra cluster: {install('cluster')}."]) from None
    settings = read_settings(store)._replace(primaries=Primaries(state / FILE_NAME))
    clock = LedgerClock(wall)
    ledger = await open_database(settings, clock, keeps_transcripts=True)
    try:
        leases = await open_leases(settings)
        await clock.start(leases)
        others = Others(leases, await _open_bus(bus, await ledger.gateway_id()))
    except BaseException:
        await ledger.close()
        raise
    return Stores(ledger, PostgresTranscripts(ledger, clock), clock, shown(store), others, clock)


async def _open_bus(addresses: str | None, gateway_id: str) -> Bus:
    if addresses is None:
        return LocalBus()
    try:
        nats, places = import_module(f"{NATS}.bus"), import_module(f"{NATS}.places")
    except ModuleNotFoundError:
        raise ConfigError([f"[cluster]: bus needs the extra cluster: {install('cluster')}."]) from None
    return await nats.open_bus(places.read_places(addresses), gateway_id)
