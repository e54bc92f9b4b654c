"""Fixtures that every test shares."""

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["agents.third_party", "servers.fixtures"]

# How long an example takes says something of the machine and its neighbours, nothing of what is shown.
settings.register_profile("steady", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")


@pytest.fixture
def anyio_backend() -> str:
    """All asynchronous tests run on asyncio, which is what gateway and runner run on."""
    return "asyncio"
