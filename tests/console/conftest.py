"""A gateway with a runner, and a real browser, for every test of the console."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import pytest
from proof.house import House
from tests.console.pages import ARGUMENTS

from installed import require


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Generator[House]:
    """A gateway and a runner with the shell agent."""
    house = House(tmp_path_factory.mktemp("console"), "")
    try:
        house.up()
        yield house
    finally:
        house.down()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A real browser, with its security as it ships."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=str(require("chromium")), args=ARGUMENTS)
        yield browser
        browser.close()
