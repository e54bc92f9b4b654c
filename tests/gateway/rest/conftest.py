"""A gateway for each test of the API."""

from collections.abc import AsyncIterator

import pytest

from small_gateway.running import Gateway, running


@pytest.fixture
def heartbeat_s() -> float:
    return 30.0


@pytest.fixture
async def gateway(anyio_backend: str, heartbeat_s: float) -> AsyncIterator[Gateway]:
    async with running(heartbeat_s) as there:
        yield there
