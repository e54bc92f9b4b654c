"""A gateway for each test of its MCP endpoint."""

from collections.abc import AsyncIterator

import pytest

from small_gateway.running import Gateway, running


@pytest.fixture
async def gateway(anyio_backend: str) -> AsyncIterator[Gateway]:
    async with running(30.0) as there:
        yield there
