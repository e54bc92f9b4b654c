"""Servers of a stack of three gateways: one of each kind for a run, one database for each stack."""

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
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import asyncpg

from interlock import config
from interlock.app.own_servers import SOCKET, OwnServer, start_nats, start_postgres
from interlock.backends.postgres import database
from interlock.command.audit.audit_check import verify
from interlock.gateway.audit.signing_key import PUBLIC_NAME, load_public_key
from proof.faults.slow_link import SlowLink

GONE_TIMEOUT_S = 10.0
_numbers = itertools.count(1)
_rtt_ms = 0.0
"""Of the links between gateways and their servers; 0 is none (`delay`)."""


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


@cache
def slow(rtt_ms: float) -> tuple[Path, int]:
    """Links to PostgreSQL and NATS with this delay: the directory of the one's socket and the port of the other.
    They end with this process. Raises ServerMissing."""
    place, port = _directory(), urlsplit(nats().url).port
    assert port is not None, "a server listens somewhere"
    links = (SlowLink(place / SOCKET, sockets() / SOCKET), SlowLink(0, port))
    for link in links:
        link.rtt_s = rtt_ms / 1000
        link.start()
        atexit.register(link.stop)
    return place, links[1].port


def delay(rtt_ms: float) -> None:
    """Let every later stack reach its servers over links with this delay."""
    global _rtt_ms
    _rtt_ms = rtt_ms


def sockets() -> Path:
    """Return the directory of PostgreSQL's socket."""
    return Path(parse_qs(urlsplit(postgres().url).query)["host"][0])


def _directory() -> Path:
    directory = Path(tempfile.mkdtemp(prefix="interlock-proof-"))
    directory.chmod(0o755)  # PostgreSQL runs as another user if this one is root.
    return directory


def _ended_at_exit(server: OwnServer, directory: Path) -> OwnServer:
    def end() -> None:
        server.stop()
        shutil.rmtree(directory, ignore_errors=True)

    atexit.register(end)
    return server


def section() -> str:
    """A config's `[cluster]` with a database of its own."""
    name = f"stack_{os.getpid()}_{next(_numbers)}"
    asyncio.run(_make(postgres().url, name))
    store, bus = postgres().url.replace("/postgres?", f"/{name}?"), nats().url
    if _rtt_ms:
        place, port = slow(_rtt_ms)
        store, bus = store.replace(f"host={sockets()}", f"host={place}"), f"nats://127.0.0.1:{port}"
    return f'\n[cluster]\nstore = "{store}"\nbus = "{bus}"\n'


async def _make(url: str, name: str) -> None:
    connection = await cast("Any", asyncpg).connect(url)
    try:
        await connection.execute(f"CREATE DATABASE {name}")
    finally:
        await connection.close()


def store_of(state: Path) -> str:
    """The address of a stack's database, as its config has it."""
    store = config.load(state / config.FILE_NAME).cluster.store
    assert store is not None, "the stack says so"
    return store


def shown(state: Path) -> str:
    """The URL of a stack's database as a gateway reports it."""
    return database.shown(store_of(state))


def pids(state: Path) -> list[int]:
    """The processes of a stack's gateways, as they reported themselves."""
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
    """Verify an exported log: (ok, records, output)."""
    report = verify(lines, load_public_key(state / PUBLIC_NAME))
    return report.ok, report.records, report.message
