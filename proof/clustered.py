"""What a house of three gateways needs: servers for a whole run, a database for each house."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import itertools
import json
import os
import shutil
import signal
import tempfile
import time
from functools import cache
from pathlib import Path

import asyncpg

from interlock import config
from interlock.app.own_servers import OwnServer, start_nats, start_postgres
from interlock.backends.postgres import database
from interlock.command.audit_check import verify
from interlock.gateway.signing import PUBLIC_NAME, load_public_key

GONE_TIMEOUT_S = 10.0
_numbers = itertools.count(1)


@cache
def postgres() -> OwnServer:
    """PostgreSQL of this process; it ends with it. Raises ServerMissing."""
    directory = _directory()
    return _ended_at_exit(start_postgres(directory, durable=False, options=["max_connections=300"]), directory)


@cache
def nats() -> OwnServer:
    """NATS of this process; it ends with it. Raises ServerMissing."""
    directory = _directory()
    return _ended_at_exit(start_nats(directory), directory)


def _directory() -> Path:
    directory = Path(tempfile.mkdtemp(prefix="interlock-proof-"))
    directory.chmod(0o755)  # PostgreSQL is another user where this one is root.
    return directory


def _ended_at_exit(server: OwnServer, directory: Path) -> OwnServer:
    def end() -> None:
        server.stop()
        shutil.rmtree(directory, ignore_errors=True)

    atexit.register(end)
    return server


def section() -> str:
    """A config's `[cluster]` with a database of its own."""
    name = f"house_{os.getpid()}_{next(_numbers)}"
    asyncio.run(_make(postgres().url, name))
    store = postgres().url.replace("/postgres?", f"/{name}?")
    return f'\n[cluster]\nstore = "{store}"\nbus = "{nats().url}"\n'


async def _make(url: str, name: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(f"CREATE DATABASE {name}")
    finally:
        await connection.close()


def shown(state: Path) -> str:
    """The address of a house's database as a gateway tells it."""
    store = config.load(state / config.FILE_NAME).cluster.store
    assert store is not None, "the house says so"
    return database.shown(store)


def pids(state: Path) -> list[int]:
    """The processes of a house's gateways, as they said themselves."""
    found: list[int] = []
    for announced in sorted((state / "cluster").glob("*/gateway.json")):
        with contextlib.suppress(OSError, ValueError):
            found.append(int(json.loads(announced.read_text())["pid"]))
    return found


def kill_gateways(state: Path) -> None:
    """kill -9 for all of them, and wait until they are gone."""
    known = pids(state)
    for pid in known:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    until = time.monotonic() + GONE_TIMEOUT_S
    while any(Path(f"/proc/{pid}").exists() for pid in known) and time.monotonic() < until:
        time.sleep(0.01)


def verified(lines: list[bytes], state: Path) -> tuple[bool, int, str]:
    """Verify an exported log: (ok, records, what is said of it)."""
    report = verify(lines, load_public_key(state / PUBLIC_NAME))
    return report.ok, report.records, report.message
