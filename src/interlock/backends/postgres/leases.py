"""Instances and leases in the ledger's database: the clock is the server's, so that gateways with different clocks
agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from interlock.backends.postgres import tenant_moves
from interlock.backends.postgres.database import (
    PostgresReaders,
    PostgresSettings,
    Row,
    close_quietly,
    first_connection,
    look_at_primaries,
)
from interlock.backends.postgres.faults import translate
from interlock.backends.postgres.lane_takeover import Taking
from interlock.backends.postgres.primaries import PrimaryWatch
from interlock.backends.postgres.renewal_thread import RenewalThread
from interlock.backends.postgres.texts import encoded, encoded_lane, lane_columns
from interlock.backends.postgres.writer import PostgresWriter
from interlock.ports.leases import (
    INSTANCE_LIFE_MS,
    PASSED_ON,
    ClusterMember,
    Gone,
    Instance,
    Lease,
    Leases,
    LinkChanges,
    Overtaken,
    RunnerLocation,
    Survey,
    TenantMove,
)
from interlock.ports.ledger import LaneName, NameTaken

JOIN = """
INSERT INTO instance (instance_id, address, expires_ms, since_ms)
VALUES ($1, $2, interlock_now_ms() + $3, interlock_now_ms())
ON CONFLICT (instance_id) DO NOTHING RETURNING 1
"""
LEAVE = "DELETE FROM instance WHERE instance_id = $1 RETURNING 1"
INSTANCES = "SELECT instance_id, address FROM instance WHERE expires_ms > interlock_now_ms() ORDER BY instance_id"
NEXT_EXPIRY = """
SELECT min(expires_ms - interlock_now_ms()) FROM instance WHERE expires_ms > interlock_now_ms()
"""
SURVEY = """
SELECT current_setting('server_version'), (
        SELECT coalesce(max(extract(epoch FROM clock_timestamp() - query_start)) * 1000, 0)::bigint
        FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND datname = current_database()
    ), instance_id, address, since_ms, expires_ms - $1,
    (SELECT count(*) FROM lane WHERE lane.instance_id = instance.instance_id AND lane.instance_id <> '')
FROM (SELECT 1) AS server LEFT JOIN instance ON expires_ms > interlock_now_ms() ORDER BY instance_id
"""
"""One row for each live instance; one of nulls if there is none, for the version and the wait. Any user sees what its
own connections wait for."""
OWNER = """
SELECT instance_id FROM lane JOIN instance USING (instance_id)
WHERE tenant_id = $1 AND name = $2 AND expires_ms > interlock_now_ms()
"""
OWNED = """
SELECT tenant_id, name, epoch FROM lane JOIN unnest($1::text[], $2::text[]) AS args (tenant_id, name)
    USING (tenant_id, name) WHERE instance_id = $3
"""
BEGIN_LANE = """
INSERT INTO lane (tenant_id, name, epoch, instance_id) SELECT $1::text, $2::text, 1, $3::text
FROM (SELECT 1 FROM instance WHERE instance_id = $3 AND expires_ms > interlock_now_ms()) AS alive
WHERE NOT EXISTS (SELECT 1 FROM runner_link JOIN instance USING (instance_id)
                  WHERE tenant_id = $1 AND runner_id = $4 AND instance_id <> $3 AND expires_ms > interlock_now_ms())
ON CONFLICT DO NOTHING RETURNING 1
"""
RELEASE = """
UPDATE lane SET instance_id = '' FROM unnest($1::text[], $2::text[], $3::bigint[]) AS args (tenant_id, name, epoch)
WHERE lane.tenant_id = args.tenant_id AND lane.name = args.name AND lane.epoch = args.epoch
  AND lane.instance_id = $4 RETURNING 1
"""
PASS_ON = """
UPDATE lane SET instance_id = $5 FROM unnest($1::text[], $2::text[], $3::bigint[]) AS args (tenant_id, name, epoch)
WHERE lane.tenant_id = args.tenant_id AND lane.name = args.name AND lane.epoch = args.epoch
  AND lane.instance_id = $4 RETURNING 1
"""
ORPHANS = """
WITH RECURSIVE owner AS (
    SELECT min(instance_id) AS instance_id FROM lane WHERE instance_id <> ''
    UNION ALL
    SELECT (SELECT min(instance_id) FROM lane WHERE lane.instance_id > owner.instance_id AND instance_id <> '')
    FROM owner WHERE owner.instance_id IS NOT NULL
), dead AS (
    SELECT instance_id FROM owner WHERE NOT EXISTS (
        SELECT 1 FROM instance WHERE instance.instance_id = owner.instance_id AND expires_ms > interlock_now_ms())
)
SELECT tenant_id, name FROM dead, LATERAL (
    SELECT tenant_id, name FROM lane WHERE lane.instance_id = dead.instance_id AND instance_id <> '' LIMIT $1) AS found
LIMIT $1
"""
"""Steps from owner to owner along the index: every gateway queries this each second, and most lanes have a live
owner."""
ATTACH = """
INSERT INTO runner_link AS known (runner_id, tenant_id, instance_id, link_id, present, number)
SELECT $1::text, $2::text, $3::text, $4::text, $5::bytea, $6::bigint
FROM (SELECT 1 FROM instance WHERE instance_id = $3 AND expires_ms > interlock_now_ms()) AS alive
ON CONFLICT (tenant_id, runner_id) DO UPDATE SET instance_id = excluded.instance_id,
    link_id = excluded.link_id, present = excluded.present, number = greatest(known.number, excluded.number)
WHERE excluded.number = 0 OR excluded.number > known.number RETURNING 1
"""
WHY_NOT_ATTACHED = """
SELECT EXISTS (SELECT 1 FROM instance WHERE instance_id = $1 AND expires_ms > interlock_now_ms()),
    coalesce((SELECT number FROM runner_link WHERE tenant_id = $2 AND runner_id = $3), 0)
"""
UPDATE = """
UPDATE runner_link SET present = $4
WHERE tenant_id = $1 AND runner_id = $2 AND link_id = $3 AND instance_id <> '' RETURNING 1
"""
DETACH = """
UPDATE runner_link SET instance_id = '', present = ''
WHERE tenant_id = $1 AND runner_id = $2 AND link_id = $3 AND instance_id <> '' RETURNING 1
"""
UPTO = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
"""The oldest open transaction: the changes of those before it are visible from now on."""
SINCE = """
SELECT runner_id, tenant_id, instance_id, link_id, present FROM runner_link
WHERE changed >= $1 AND ($1 > 0 OR instance_id <> '')
"""


async def open_leases(settings: PostgresSettings) -> PostgresLeases:
    """Open the leases of a ledger that is open already: its schema exists. Raises LedgerError."""
    connection = await first_connection(settings)
    renewing = RenewalThread(settings)
    try:
        await renewing.open()
        writer = PostgresWriter(settings, None)
        await writer.open(connection)
    except Exception as error:
        await renewing.close()
        await close_quietly(connection)
        raise translate(error) from error
    watch = PrimaryWatch(settings.primaries, lambda: look_at_primaries(settings))
    watch.start()
    return PostgresLeases(writer, PostgresReaders(settings), renewing, watch)


class PostgresLeases(Leases):
    """See `interlock.ports.leases.Leases`. It has connections of its own: taking a lane does not wait for long commits,
    and a renewal waits for nothing."""

    begins: ClassVar[bool] = True

    def __init__(self, writer: PostgresWriter, readers: PostgresReaders, renewing: RenewalThread, watch: PrimaryWatch
                 ) -> None:
        self._writer = writer
        self._readers = readers
        self._renewing = renewing
        self._watch = watch
        self._taking = Taking(writer)

    async def now_ms(self) -> int:
        found = await self._readers.row("SELECT interlock_now_ms()")
        assert found is not None, "a function gives a row"
        return int(found[0])

    async def join(self, instance: Instance, life_ms: int = INSTANCE_LIFE_MS) -> None:
        if not await self._writer.change(JOIN, encoded(instance.instance_id), encoded(instance.address), life_ms):
            raise NameTaken(f"There was an instance {instance.instance_id} already.")

    async def renew(self, instance_id: str, life_ms: int = INSTANCE_LIFE_MS) -> bool:
        return await self._renewing.renew(instance_id, life_ms)

    async def leave(self, instance_id: str) -> None:
        await self._found(LEAVE, instance_id)

    async def instances(self) -> list[Instance]:
        return [Instance(*row) for row in await self._readers.rows(INSTANCES)]

    async def next_expiry_ms(self) -> int | None:
        found = await self._readers.row(NEXT_EXPIRY)
        assert found is not None, "an aggregate gives a row"
        return found[0]

    async def survey(self) -> Survey:
        rows = await self._readers.rows(SURVEY, INSTANCE_LIFE_MS)
        version, standby_wait_ms = rows[0][:2]
        return Survey(f"PostgreSQL {version}", [ClusterMember(*row[2:]) for row in rows if row[2] is not None],
                      standby_wait_ms, self._watch.trouble)

    async def take(self, lane: LaneName, instance_id: str, runner_id: str | None = None) -> Lease:
        return await self._taking.take(lane, instance_id, runner_id)

    async def begin(self, lane: LaneName, instance_id: str, runner_id: str) -> bool:
        return await self._writer.change(BEGIN_LANE, *encoded_lane(lane), encoded(instance_id), encoded(runner_id))

    async def claim(self, lanes: Sequence[tuple[LaneName, str | None]], instance_id: str) -> dict[LaneName, int]:
        return await self._taking.claim(dict(lanes), instance_id)

    async def release(self, lanes: Sequence[tuple[LaneName, int]], instance_id: str) -> None:
        await self._writer.change(RELEASE, *_columns(lanes), encoded(instance_id))

    async def pass_on(self, lanes: Sequence[tuple[LaneName, int]], instance_id: str) -> None:
        await self._writer.change(PASS_ON, *_columns(lanes), encoded(instance_id), PASSED_ON)

    async def owned(self, lanes: Sequence[LaneName], instance_id: str) -> dict[LaneName, int]:
        rows = await self._readers.rows(OWNED, *lane_columns(map(encoded_lane, lanes)), encoded(instance_id))
        return {LaneName(tenant_id, name): int(epoch) for tenant_id, name, epoch in rows}

    async def owner(self, lane: LaneName) -> str | None:
        found = await self._readers.row(OWNER, *lane)
        return found[0] if found is not None else None

    async def orphans(self, limit: int) -> list[LaneName]:
        return [LaneName(*row) for row in await self._readers.rows(ORPHANS, limit)]

    async def attach(self, link: RunnerLocation, number: int = 0) -> None:
        if await self._writer.change(ATTACH, *_held(link), number):
            return
        found = await self._readers.row(WHY_NOT_ATTACHED, link.instance_id, link.tenant_id, link.runner_id)
        assert found is not None, "values give a row"
        alive, newest = found
        if not alive:
            raise Gone(f"The instance {link.instance_id} was not renewed for too long, and is taken for dead.")
        raise Overtaken(link.runner_id, int(newest))

    async def update(self, link: RunnerLocation) -> bool:
        return await self._found(UPDATE, link.tenant_id, link.runner_id, link.link_id, link.present)

    async def detach(self, tenant_id: str, runner_id: str, link_id: str) -> bool:
        return await self._found(DETACH, tenant_id, runner_id, link_id)

    async def links_since(self, upto: int) -> LinkChanges:
        found = await self._readers.row(UPTO)
        assert found is not None, "a function gives a row"
        return LinkChanges([RunnerLocation(*row) for row in await self._readers.rows(SINCE, upto)], int(found[0]))

    async def moves(self) -> list[TenantMove]:
        return [TenantMove(*row) for row in await self._readers.rows(tenant_moves.MOVES)]

    async def acknowledge(self, move: TenantMove, instance_id: str) -> None:
        await self._found(tenant_moves.ACKNOWLEDGE, move.tenant_id, instance_id, move.move_id, move.step)

    async def end_overdue_moves(self) -> list[str]:
        return await self._writer.run(tenant_moves.thaw_overdue)

    async def close(self) -> None:
        """Finish what was submitted, then close."""
        await self._watch.stop()
        await self._writer.close()
        await self._readers.close()
        await self._renewing.close()

    async def _found(self, sql: str, *values: str | int | bytes) -> bool:
        return await self._writer.change(sql, *_held(values))


def _columns(lanes: Sequence[tuple[LaneName, int]]) -> tuple[list[str], list[str], list[int]]:
    """Return the tenants, the names and the epochs, in the same order."""
    return *lane_columns(encoded_lane(lane) for lane, _ in lanes), [epoch for _, epoch in lanes]


def _held(values: Sequence[str | int | bytes]) -> Row:
    return tuple(encoded(one) if isinstance(one, str) else one for one in values)
