"""Fixtures of the PostgreSQL backend's tests."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from interlock.backends.postgres.database import PostgresSettings
from proof.processes.postgres_pair import PostgresPair


@pytest.fixture
async def other(postgres: PostgresSettings) -> AsyncIterator[Any]:
    """A connection that does not belong to a gateway."""
    connection: Any = await asyncpg.connect(postgres.dsn)
    yield connection
    await connection.close()


@pytest.fixture
def pair() -> Iterator[PostgresPair]:
    with tempfile.TemporaryDirectory(prefix="il-") as name:
        Path(name).chmod(0o755)  # PostgreSQL is another user if this one is root.
        pair = PostgresPair(Path(name))
        try:
            yield pair
        finally:
            pair.stop()
