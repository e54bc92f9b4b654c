"""Fixtures that every test shares."""

import functools
import gc
import os
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import httpcore2
import pytest
import structlog
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

from own_part import own_part_first
from proof.processes.fork_server import ForkServer

pytest_plugins = ["installed", "agents.third_party", "servers.fixtures"]

# One process compiles a module for the hundreds that import it, also if the environment forbids compiled files.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# The time of an example depends on the host and its load, so it has no deadline.
settings.register_profile("steady", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")

# What a test has fail is logged without rich's coloured traceback, which takes 30 ms of processor time each.
structlog.configure(processors=[*structlog.get_config()["processors"][:-1], structlog.dev.ConsoleRenderer(
    exception_formatter=structlog.dev.plain_traceback)])

# A client loads the machine's trusted certificates as it is made, which takes 20 ms of processor time.
httpcore2.default_ssl_context = functools.cache(httpcore2.default_ssl_context)

# A process that a script starts in the background ignores Ctrl-C, and so do its children; but some of the tests
# press it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

LARGE_IMPORTS = {
    "aiogram": ("tests/app/test_telegram.py", "tests/channels/chat/", "tests/channels/telegram/",
                "tests/cli/link/test_contexts.py", "tests/end_to_end/test_telegram.py",
                "tests/end_to_end/test_door_roles.py"),
    "acp": ("tests/doors/acp/test_permission.py", "tests/end_to_end/test_acp_door.py", "tests/gateway/acp/",
            "tests/shell_agent/"),
    "pydantic_ai": ("tests/agents/builtin/", "tests/agents/test_abilities.py", "tests/agents/test_adapters.py"),
}
"""Libraries that take seconds of processor time to import, and the files whose tests do."""

LOADED_WITH_FILES = pytest.StashKey[set[str]]()
HERE = Path(__file__).resolve().parent

# What is imported stays: the collector looks through none of it while it grows, nor ever after.
gc.disable()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """Have each process of a run compile another part of the files first, and find the other parts compiled."""
    report = yield
    worker = getattr(collector.config, "workerinput", None)
    if worker is not None and collector.path == HERE and report.passed:
        number = int(worker["workerid"].removeprefix("gw"))
        sizes = [len(list(node.path.rglob("test_*.py"))) for node in report.result]
        report.result = own_part_first(report.result, sizes, number, worker["workercount"])
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Every process lists the tests in the same order."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: item.path.relative_to(HERE).parts[0])


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
