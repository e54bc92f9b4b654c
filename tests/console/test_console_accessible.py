"""Every screen of the console by axe-core, at the width of a phone and of a desk, light and dark (J-3 to J-8)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.console.pages import origin
from tests.console.screens import NAMES, SCHEMES, SIZES, config, open_folds, show

from installed import require
from proof.processes.stack import Stack

pytestmark = [pytest.mark.needs("chromium", "console", "axe"), pytest.mark.filterwarnings("ignore"),
              pytest.mark.req("J-4", "J-5")]
RUN = """async () => (await axe.run({resultTypes: ['violations']})).violations.map((one) => [
  one.id, one.help, ...one.nodes.map((node) => `${node.html} ${node.failureSummary}`)])"""


@pytest.fixture(scope="module")
def stack_config() -> str:
    """Agents that repeat their prompt or ask for the call in it."""
    return config()


def violations(page: Any) -> list[Any]:
    """What axe-core finds at each size and in each scheme."""
    open_folds(page)
    page.evaluate(require("axe").read_text("utf-8"))
    found: list[Any] = []
    for size in (SIZES[0], SIZES[-1]):
        page.set_viewport_size(size)
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            found += [(size["width"], scheme, one) for one in page.evaluate(RUN)]
    return found


@pytest.mark.parametrize("name", NAMES)
def test_axe_finds_nothing_on_a_screen(page: Any, stack: Stack, screens: dict[str, tuple[str, str]], name: str) -> None:
    show(page, stack, screens[name])
    assert violations(page) == []


def test_axe_finds_nothing_on_elements_opened_by_keys_and_folds(
    page: Any, stack: Stack, screens: dict[str, tuple[str, str]]
) -> None:
    page.goto(f"{origin(stack)}{screens['waiting'][0]}")
    page.get_by_text("More options").click()
    page.locator("#kept").wait_for()
    assert violations(page) == []
    for key, role in (("?", "button"), ("Control+k", "option")):
        page.evaluate("document.activeElement.blur()")
        page.keyboard.press(key)
        page.get_by_role("dialog").get_by_role(role).first.wait_for()
        assert violations(page) == []
        page.keyboard.press("Escape")
        page.get_by_role("dialog").wait_for(state="detached")  # A key before that would open what is then closed.


def test_axe_finds_nothing_on_the_login(browser: Any, stack: Stack) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{origin(stack)}/console/")
    page.get_by_label("Key").wait_for()
    assert violations(page) == []
    context.close()
