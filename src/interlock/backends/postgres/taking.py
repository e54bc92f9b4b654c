"""Taking lanes: all that wait are taken in one transaction, whose statements are as many for one lane as for 256."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from interlock.backends.postgres.database import Connection
from interlock.backends.postgres.texts import given, held
from interlock.backends.postgres.writer import Writer
from interlock.ports.leases import Gone, Lease

TAKE_LIMIT = 256
"""Lanes that one transaction takes."""
ALIVE = "SELECT 1 FROM instance WHERE instance_id = $1 AND expires_ms > interlock_now_ms() FOR KEY SHARE"
"""Hold the asker's row: it cannot leave before the transaction has ended. A renewal goes with this lock."""
NAME_LANES = f"""
WITH named AS (
    INSERT INTO lane (name, epoch) SELECT name, 0 FROM unnest($2::text[]) AS name ON CONFLICT (name) DO NOTHING
)
{ALIVE}
"""
HOLD = "SELECT name, epoch, instance_id FROM lane WHERE name = ANY ($1::text[]) ORDER BY name FOR UPDATE"
"""Whoever takes lanes waits here for the commits that go on under their epochs, and for others who take them."""
HOLD_FREE = f"{HOLD} SKIP LOCKED"
WHOSE = """
SELECT given.name,
    (SELECT instance_id FROM runner_link JOIN instance USING (instance_id)
     WHERE runner_id = given.runner_id AND expires_ms > interlock_now_ms()),
    (SELECT instance_id FROM instance WHERE instance_id = given.owner AND expires_ms > interlock_now_ms())
FROM unnest($1::text[], $2::text[], $3::text[]) AS given (name, runner_id, owner)
"""
"""For each lane: the live instance that its runner is attached to, and its owner if that is alive."""
TAKE = "UPDATE lane SET epoch = epoch + 1, instance_id = $2 WHERE name = ANY ($1::text[]) RETURNING name, epoch"


class _Asked(NamedTuple):
    lane: str
    instance_id: str
    runner_id: str | None
    answer: asyncio.Future[Lease]


class Taking:
    """Takes lanes over the writer of the leases."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._asked: list[_Asked] = []
        self._task: asyncio.Task[None] | None = None

    async def take(self, lane: str, instance_id: str, runner_id: str | None) -> Lease:
        """See `Leases.take`."""
        answer = asyncio.get_running_loop().create_future()
        self._asked.append(_Asked(lane, instance_id, runner_id, answer))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._take_all(), name="taking lanes")
        return await answer

    async def claim(self, lanes: Mapping[str, str | None], instance_id: str) -> dict[str, int]:
        """See `Leases.claim`."""
        leases = await self._writer.run(partial(_take, lanes=lanes, instance_id=instance_id, orphans=True))
        return {lane: lease.epoch for lane, lease in leases.items() if lease.instance_id == instance_id}

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
                if not one.answer.done():
                    one.answer.set_result(leases[one.lane])

    def _group(self) -> list[_Asked]:
        """The next lanes of one instance, each of them once: who takes a lane again wants another epoch."""
        group, rest, seen = list[_Asked](), list[_Asked](), set[str]()
        for one in self._asked:
            fits = len(group) < TAKE_LIMIT and one.lane not in seen and (
                not group or one.instance_id == group[0].instance_id)
            (group if fits else rest).append(one)
            seen.add(one.lane)
        self._asked = rest
        return group


async def _take(connection: Connection, lanes: Mapping[str, str | None], instance_id: str, *, orphans: bool = False
                ) -> dict[str, Lease]:
    """Take those lanes that may be had: (lane → whose it is now). With `orphans`, only those whose owner is dead and
    which no other transaction holds; the rest is left out. Raises Gone."""
    mine, names = held(instance_id), [held(lane) for lane in lanes]
    # An orphan has a row, and none is made for it.
    if await connection.fetchval(NAME_LANES, mine, [] if orphans else names) is None:
        raise Gone(f"The instance {instance_id} was not renewed for too long, and is taken for dead.")
    rows = await connection.fetch(HOLD_FREE if orphans else HOLD, names)
    rows = [row for row in rows if row[2] or not orphans]
    runners = {held(lane): held(runner_id) if runner_id is not None else None for lane, runner_id in lanes.items()}
    whose = {name: (linked, alive) for name, linked, alive in await connection.fetch(
        WHOSE, [row[0] for row in rows], [runners[row[0]] for row in rows], [row[2] for row in rows])}
    leases = dict[str, Lease]()
    free = list[str]()
    for name, epoch, _ in rows:
        linked, alive = whose[name]
        holder = linked or alive
        if orphans and alive:
            continue
        if holder in (None, mine):
            free.append(name)
        else:
            leases[given(name)] = Lease(epoch, given(holder))
    for name, epoch in await connection.fetch(TAKE, free, mine) if free else ():
        leases[given(name)] = Lease(epoch, instance_id)
    return leases
