"""The ledger on PostgreSQL: for several gateways, each with one writing connection and a few that read (C-4, D-1)."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from interlock.backends.audit_room import AuditedLedger, AuditRoom
from interlock.backends.postgres import statements
from interlock.backends.postgres.database import (
    LANE_CONNECTIONS,
    PostgresConnection,
    PostgresReaders,
    PostgresSettings,
    close_quietly,
    connect,
    first_connection,
    shown,
)
from interlock.backends.postgres.entries import Entries
from interlock.backends.postgres.faults import NotAPostgresLedger, translate
from interlock.backends.postgres.reader import PostgresReading
from interlock.backends.postgres.schema import MOVED, migrate
from interlock.backends.postgres.texts import encoded_lane
from interlock.backends.postgres.upkeep import PostgresUpkeep
from interlock.backends.postgres.writer import Measured, PostgresWriter
from interlock.ports.clock import Clock
from interlock.ports.ledger import EraseAudit, LaneName, LedgerError, Receipt, WriteBatch
from interlock.protocol.clock import iso

_LOSING = "SELECT current_setting('fsync'), current_setting('synchronous_commit'), current_setting('full_page_writes')"

T = TypeVar("T")
log = structlog.get_logger("interlock.postgres")


async def open_ledger(settings: PostgresSettings, clock: Clock, *, keeps_transcripts: bool = False,
                      may_migrate: bool = True) -> PostgresLedger:
    """Open the ledger in a database, creating or updating its schema, on the running loop.

    With `keeps_transcripts` a transcript's lines are written in the transaction that creates them (X-3), to be read by
    `PostgresTranscripts`; otherwise they wait in the ledger to be written to files. Raises NotReached,
    NotAPostgresLedger, WrongSchema or another LedgerError, each with one sentence.
    """
    connection = await first_connection(settings)
    try:
        await migrate(connection, settings.dsn, may=may_migrate)
        moved_to = await connection.fetchval("SELECT value FROM store WHERE name = $1", MOVED)
        if moved_to is not None:
            raise NotAPostgresLedger(f"The ledger at {shown(settings.dsn)} was moved to {moved_to}: start the gateway "
                                     f"there.")
        await connection.execute(statements.ADD_FACT, "gateway_id", "gw_" + os.urandom(8).hex())
        await connection.execute(statements.ADD_FACT, "created_at", iso(clock.now_ms()))
        gateway_id = str(await connection.fetchval("SELECT value FROM store WHERE name = 'gateway_id'"))
        await _warn_of_loss(connection, settings)
        room = AuditRoom()
        writer = PostgresWriter(settings, Entries() if keeps_transcripts else None, room.bound)
        await writer.open(connection)
    except Exception as error:
        await close_quietly(connection)
        raise translate(error) from error
    return PostgresLedger(gateway_id, settings, writer, room, keeps_transcripts=keeps_transcripts)


class PostgresLedger(AuditedLedger, PostgresUpkeep, PostgresReading):
    """The ledger on PostgreSQL; see `interlock.ports.ledger.Ledger` for what each call guarantees."""

    def __init__(self, gateway_id: str, settings: PostgresSettings, writer: PostgresWriter, room: AuditRoom, *,
                 keeps_transcripts: bool) -> None:
        self._gateway_id = gateway_id
        self._settings = settings
        self._writer = writer
        self._readers = PostgresReaders(settings)
        self._lane_readers = PostgresReaders(settings, LANE_CONNECTIONS)
        self._keeps_transcripts = keeps_transcripts
        self._room = room

    def measure(self, measured: Measured, stepwise: Callable[[str], None] = lambda _reason: None) -> None:
        """Call `measured` with the batches and the seconds of each transaction, and `stepwise` with the reason of each
        that took more than one statement."""
        self._writer.measure(measured, stepwise)

    async def commit(self, batch: WriteBatch) -> Receipt:
        receipt = await self._room.commit(batch, self._writer.commit)
        if any(isinstance(write, EraseAudit) for write in batch.writes):
            await self._free_space()
        return receipt

    async def take(self, lane: LaneName) -> int:
        async def take(connection: PostgresConnection) -> int:
            named = encoded_lane(lane)
            epoch = await connection.fetchval(statements.TAKE_LANE, *named)
            if epoch is None:
                await connection.execute(statements.NAME_LANE, *named)
                epoch = await connection.fetchval(statements.TAKE_LANE, *named)
            return int(epoch)

        return await self._writer.run(take)

    async def gateway_id(self) -> str:
        return self._gateway_id

    async def transact(self, work: Callable[[PostgresConnection], Awaitable[T]]) -> T:
        """Do `work` in a transaction of the writer; returns its result once that is durable. Raises LedgerError."""
        return await self._writer.run(work)

    @property
    def readers(self) -> PostgresReaders:
        """Return the connections that read, for other data in the same database."""
        return self._readers

    @property
    def lane_readers(self) -> PostgresReaders:
        """Return the connections for reading many lanes."""
        return self._lane_readers

    async def close(self) -> None:
        await self._writer.close()
        await self._readers.close()
        await self._lane_readers.close()

    async def _free_space(self) -> None:
        """Make the server free the space of erased data (U-4). The data is erased even if that fails."""
        try:
            connection = await connect(self._settings)
        except Exception as error:  # noqa: BLE001 - the server does the same by itself, later
            log.warning("erased_space_is_freed_later", reason=str(error))
            return
        try:
            await connection.execute(statements.VACUUM_PERSONAL)
        except Exception as error:  # noqa: BLE001 - as above
            log.warning("erased_space_is_freed_later", reason=str(error))
        finally:
            await close_quietly(connection)


async def _warn_of_loss(connection: PostgresConnection, settings: PostgresSettings) -> None:
    """Log a warning if the server is configured to lose acknowledged commits in a power cut (D-1)."""
    row = await connection.fetchrow(_LOSING)
    assert row is not None, "the statement gives one row"
    if row[1] == "off":
        raise LedgerError(f"The server at {shown(settings.dsn)} acknowledges before it has written "
                          "(synchronous_commit = off), so what was promised would not be kept: set it to on for this "
                          "database or user.")
    if row[0] == "off" or row[2] == "off":
        log.warning("postgres_may_lose_what_it_acknowledged", fsync=row[0], full_page_writes=row[2],
                    remedy="set both to on, except for tests")
