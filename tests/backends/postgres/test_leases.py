"""Links that change while others read: in any order of commits, none is missed."""

from __future__ import annotations

import asyncpg
import pytest

from interlock.backends.postgres.database import PostgresSettings
from interlock.backends.postgres.leases import ATTACH, open_leases
from interlock.ports.leases import Instance, RunnerLocation

pytestmark = [pytest.mark.anyio, pytest.mark.req("C-4")]


def link(runner_id: str) -> RunnerLocation:
    return RunnerLocation(runner_id, "t1", "a", "l1", b"{}")


async def test_a_link_committed_after_a_later_one_was_read_is_read_too(postgres: PostgresSettings) -> None:
    leases = await open_leases(postgres)
    slow = await asyncpg.connect(postgres.dsn)
    try:
        await leases.join(Instance("a", ""))
        slow_one = slow.transaction()
        await slow_one.start()
        await slow.execute(ATTACH, *link("slow"), 0)
        await leases.attach(link("quick"))
        first = await leases.links_since(0)
        assert [one.runner_id for one in first.links] == ["quick"]
        await slow_one.commit()
        seen = await leases.links_since(first.upto)
        assert link("slow") in seen.links
        while link("slow") in seen.links:  # Returned again while any older transaction is open here.
            seen = await leases.links_since(seen.upto)
    finally:
        await slow.close()
        await leases.close()


async def test_writes_of_a_program_of_the_previous_schema_are_noticed(postgres: PostgresSettings) -> None:
    leases = await open_leases(postgres)
    older = await asyncpg.connect(postgres.dsn)
    try:
        await leases.join(Instance("a", ""))
        await leases.attach(link("r1"))
        before = await leases.links_since(0)
        await older.execute("UPDATE runner_link SET link_id = 'l2' WHERE runner_id = 'r1'")
        assert [one.link_id for one in (await leases.links_since(before.upto)).links] == ["l2"]
    finally:
        await older.close()
        await leases.close()
