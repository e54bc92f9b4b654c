"""Instances and leases in the ledger's file: engines of one process share it (C-4). Time is that of the process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from interlock.backends.sqlite.database import SqliteDatabase
from interlock.backends.sqlite.ledger import SqliteLedger
from interlock.ports.clock import Clock
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
)

_JOIN = "INSERT INTO instance (instance_id, address, expires_ms, since_ms) VALUES (?, ?, ?, ?)"
_RENEW = "UPDATE instance SET expires_ms = ? WHERE instance_id = ? AND expires_ms > ? RETURNING 1"
_LEAVE = "DELETE FROM instance WHERE instance_id = ?"
_ALIVE = "SELECT 1 FROM instance WHERE instance_id = ? AND expires_ms > ?"
_INSTANCES = "SELECT instance_id, address FROM instance WHERE expires_ms > ? ORDER BY instance_id"
_SURVEY = """
SELECT instance_id, address, since_ms, expires_ms - ?2,
    (SELECT count(*) FROM lane WHERE lane.instance_id = instance.instance_id AND lane.instance_id <> '')
FROM instance WHERE expires_ms > ?1 ORDER BY instance_id
"""
_VERSION = "SELECT sqlite_version()"
_OWNER = """
SELECT instance_id FROM lane JOIN instance USING (instance_id) WHERE name = ? AND expires_ms > ?
"""
_LINKED = """
SELECT instance_id FROM runner_link JOIN instance USING (instance_id) WHERE runner_id = ? AND expires_ms > ?
"""
_EPOCH = "SELECT epoch FROM lane WHERE name = ?"
_TAKE = """
INSERT INTO lane (name, epoch, instance_id) VALUES (?, 1, ?)
ON CONFLICT (name) DO UPDATE SET epoch = epoch + 1, instance_id = excluded.instance_id RETURNING epoch
"""
_RELEASE = "UPDATE lane SET instance_id = '' WHERE name = ? AND epoch = ? AND instance_id = ?"
_OWNED = "SELECT instance_id FROM lane WHERE name = ? AND instance_id <> ''"
_PASS_ON = "UPDATE lane SET instance_id = ? WHERE name = ? AND epoch = ? AND instance_id = ?"
_ORPHANS = """
SELECT name FROM lane WHERE instance_id <> ''
  AND instance_id NOT IN (SELECT instance_id FROM instance WHERE expires_ms > ?) LIMIT ?
"""
_ATTACH = """
INSERT INTO runner_link (runner_id, tenant_id, instance_id, link_id, present, number, changed)
VALUES (?, ?, ?, ?, ?, ?, 1 + (SELECT coalesce(max(changed), 0) FROM runner_link))
ON CONFLICT (runner_id) DO UPDATE SET tenant_id = excluded.tenant_id, instance_id = excluded.instance_id,
    link_id = excluded.link_id, present = excluded.present, number = max(number, excluded.number),
    changed = excluded.changed
WHERE excluded.number = 0 OR excluded.number > number RETURNING 1
"""
_NEWEST = "SELECT number FROM runner_link WHERE runner_id = ?"
_UPDATE = """
UPDATE runner_link SET present = ?, changed = 1 + (SELECT max(changed) FROM runner_link)
WHERE tenant_id = ? AND runner_id = ? AND link_id = ? AND instance_id <> '' RETURNING 1
"""
_DETACH = """
UPDATE runner_link SET instance_id = '', present = x'', changed = 1 + (SELECT max(changed) FROM runner_link)
WHERE tenant_id = ? AND runner_id = ? AND link_id = ? AND instance_id <> '' RETURNING 1
"""
_UPTO = "SELECT coalesce(max(changed), 0) FROM runner_link"
_SINCE = """
SELECT runner_id, tenant_id, instance_id, link_id, present FROM runner_link
WHERE changed > ?1 AND (?1 > 0 OR instance_id <> '')
"""
_LINKS = """
SELECT runner_id, tenant_id, instance_id, link_id, present FROM runner_link JOIN instance USING (instance_id)
WHERE expires_ms > ? AND (? IS NULL OR tenant_id = ?) ORDER BY runner_id
"""


class SqliteLeases(Leases):
    """See `interlock.ports.leases.Leases`."""

    def __init__(self, ledger: SqliteLedger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock

    async def now_ms(self) -> int:
        return self._clock.now_ms()

    async def join(self, instance: Instance, life_ms: int = INSTANCE_LIFE_MS) -> None:
        now = self._clock.now_ms()
        await self._do(lambda store: store.execute(_JOIN, (*instance, now + life_ms, now)))

    async def renew(self, instance_id: str, life_ms: int = INSTANCE_LIFE_MS) -> bool:
        now = self._clock.now_ms()
        return await self._do(lambda store: store.execute(_RENEW, (now + life_ms, instance_id, now)).get) is not None

    async def leave(self, instance_id: str) -> None:
        await self._do(lambda store: store.execute(_LEAVE, (instance_id,)))

    async def instances(self) -> list[Instance]:
        now = self._clock.now_ms()
        return [Instance(*row) for row in await self._do(lambda store: store.execute(_INSTANCES, (now,)).fetchall())]

    async def survey(self) -> Survey:
        now = self._clock.now_ms()

        def survey(store: SqliteDatabase) -> Survey:
            found = store.execute(_SURVEY, (now, INSTANCE_LIFE_MS)).fetchall()
            return Survey(f"SQLite {store.execute(_VERSION).get}", [ClusterMember(*row) for row in found])

        return await self._do(survey)

    async def take(self, lane: str, instance_id: str, runner_id: str | None = None) -> Lease:
        now = self._clock.now_ms()

        def take(store: SqliteDatabase) -> Lease:
            _check(store, instance_id, now)
            return _take(store, lane, instance_id, runner_id, now)

        return await self._do(take)

    async def release(self, lanes: Sequence[tuple[str, int]], instance_id: str) -> None:
        def release(store: SqliteDatabase) -> None:
            for lane, epoch in lanes:
                store.execute(_RELEASE, (lane, epoch, instance_id))

        await self._do(release)

    async def claim(self, lanes: Sequence[tuple[str, str | None]], instance_id: str) -> dict[str, int]:
        now = self._clock.now_ms()

        def claim(store: SqliteDatabase) -> dict[str, int]:
            _check(store, instance_id, now)
            leases = {lane: _take(store, lane, instance_id, runner_id, now) for lane, runner_id in lanes
                      if store.execute(_OWNED, (lane,)).get and not store.execute(_OWNER, (lane, now)).get}
            return {lane: lease.epoch for lane, lease in leases.items() if lease.instance_id == instance_id}

        return await self._do(claim)

    async def pass_on(self, lanes: Sequence[tuple[str, int]], instance_id: str) -> None:
        def pass_on(store: SqliteDatabase) -> None:
            for lane, epoch in lanes:
                store.execute(_PASS_ON, (PASSED_ON, lane, epoch, instance_id))

        await self._do(pass_on)

    async def owner(self, lane: str) -> str | None:
        now = self._clock.now_ms()
        return await self._do(lambda store: store.execute(_OWNER, (lane, now)).get)

    async def orphans(self, limit: int) -> list[str]:
        now = self._clock.now_ms()
        return [row[0] for row in await self._do(lambda store: store.execute(_ORPHANS, (now, limit)).fetchall())]

    async def attach(self, link: RunnerLocation, number: int = 0) -> None:
        now = self._clock.now_ms()

        def attach(store: SqliteDatabase) -> None:
            _check(store, link.instance_id, now)
            if store.execute(_ATTACH, (*link, number)).get is None:
                raise Overtaken(link.runner_id, store.execute(_NEWEST, (link.runner_id,)).get)

        await self._do(attach)

    async def update(self, link: RunnerLocation) -> bool:
        given = (link.present, link.tenant_id, link.runner_id, link.link_id)
        return await self._do(lambda store: store.execute(_UPDATE, given).get) is not None

    async def detach(self, tenant_id: str, runner_id: str, link_id: str) -> bool:
        return await self._do(lambda store: store.execute(_DETACH, (tenant_id, runner_id, link_id)).get) is not None

    async def links(self, tenant_id: str | None = None) -> list[RunnerLocation]:
        given = (self._clock.now_ms(), tenant_id, tenant_id)
        return [RunnerLocation(*row) for row in await self._do(lambda store: store.execute(_LINKS, given).fetchall())]

    async def links_since(self, upto: int) -> LinkChanges:
        def since(store: SqliteDatabase) -> LinkChanges:
            found = store.execute(_SINCE, (upto,)).fetchall()
            return LinkChanges([RunnerLocation(*row) for row in found], store.execute(_UPTO).get or 0)

        return await self._do(since)

    async def _do(self, work: Callable[[SqliteDatabase], Any]) -> Any:
        return await self._ledger.transact(work)


def _take(store: SqliteDatabase, lane: str, instance_id: str, runner_id: str | None, now_ms: int) -> Lease:
    holder = store.execute(_LINKED, (runner_id, now_ms)).get or store.execute(_OWNER, (lane, now_ms)).get
    if holder not in (None, instance_id):
        return Lease(store.execute(_EPOCH, (lane,)).get or 0, holder)
    return Lease(store.execute(_TAKE, (lane, instance_id)).get, instance_id)


def _check(store: SqliteDatabase, instance_id: str, now_ms: int) -> None:
    if store.execute(_ALIVE, (instance_id, now_ms)).get is None:
        raise Gone(f"The instance {instance_id} was not heard of for too long, and is taken for dead.")
