"""Two servers in one address, of which one accepts writes: the ledger finds it, and the other after a failover."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

from interlock.app.own_servers import OwnServer, start_postgres
from interlock.app.place import SystemClock
from interlock.backends.postgres.database import read_settings
from interlock.backends.postgres.leases import open_leases
from interlock.backends.postgres.ledger import open_ledger
from interlock.ports.leases import Instance
from interlock.ports.ledger import LedgerError, PutFact, WriteBatch

pytestmark = [pytest.mark.anyio, pytest.mark.req("C-4", "D-1"), pytest.mark.long]


@pytest.fixture
def servers() -> Iterator[list[OwnServer]]:
    """Two servers without the ledger's schema yet; neither replicates the other."""
    with tempfile.TemporaryDirectory(prefix="il-") as first, tempfile.TemporaryDirectory(prefix="il-") as second:
        started: list[OwnServer] = []
        try:
            for name in (first, second):
                Path(name).chmod(0o755)  # PostgreSQL is another user if this one is root.
                started.append(start_postgres(Path(name), durable=False))
            yield started
        finally:
            for server in started:
                server.stop()


async def set_read_only(server: OwnServer, value: str) -> None:
    """As a primary that becomes a standby, or the other way round."""
    connection: Any = await asyncpg.connect(server.url)
    await connection.execute("SET default_transaction_read_only = off")
    await connection.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}")
    await connection.execute("SELECT pg_reload_conf()")
    await connection.close()


async def test_writes_go_to_the_server_that_accepts_them(servers: list[OwnServer]) -> None:
    for server in servers:
        made = await open_ledger(read_settings(server.url), SystemClock())
        await made.close()
    await set_read_only(servers[0], "on")
    hosts = ",".join(parse_qs(urlsplit(server.url).query)["host"][0] for server in servers)
    settings = read_settings(f"postgresql://interlock@/postgres?host={hosts}&target_session_attrs=read-write")
    ledger, leases = await open_ledger(settings, SystemClock()), await open_leases(settings)
    await leases.join(Instance("i_1", "here"))
    await ledger.commit(WriteBatch([PutFact("written", "before")]))
    await set_read_only(servers[1], "on")
    await set_read_only(servers[0], "off")
    await ledger.commit(WriteBatch([PutFact("written", "after")]))
    with pytest.raises(LedgerError, match="read-only transaction"):  # Its connection was to the old one.
        await leases.renew("i_1")
    assert await leases.renew("i_1") is False, "the new one is asked, which does not know the instance"
    await leases.close()
    await ledger.close()
    there = await open_ledger(read_settings(servers[0].url), SystemClock())
    assert await there.fact("written") == "after"
    await there.close()
