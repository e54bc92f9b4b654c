"""Fixtures of the PostgreSQL backend's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from interlock.backends.postgres.database import PostgresSettings


@pytest.fixture
async def other(postgres: PostgresSettings) -> AsyncIterator[Any]:
    """A connection that does not belong to a gateway."""
    connection: Any = await asyncpg.connect(postgres.dsn)
    yield connection
    await connection.close()
