"""Fixtures that every test shares."""

import gc
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

from proof.processes.fork_server import ForkServer

pytest_plugins = ["installed", "agents.third_party", "servers.fixtures"]

# How long an example takes says something of the machine and its neighbours, nothing of what is shown.
settings.register_profile("steady", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")

# What a test has fail is logged without rich's coloured traceback, which takes 30 ms of processor time each.
structlog.configure(processors=[*structlog.get_config()["processors"][:-1], structlog.dev.ConsoleRenderer(
    exception_formatter=structlog.dev.plain_traceback)])

# Anyone who is started in the background of a script is born deaf to Ctrl-C, and so is all that it starts; but some of
# the tests press it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

LARGE_IMPORTS = {
    "aiogram": ("tests/app/test_telegram.py", "tests/channels/chat/", "tests/channels/telegram/",
                "tests/cli/link/test_contexts.py", "tests/end_to_end/test_telegram.py",
                "tests/end_to_end/test_door_roles.py"),
    "pydantic_ai": ("tests/agents/builtin/", "tests/agents/test_abilities.py", "tests/agents/test_adapters.py"),
}
"""Libraries that take seconds of processor time to import, and the files whose tests do."""

LOADED_WITH_FILES = pytest.StashKey[set[str]]()

# What is imported stays: the collector looks through none of it while it grows, nor ever after.
gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """From here on there is rubbish to collect, and only what tests make is looked through for it."""
    session.stash[LOADED_WITH_FILES] = LARGE_IMPORTS.keys() & sys.modules.keys()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are processors: many tests wait for a process or a clock, and others use that time."""
    return (os.cpu_count() or 1) + 1


class SharedImports(LoadFileScheduling):
    """Gives a file to one process, and to the same one those files that load the same large library."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return next((name for name, beginnings in LARGE_IMPORTS.items() if file.startswith(beginnings)), file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """The way of `--dist=loadfile`, with each large library loaded once."""
    return SharedImports(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    """Forks gateways, runners and verbs out of a process that has loaded them: a tenth of a new interpreter's cost."""
    forking = ForkServer()
    yield forking
    forking.close()


@pytest.fixture
def loaded_with_files(request: pytest.FixtureRequest) -> set[str]:
    """Those of the large libraries that were loaded when all test files had been read and no test had run."""
    return request.session.stash[LOADED_WITH_FILES]


@pytest.fixture
def logs_as_before() -> Iterator[None]:
    """What a test configures of logs ends with it."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


@pytest.fixture
def anyio_backend() -> str:
    """All asynchronous tests run on asyncio, which is what gateway and runner run on."""
    return "asyncio"
