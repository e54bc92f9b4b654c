"""A gateway with a runner, and a real browser, for every test of the console."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import pytest
from tests.console.pages import ARGUMENTS, page_of
from tests.console.screens import fill

from installed import require
from proof.processes.fork_server import ForkServer
from proof.processes.stack import Stack


@pytest.fixture(scope="module")
def stack_config() -> str:
    """What a module adds to the config of its gateway and runner, such as agents."""
    return ""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, fork_server: ForkServer, stack_config: str) -> Generator[Stack]:
    """A gateway and a runner with the shell agent."""
    stack = Stack(tmp_path_factory.mktemp("console"), stack_config, fork_server)
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


@pytest.fixture(scope="module")
def page(browser: Any, stack: Stack) -> Iterator[Any]:
    """A phone's page, logged in, that the tests of a module share."""
    with page_of(browser, stack) as page:
        yield page


@pytest.fixture(scope="module")
def screens(stack: Stack) -> dict[str, tuple[str, str]]:
    """Every screen by its name: its path, and a selector of what is there once it is complete."""
    return fill(stack)
