"""A primary that returns after its standby was promoted: nothing is written to it, and people are notified (D-1,
C-4)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from structlog.testing import capture_logs

from interlock.app.own_servers import OwnServer
from interlock.app.place import SystemClock
from interlock.backends.postgres import primaries as module
from interlock.backends.postgres.database import PostgresSettings, look_at_primaries, read_settings
from interlock.backends.postgres.faults import NotReached
from interlock.backends.postgres.leases import open_leases
from interlock.backends.postgres.ledger import open_ledger
from interlock.backends.postgres.primaries import (
    FILE_NAME,
    LedgerHost,
    Primaries,
    PrimaryServer,
    former_trouble,
    hosts_of,
)
from interlock.ports.leases import Instance
from interlock.ports.ledger import Append, LedgerError, WriteBatch
from proof.processes.postgres_pair import PostgresPair, ask

pytestmark = [pytest.mark.anyio, pytest.mark.req("C-4", "D-1")]
STREAM = "s/1"
WRITTEN = "SELECT count(*) FROM event"


class Link:
    """A connection that only remembers whether it was cut."""

    def __init__(self) -> None:
        self.is_cut = False

    def terminate(self) -> None:
        self.is_cut = True


@pytest.mark.parametrize(("dsn", "hosts"), [
    ("postgresql://me@one,two:5433/interlock", [("one", None), ("two", 5433)]),
    ("postgresql://me:secret@[::1]:5432/interlock", [("::1", 5432)]),
    ("postgresql://me@[::1]/interlock", [("::1", None)]),
    ("postgresql://me@/interlock?host=/tmp/a,/tmp/b&port=5432", [("/tmp/a", 5432), ("/tmp/b", 5432)]),
    ("postgresql:///interlock?host=one,two&port=1,2", [("one", 1), ("two", 2)]),
    ("postgresql:///interlock", []),
    ("postgresql://me@[::1/interlock", []),
])
async def test_the_servers_of_an_address_are_listed(dsn: str, hosts: list[tuple[str, int | None]]) -> None:
    assert hosts_of(dsn) == [LedgerHost(*one) for one in hosts]


async def test_a_newer_timeline_cuts_older_connections_and_is_known_after_a_restart(
        tmp_path: Path) -> None:
    file = tmp_path / FILE_NAME
    primaries, old, new, other = Primaries(file), Link(), Link(), Link()
    primaries.learn(PrimaryServer("7", 1))
    primaries.opened(old, PrimaryServer("7", 1))
    primaries.opened(other, None)
    primaries.learn(PrimaryServer("7", 3))
    primaries.opened(new, PrimaryServer("7", 3))
    primaries.learn(PrimaryServer("7", 2))
    assert (old.is_cut, new.is_cut, other.is_cut) == (True, False, False)
    late = Link()
    primaries.opened(late, PrimaryServer("7", 2))
    assert late.is_cut, "it was opened before the newer one was seen"
    assert json.loads(file.read_text()) == {"system": "7", "timeline": 3}
    after = Primaries(file)
    assert after.is_former(PrimaryServer("7", 2))
    assert not after.is_former(PrimaryServer("7", 3))


async def test_another_database_system_is_accepted_and_recorded(tmp_path: Path) -> None:
    file = tmp_path / FILE_NAME
    Primaries(file).learn(PrimaryServer("7", 3))
    with capture_logs() as lines:
        restored = Primaries(file)
        restored.learn(PrimaryServer("8", 1))
    assert [line["event"] for line in lines] == ["postgres_server_changed"]
    assert not restored.is_former(PrimaryServer("8", 1))
    assert Primaries(file).is_former(PrimaryServer("8", 1)) is False


async def test_an_unreadable_file_is_logged_and_does_not_stop_the_gateway(tmp_path: Path) -> None:
    file = tmp_path / FILE_NAME
    file.write_text("{")
    with capture_logs() as lines:
        assert not Primaries(file).is_former(PrimaryServer("7", 1))
    assert [line["event"] for line in lines] == ["postgres_primary_not_known"]


async def test_a_server_that_shows_no_timeline_is_used_as_before() -> None:
    class Asked(Link):
        async def fetchrow(self, _query: str) -> tuple[Any, ...] | None:
            raise asyncpg.InsufficientPrivilegeError("permission denied for function pg_control_system")

    async def opened(_host: LedgerHost | None) -> Asked:
        return Asked()

    primaries = Primaries()
    primaries.learn(PrimaryServer("7", 3))
    found, server = await primaries.connect("postgresql://me@one/interlock", opened)
    assert (found.is_cut, server) == (False, None)


ADDRESS = "postgresql://me@one,two/interlock"


class Servers:
    """The servers of ADDRESS by their names; `opened` opens a connection to one of them, or to the first. A look whose
    number has a gate is answered once that is open."""

    def __init__(self, **timelines: int | None) -> None:
        self.timelines = timelines
        self.asked: list[str] = []
        self.gates: dict[int, asyncio.Event] = {}

    async def opened(self, host: LedgerHost | None) -> FoundLink:
        name = host.name if host is not None else "one"
        if host is not None:
            self.asked.append(name)
            if (gate := self.gates.get(self.asked.count(name))) is not None:
                await gate.wait()
        timeline = self.timelines[name]
        if timeline is None:
            await asyncio.Event().wait()
        return FoundLink(timeline)


class FoundLink(Link):
    """A connection to a server of system 7."""

    def __init__(self, timeline: int | None) -> None:
        super().__init__()
        self.timeline = timeline

    async def fetchrow(self, query: str) -> tuple[Any, ...] | None:
        assert query == module.WHICH
        return "7", self.timeline


async def test_a_new_connection_to_a_former_primary_is_noticed_before_it_is_used() -> None:
    primaries, servers = Primaries(), Servers(one=1, two=2)
    primaries.learn(PrimaryServer("7", 1))
    found, server = await primaries.connect(ADDRESS, servers.opened)
    assert (found.timeline, server, primaries.former) == (2, PrimaryServer("7", 2), [LedgerHost("one", None)])


async def test_an_unresponsive_server_is_awaited_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONFIRM_TIMEOUT_S", 0.01)
    primaries, servers = Primaries(), Servers(one=1, two=None)
    for _ in range(3):
        await primaries.connect(ADDRESS, servers.opened)
    assert servers.asked.count("two") == 1, "the second and third connection do not wait for it"
    await primaries.look(ADDRESS, servers.opened, 0.01)
    assert servers.asked.count("two") == 2, "each regular look asks it again"


async def test_a_primary_that_is_promoted_after_a_look_is_found_by_the_next_connection() -> None:
    primaries, servers = Primaries(), Servers(one=1, two=1)
    await primaries.connect(ADDRESS, servers.opened)
    servers.timelines["two"] = 2
    assert (await primaries.connect(ADDRESS, servers.opened))[1] == PrimaryServer("7", 2)


async def test_connections_that_ask_during_a_look_share_the_next() -> None:
    primaries, servers = Primaries(), Servers(one=1, two=1)
    servers.gates[1] = asyncio.Event()
    opening = [asyncio.create_task(primaries.connect(ADDRESS, servers.opened))]
    await settled()
    for _ in range(5):
        opening.append(asyncio.create_task(primaries.connect(ADDRESS, servers.opened)))
        await settled()
    assert servers.asked == ["one", "two"], "one look at a time"
    servers.gates[1].set()
    await asyncio.gather(*opening)
    assert servers.asked == ["one", "two"] * 2, "one look that began after all of them had asked"


async def test_a_cancelled_look_confirms_no_server() -> None:
    primaries, servers = Primaries(), Servers(one=1, two=1)
    servers.gates |= {1: asyncio.Event(), 2: asyncio.Event()}
    first, second, third = (asyncio.create_task(primaries.connect(ADDRESS, servers.opened)) for _ in range(3))
    await settled()
    servers.gates[1].set()
    await first
    servers.timelines["two"] = 2
    await settled()
    second.cancel()
    assert (await third)[1] == PrimaryServer("7", 2)


async def settled() -> None:
    """Let every runnable task proceed."""
    for _ in range(20):
        await asyncio.sleep(0)


async def asked(server: OwnServer, *statements: str) -> Any:
    return await asyncio.to_thread(ask, server, *statements)


def fenced(pair: PostgresPair, file: Path | None = None) -> PostgresSettings:
    return read_settings(pair.url)._replace(primaries=Primaries(file))


@pytest.mark.long
async def test_nothing_is_written_to_a_returned_former_primary(pair: PostgresPair, tmp_path: Path) -> None:
    settings = fenced(pair, tmp_path / FILE_NAME)
    ledger, leases = await open_ledger(settings, SystemClock()), await open_leases(settings)
    await leases.join(Instance("i_1", "here"))
    await ledger.commit(WriteBatch([Append("t1", STREAM, "C", 5, b"before", "m1")]))
    await asyncio.to_thread(pair.kill_primary)
    await asyncio.to_thread(pair.promote)
    await ledger.commit(WriteBatch([Append("t1", STREAM, "C", 5, b"after", "m2")]))
    former = await asyncio.to_thread(pair.return_primary)
    assert hosts_of(pair.url)[0] == LedgerHost(str(pair.address_of(former)), None), "the driver would ask it first"
    await asked(pair.primary, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
                              "AND backend_type = 'client backend'")
    await ledger.commit(WriteBatch([Append("t1", STREAM, "C", 5, b"with both", "m3")]))
    assert [one.body for one in await ledger.events("t1", STREAM, 0, 10)] == [b"before", b"after", b"with both"]
    await look_at_primaries(settings)
    assert (await leases.survey()).trouble == former_trouble([hosts_of(pair.url)[0]])
    await leases.close()
    await ledger.close()

    fresh = await open_ledger(fenced(pair), SystemClock())
    assert len(await fresh.events("t1", STREAM, 0, 10)) == 3, "one that knows nothing looks at all servers first"
    await fresh.close()
    assert await asked(former, WRITTEN) == 1
    former.stop()


@pytest.mark.long
async def test_nothing_is_written_to_a_former_primary_that_returns_before_the_new_one(
        pair: PostgresPair) -> None:
    settings = fenced(pair)
    ledger = await open_ledger(settings, SystemClock())
    await ledger.commit(WriteBatch([Append("t1", STREAM, "C", 5, b"before", "m1")]))
    await asyncio.to_thread(pair.kill_primary)
    await asyncio.to_thread(pair.promote)
    former = await asyncio.to_thread(pair.return_primary)
    assert hosts_of(pair.url)[0] == LedgerHost(str(pair.address_of(former)), None), "the driver asks it first"
    await ledger.commit(WriteBatch([Append("t1", STREAM, "C", 5, b"after", "m2")]))
    assert [one.body for one in await ledger.events("t1", STREAM, 0, 10)] == [b"before", b"after"]
    assert (await asked(former, WRITTEN), await asked(pair.primary, WRITTEN)) == (1, 2)
    await ledger.close()
    former.stop()


@pytest.mark.long
async def test_connections_to_a_primary_are_cut_once_another_one_is_promoted(pair: PostgresPair) -> None:
    """As with a host that was cut off from its standby and from the operators who promoted that."""
    settings = fenced(pair)
    ledger = await open_ledger(settings, SystemClock())
    await ledger.commit(WriteBatch([Append("t1", STREAM, "C", 5, b"before", "m1")]))
    await asked(pair.primary, "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
    former = pair.primary
    await asyncio.to_thread(pair.promote)
    await look_at_primaries(settings)
    await ledger.commit(WriteBatch([Append("t1", STREAM, "C", 5, b"after", "m2")]))
    assert (await asked(former, WRITTEN), await asked(pair.primary, WRITTEN)) == (1, 2)
    await ledger.close()
    former.stop()


@pytest.mark.long
async def test_a_gateway_that_finds_only_the_former_primary_refuses_it_with_a_sentence(
        pair: PostgresPair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.backends.postgres.writer.WAIT_FOR_SERVER_S", 1.0)
    file = tmp_path / FILE_NAME
    ledger = await open_ledger(fenced(pair, file), SystemClock())
    await asyncio.to_thread(pair.kill_primary)
    await asyncio.to_thread(pair.promote)
    await ledger.commit(WriteBatch([Append("t1", STREAM, "C", 5, b"after", "m1")]))
    await asyncio.to_thread(pair.kill_primary)
    former = await asyncio.to_thread(pair.return_primary, 0)
    with pytest.raises(LedgerError, match="is a former primary"):
        await ledger.commit(WriteBatch([Append("t1", STREAM, "C", 5, b"lost", "m2")]))
    await ledger.close()
    with pytest.raises(NotReached) as refused:
        await open_ledger(fenced(pair, file), SystemClock())
    assert "is a former primary (timeline 1, and the ledger went on at timeline 2)" in str(refused.value)
    assert f"If this older copy is to be the ledger from now on, remove {file}." in str(refused.value)
    file.unlink()
    await (await open_ledger(fenced(pair, file), SystemClock())).close()
    former.stop()
