"""A gateway with a runner, and a real browser, for every test of the console."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import pytest
from tests.console.pages import ARGUMENTS

from installed import require
from proof.processes.fork_server import ForkServer
from proof.processes.stack import Stack


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, fork_server: ForkServer) -> Generator[Stack]:
    """A gateway and a runner with the shell agent."""
    stack = Stack(tmp_path_factory.mktemp("console"), "", fork_server)
    try:
        stack.up()
        yield stack
    finally:
        stack.down()


@pytest.fixture(scope="package")
def driver() -> Iterator[Any]:
    """The process that drives browsers."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        yield driver


@pytest.fixture(scope="package")
def browser(driver: Any) -> Iterator[Any]:
    """A real browser, with its security as it ships; what a test does is in a context of its own."""
    browser = driver.chromium.launch(executable_path=str(require("chromium")), args=ARGUMENTS)
    yield browser
    browser.close()
