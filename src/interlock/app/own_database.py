"""The database that `interlock up --cluster` keeps for a state directory, whether it is running or not."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from interlock.app.own_servers import OWNER, start_postgres

DIRECTORY = "cluster"
"""Below the state directory: what the gateways of `up --cluster` share."""
GATEWAY_PREFIX = "gateway-"
"""Prefix, before its number, of one gateway's own directory there."""
DATA = "postgres"
PORT_LINE, SOCKETS_LINE, STATUS_LINE = 3, 4, 7
"""Lines of `postmaster.pid`, from 0."""


def database_place(state: Path) -> Path:
    """Return the path of a state directory's database: in the state, but for root outside it, because PostgreSQL then
    runs as `nobody`, who may not enter a state directory."""
    if os.geteuid() != 0:
        return state / DIRECTORY
    name = hashlib.sha256(str(state.resolve()).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"interlock-cluster-{name}"


def state_of_gateway(directory: Path) -> Path:
    """Return the state directory that one gateway of `up --cluster` belongs to; any other directory unchanged."""
    resolved = directory.resolve()
    shared = resolved.parent
    if resolved.name.startswith(GATEWAY_PREFIX) and shared.name == DIRECTORY and has_own_database(shared.parent):
        return shared.parent
    return directory


def has_own_database(state: Path) -> bool:
    """Return whether `up --cluster` has created a database for this state directory, as the current user."""
    place = database_place(state)
    if not (state / DIRECTORY).is_dir() or not (place / DATA / "PG_VERSION").exists():
        return False
    return not place.is_symlink() and place.stat().st_uid == os.geteuid()


@contextmanager
def own_database(state: Path) -> Generator[str]:
    """Yield the address of that database; one that is not running is started, and stopped at the end. Raises
    ServerMissing."""
    place = database_place(state)
    if (running := _running(place / DATA)) is not None:
        yield running
        return
    server = start_postgres(place)
    try:
        yield server.url
    finally:
        server.stop()


def _running(data: Path) -> str | None:
    """Return the address of the server that has this data open, if it is alive and accepts connections."""
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
        os.kill(int(lines[0]), 0)
        port, sockets, status = lines[PORT_LINE], lines[SOCKETS_LINE], lines[STATUS_LINE]
    except (FileNotFoundError, ProcessLookupError, ValueError, IndexError):
        return None
    return f"postgresql://{OWNER}@/postgres?host={sockets}&port={port}" if status.strip() == "ready" else None
