"""Behind pgbouncer in transaction mode: each transaction may have another connection, so none leaves anything on it."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from backends.postgres.statements import all_statements
from backends.postgres.test_ledger import append, draft
from installed import UNPACKED, require
from interlock.backends.memory.clock import ManualClock
from interlock.backends.postgres import single
from interlock.backends.postgres.database import PostgresSettings
from interlock.backends.postgres.leases import open_leases
from interlock.backends.postgres.ledger import open_ledger
from interlock.ports.leases import Instance
from interlock.ports.ledger import AuditAppend, Fenced, LaneName, WriteBatch

pytestmark = [pytest.mark.req("C-4")]
CONFIG = """
[databases]
* = host={server} user=interlock
[pgbouncer]
unix_socket_dir = {sockets}
listen_addr =
listen_port = 5432
auth_type = any
pool_mode = transaction
default_pool_size = 2
max_client_conn = 100
logfile = {sockets}/log
"""
SESSION_STATE = re.compile(
    r"\b(LISTEN|UNLISTEN|NOTIFY|PREPARE|DISCARD|DECLARE|TEMP|TEMPORARY|SET(?= +\w+ *(=|TO))(?! +LOCAL)|"
    r"pg_advisory_lock|pg_try_advisory_lock|pg_advisory_lock_shared|currval|lastval)\b")
"""What lives on a connection beyond its transaction. SET of an UPDATE names a column, and is distinguished below."""


def test_no_statement_leaves_anything_on_its_connection() -> None:
    parts = {name: value for name, value in vars(single).items() if name.isupper() and isinstance(value, str)}
    for name, sql in (all_statements() | parts).items():
        outside_updates = re.sub(r"(UPDATE( \w+)?( AS \w+)?\s+SET)", "", sql)
        found = SESSION_STATE.search(outside_updates)
        assert found is None, f"{name} uses {found[0] if found else ''}"


@pytest.fixture
async def pooled(postgres: PostgresSettings) -> AsyncIterator[PostgresSettings]:
    server = parse_qs(urlsplit(postgres.dsn).query)["host"][0]
    with tempfile.TemporaryDirectory(prefix="ilk-pool-") as made:
        sockets = Path(made)
        config = sockets / "config.ini"
        config.write_text(CONFIG.format(server=server, sockets=sockets))
        user = 65534 if os.getuid() == 0 else None  # It refuses to run as root.
        if user is not None:
            os.chown(sockets, user, user)
        program, libraries = runnable(require("pgbouncer"), sockets)
        process = subprocess.Popen([program, config], user=user, group=user, extra_groups=[] if user else None,
                                   env={**os.environ, **libraries}, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            async with asyncio.timeout(20):
                while not (sockets / ".s.PGSQL.5432").exists():
                    assert process.poll() is None, (sockets / "log").read_text()
                    await asyncio.sleep(0.02)
            database = urlsplit(postgres.dsn).path.strip("/")
            yield PostgresSettings(f"postgresql://interlock@/{database}?host={sockets}", pooled=True)
        finally:
            process.terminate()
            process.wait()


def runnable(program: Path, place: Path) -> tuple[Path, dict[str, str]]:
    """Return the program and its environment. One that was only unpacked is copied with its libraries: the checkout may
    be closed to the user that it runs as."""
    if not program.is_relative_to(UNPACKED):
        return program, {}
    for found in (program, *(UNPACKED / "usr/lib").glob("*/*.so.*")):
        shutil.copy(found, place)
    return place / program.name, {"LD_LIBRARY_PATH": str(place)}


@pytest.mark.anyio
async def test_gateways_behind_a_pool_commit_take_and_fence(pooled: PostgresSettings) -> None:
    ledgers = [await open_ledger(pooled, ManualClock()) for _ in range(3)]
    leases = await open_leases(pooled)
    await leases.join(Instance("i_a", "a"))
    lease = await leases.take(LaneName("t1", "S1"), "i_a")

    receipts = await asyncio.gather(*(
        ledger.commit(WriteBatch([append("s/1"), AuditAppend(draft())], [(LaneName("t1", "S1"), lease.epoch)]))
        for _ in range(10) for ledger in ledgers))

    assert sorted(receipt.numbers[0] for receipt in receipts) == list(range(1, 31))
    assert sorted(receipt.audit_seqs[0] for receipt in receipts) == list(range(1, 31))
    again = await leases.take(LaneName("t1", "S1"), "i_a")
    with pytest.raises(Fenced):
        await ledgers[0].commit(WriteBatch([append("s/1")], [(LaneName("t1", "S1"), lease.epoch)]))
    assert (await ledgers[1].commit(WriteBatch([append("s/1")], [(LaneName("t1", "S1"), again.epoch)]))).numbers == [31]
    await leases.close()
    for ledger in ledgers:
        await ledger.close()
