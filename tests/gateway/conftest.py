"""A gateway's end of the link, with a runner that is paired, for each test."""

from collections.abc import AsyncIterator

import pytest

from gateway.raw_runner import House


@pytest.fixture
async def house(anyio_backend: str) -> AsyncIterator[House]:
    made = House()
    await made.pair()
    yield made
    await made.engine.stop()
