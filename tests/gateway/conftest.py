"""Fixtures of the gateway's tests: its end of the link with a paired runner, and a gateway with its API."""

from collections.abc import AsyncIterator

import pytest

from gateway.raw_runner import Server
from small_gateway.running import Gateway, running


@pytest.fixture
async def server(anyio_backend: str) -> AsyncIterator[Server]:
    made = Server()
    await made.pair()
    yield made
    await made.engine.stop()


@pytest.fixture
def heartbeat_s() -> float:
    return 30.0


@pytest.fixture
async def gateway(anyio_backend: str, heartbeat_s: float) -> AsyncIterator[Gateway]:
    async with running(heartbeat_s) as there:
        yield there
