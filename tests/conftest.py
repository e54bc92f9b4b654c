"""Fixtures that every test shares."""

import pytest

pytest_plugins = ["agents.third_party", "servers.fixtures"]


@pytest.fixture
def anyio_backend() -> str:
    """All asynchronous tests run on asyncio, which is what gateway and runner run on."""
    return "asyncio"
