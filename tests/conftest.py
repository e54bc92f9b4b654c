"""Fixtures that every test shares."""

import gc
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from proof.swift import Swift

pytest_plugins = ["installed", "agents.third_party", "servers.fixtures"]

# How long an example takes says something of the machine and its neighbours, nothing of what is shown.
settings.register_profile("steady", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")

# Anyone who is started in the background of a script is born deaf to Ctrl-C, and so is all that it starts; but some of
# the tests press it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# What is imported stays: the collector looks through none of it while it grows, nor ever after.
gc.disable()


def pytest_collection_finish() -> None:
    """From here on there is rubbish to collect, and only what tests make is looked through for it."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are processors: many tests wait for a process or a clock, and others use that time."""
    return (os.cpu_count() or 1) + 1


@pytest.fixture(scope="session")
def swift() -> Iterator[Swift]:
    """Forks gateways, runners and verbs out of a process that has loaded them: a tenth of a new interpreter's cost."""
    forking = Swift()
    yield forking
    forking.close()


@pytest.fixture
def anyio_backend() -> str:
    """All asynchronous tests run on asyncio, which is what gateway and runner run on."""
    return "asyncio"
