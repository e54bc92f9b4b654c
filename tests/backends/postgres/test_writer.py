"""A killed server of a test's own: acknowledged writes are there, once."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from interlock.app.own_servers import OwnServer, start_postgres
from interlock.backends.memory.clock import ManualClock
from interlock.backends.postgres.database import PostgresSettings
from interlock.backends.postgres.ledger import open_ledger
from interlock.ports.ledger import Append, WriteBatch

pytestmark = pytest.mark.anyio
WRITERS = 8


@pytest.fixture
async def directory() -> AsyncIterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ilk-restart-") as made:
        os.chmod(made, 0o755)
        yield Path(made)


@pytest.mark.req("D-1")
async def test_a_killed_and_restarted_server_has_all_acknowledged_data_once(directory: Path) -> None:
    port_less = await asyncio.to_thread(start_here, directory)
    ledger = await open_ledger(PostgresSettings(port_less.url), ManualClock())
    acknowledged: list[bytes] = []
    enough = asyncio.Event()

    async def write(name: int) -> None:
        for number in range(100):
            body = f"{name}-{number}".encode()
            await ledger.commit(WriteBatch([Append("t1", "s/1", "C", 1, body)]))
            acknowledged.append(body)
            if len(acknowledged) == 40 * WRITERS:
                enough.set()

    writers = [asyncio.create_task(write(name)) for name in range(WRITERS)]
    await asyncio.wait_for(enough.wait(), 60)
    os.kill(port_less.pid, signal.SIGKILL)
    await asyncio.to_thread(port_less.process.wait)
    await asyncio.to_thread(port_less.start_again)
    await asyncio.wait_for(asyncio.gather(*writers), 60)
    found = [event.body for event in await ledger.events("t1", "s/1", 0, 10_000)]
    assert sorted(found) == sorted(acknowledged), "none lost, none doubled"
    assert len(found) == 100 * WRITERS
    for name in range(WRITERS):
        mine = [int(body.split(b"-")[1]) for body in found if body.startswith(b"%d-" % name)]
        assert mine == list(range(100)), "each writer's in their order"
    await ledger.close()
    await asyncio.to_thread(port_less.stop)


def start_here(directory: Path) -> OwnServer:
    """A kill leaves what the kernel has, so the disk need not be waited for."""
    return start_postgres(directory, durable=False)

