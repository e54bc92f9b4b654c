"""Taking of lanes: all waiting ones are taken in one transaction, with as many statements for one lane as for 256; and
claims of orphaned lanes, each of them one statement."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Set
from functools import partial
from typing import NamedTuple

from interlock.backends.postgres.database import PostgresConnection, Row
from interlock.backends.postgres.texts import decoded, encoded, encoded_lane, lane_columns
from interlock.backends.postgres.writer import PostgresWriter
from interlock.ports.leases import Gone, Lease
from interlock.ports.ledger import LaneName, TenantMoving

TAKE_LIMIT = 256
"""Lanes that one transaction takes."""
ALIVE = "SELECT 1 FROM instance WHERE instance_id = $1 AND expires_ms > interlock_now_ms()"
_HOLD = """
SELECT lane.tenant_id, lane.name, lane.epoch, lane.instance_id
FROM lane JOIN unnest($2::text[], $3::text[]) AS args (tenant_id, name) USING (tenant_id, name)
ORDER BY lane.name FOR UPDATE OF lane
"""
"""A transaction that takes lanes waits here for the commits under their epochs, and for others that take them."""
HOLD = f"""
WITH alive AS ({ALIVE}), held AS ({_HOLD})
SELECT held.* FROM (SELECT count(*) AS there FROM alive) AS asker LEFT JOIN held ON true WHERE there > 0
"""
"""Returns no row if the caller is not alive, and a row of nulls if there is no lane."""
NAME_LANES = """
INSERT INTO lane (tenant_id, name, epoch)
SELECT tenant_id, name, 0 FROM unnest($1::text[], $2::text[]) AS args (tenant_id, name)
ON CONFLICT DO NOTHING RETURNING tenant_id, name, epoch, instance_id
"""
"""Also adds the tenant to the row of a gateway that does not know of tenants of lanes (migration 0019)."""
TAKE = """
WITH whose AS (
    SELECT args.tenant_id, args.name,
        (SELECT instance_id FROM runner_link JOIN instance USING (instance_id)
         WHERE tenant_id = args.tenant_id AND runner_id = args.runner_id
           AND expires_ms > interlock_now_ms()) AS linked,
        (SELECT instance_id FROM instance WHERE instance_id = args.owner AND expires_ms > interlock_now_ms()) AS owner
    FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS args (tenant_id, name, runner_id, owner)
), taken AS (
    UPDATE lane SET epoch = lane.epoch + 1, instance_id = $5 FROM whose
    WHERE lane.tenant_id = whose.tenant_id AND lane.name = whose.name
      AND coalesce(whose.linked, whose.owner, $5) = $5 AND NOT lane.frozen
    RETURNING lane.tenant_id, lane.name, lane.epoch
)
SELECT whose.tenant_id, whose.name, coalesce(whose.linked, whose.owner), taken.epoch
FROM whose LEFT JOIN taken USING (tenant_id, name)
"""
"""For each locked lane: the live instance that its runner is attached to, or otherwise its owner if that is alive; and
the new epoch if it was taken, since there is no such instance or it is the caller. Of a frozen lane, whose tenant is
being moved, neither."""
CLAIM = (
    ("alive", ALIVE),
    ("args", """
SELECT * FROM unnest($2::text[], $3::text[], $4::text[]) WITH ORDINALITY AS args (tenant_id, name, runner_id, place)
"""),
    ("dead", """
SELECT DISTINCT lane.instance_id FROM lane JOIN args USING (tenant_id, name)
WHERE lane.instance_id <> '' AND NOT EXISTS (
    SELECT 1 FROM instance WHERE instance.instance_id = lane.instance_id AND expires_ms > interlock_now_ms())
"""),
    ("held", """
SELECT lane.tenant_id, lane.name,
    (SELECT instance_id FROM runner_link JOIN instance USING (instance_id)
     WHERE tenant_id = args.tenant_id AND runner_id = args.runner_id
       AND expires_ms > interlock_now_ms()) AS linked
FROM lane JOIN args USING (tenant_id, name) JOIN dead USING (instance_id)
WHERE EXISTS (SELECT 1 FROM alive) AND NOT lane.frozen
ORDER BY lane.name FOR UPDATE OF lane SKIP LOCKED
"""),
    ("taken", """
UPDATE lane SET epoch = lane.epoch + 1, instance_id = $1 FROM held
WHERE lane.tenant_id = held.tenant_id AND lane.name = held.name AND coalesce(held.linked, $1) = $1
RETURNING lane.tenant_id, lane.name, lane.epoch
"""),
    ("changed", """
SELECT coalesce(array_agg(coalesce(taken.epoch, 0) ORDER BY place), '{}') AS numbers
FROM args LEFT JOIN taken USING (tenant_id, name) WHERE EXISTS (SELECT 1 FROM alive)
"""),
)
"""Parts of a statement. Its numbers are the new epochs of the lanes in their order, 0 for those that were not
claimed; none if the caller is not alive. An owner that is dead stays so. A row that another transaction has changed
since the statement began is compared again as it is locked, so a lane that another gateway claimed meanwhile has
another owner and is left out."""


class _Asked(NamedTuple):
    lane: LaneName
    instance_id: str
    runner_id: str | None
    answer: asyncio.Future[Lease]


class Taking:
    """Takes lanes over the writer of the leases."""

    def __init__(self, writer: PostgresWriter) -> None:
        self._writer = writer
        self._asked: list[_Asked] = []
        self._task: asyncio.Task[None] | None = None

    async def take(self, lane: LaneName, instance_id: str, runner_id: str | None) -> Lease:
        """See `Leases.take`."""
        answer = asyncio.get_running_loop().create_future()
        self._asked.append(_Asked(lane, instance_id, runner_id, answer))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._take_all(), name="taking lanes")
        return await answer

    async def claim(self, lanes: Mapping[LaneName, str | None], instance_id: str) -> dict[LaneName, int]:
        """See `Leases.claim`."""
        named = [encoded_lane(lane) for lane in lanes]
        runners = [encoded(one) if one is not None else None for one in lanes.values()]
        epochs = await self._writer.numbers(CLAIM, encoded(instance_id), *lane_columns(named), runners)
        if lanes and not epochs:
            raise _gone(instance_id)
        return {lane: epoch for lane, epoch in zip(lanes, epochs, strict=True) if epoch}

    async def _take_all(self) -> None:
        while self._asked:
            group = self._group()
            lanes = {one.lane: one.runner_id for one in group}
            try:
                leases = await self._writer.run(partial(_take, lanes=lanes, instance_id=group[0].instance_id))
            except Exception as error:  # noqa: BLE001 - it is the answer of those who wait
                for one in group:
                    if not one.answer.done():
                        one.answer.set_exception(error)
                continue
            for one in group:
                if one.answer.done():
                    continue
                if (lease := leases.get(one.lane)) is not None:
                    one.answer.set_result(lease)
                else:
                    one.answer.set_exception(TenantMoving("The tenant of this session is being moved."))

    def _group(self) -> list[_Asked]:
        """Return the next lanes of one instance, each of them once: taking a lane again needs another epoch."""
        group, rest, seen = list[_Asked](), list[_Asked](), set[LaneName]()
        for one in self._asked:
            fits = len(group) < TAKE_LIMIT and one.lane not in seen and (
                not group or one.instance_id == group[0].instance_id)
            (group if fits else rest).append(one)
            seen.add(one.lane)
        self._asked = rest
        return group


def _gone(instance_id: str) -> Gone:
    return Gone(f"The instance {instance_id} was not renewed for too long, and is taken for dead.")


async def _take(connection: PostgresConnection, lanes: Mapping[LaneName, str | None], instance_id: str
                ) -> dict[LaneName, Lease]:
    """Take those of these lanes, each with its runner, that can be taken; returns (lane → its owner now), without
    frozen lanes. Raises Gone."""
    mine, wanted = encoded(instance_id), {encoded_lane(lane): lane for lane in lanes}
    rows = await connection.fetch(HOLD, mine, *lane_columns(wanted))
    if not rows:
        raise _gone(instance_id)
    rows = [row for row in rows if row[0] is not None]
    rows += await _named(connection, mine, wanted.keys() - {_lane(row) for row in rows})
    runners = [lanes[wanted[_lane(row)]] for row in rows]
    epochs = {_lane(row): int(row[2]) for row in rows}
    found = await connection.fetch(
        TAKE, *lane_columns(epochs), [encoded(one) if one is not None else None for one in runners],
        [row[3] for row in rows], mine)
    leases = dict[LaneName, Lease]()
    for tenant_id, name, holder, epoch in found:
        lane = LaneName(tenant_id, name)
        if epoch is not None:
            leases[wanted[lane]] = Lease(epoch, instance_id)
        elif holder is not None:
            leases[wanted[lane]] = Lease(epochs[lane], decoded(holder))
    return leases


async def _named(connection: PostgresConnection, mine: str, lanes: Set[LaneName]) -> list[Row]:
    """Create rows for these lanes, and lock them; one that another gateway has created meanwhile is locked as it is
    now."""
    if not lanes:
        return []
    # In the order of their names, as everywhere: two that create the same ones would wait for each other.
    rows = await connection.fetch(NAME_LANES, *lane_columns(sorted(lanes, key=lambda lane: lane.name)))
    rest = lanes - {_lane(row) for row in rows}
    return rows + await connection.fetch(HOLD, mine, *lane_columns(rest)) if rest else rows


def _lane(row: Row) -> LaneName:
    return LaneName(row[0], row[1])
