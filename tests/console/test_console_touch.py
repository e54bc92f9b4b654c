"""Every screen of the console under a thumb: nothing is wider than a phone, what is pressed is large enough, text has
the size that its reader has set in the browser, and what is unfolded above an on-screen keyboard can be reached."""

from __future__ import annotations

from typing import Any

import pytest
from tests.console.pages import PAINTED, PHONE
from tests.console.screens import NAMES, config, open_folds, show

from proof.processes.stack import Stack

pytestmark = [pytest.mark.needs("chromium", "console"), pytest.mark.filterwarnings("ignore"),
              pytest.mark.req("J-3", "J-5")]
TARGET_PX = 44
BESIDE_KEYBOARD = {"width": 360, "height": 440}
"""What an on-screen keyboard leaves of a phone's screen."""
FONTS = ({"standard": 16, "fixed": 13}, {"standard": 32, "fixed": 26})
"""The default text size, and text twice as large."""
TOO_SMALL = """least => [...document.querySelectorAll(
    'a:not(.unseen), button, summary, input, select, textarea')].filter((one) => {
    const {width, height} = (one.closest('label') ?? one).getBoundingClientRect();
    const isInText = getComputedStyle(one).display === 'inline';
    return height > 0 && !isInText && (height < least - 0.5 || width < least - 0.5);
}).map((one) => one.outerHTML.slice(0, 200))"""
TOO_WIDE = """() => {
    const {clientWidth, scrollWidth} = document.documentElement;
    return scrollWidth <= clientWidth ? [] : [...document.querySelectorAll('main *')]
        .filter((one) => one.getBoundingClientRect().right > clientWidth).map((one) => one.outerHTML.slice(0, 200));
}"""
TEXT_PX = "parseFloat(getComputedStyle(document.querySelector('main')).fontSize)"


@pytest.fixture(scope="module")
def stack_config() -> str:
    """Agents that do what they are asked for."""
    return config()


@pytest.mark.parametrize("name", NAMES)
def test_a_screen_fits_a_phone_and_large_text(
    page: Any, stack: Stack, screens: dict[str, tuple[str, str]], name: str
) -> None:
    devtools = page.context.new_cdp_session(page)
    sizes = []
    for font in FONTS:
        devtools.send("Page.setFontSizes", {"fontSizes": font})
        show(page, stack, screens[name])
        open_folds(page)
        page.evaluate(PAINTED)
        assert page.evaluate(TOO_WIDE) == []
        assert page.evaluate(TOO_SMALL, TARGET_PX) == []
        sizes.append(page.evaluate(TEXT_PX))
    assert sizes == [16, 32]
    devtools.send("Page.setFontSizes", {"fontSizes": FONTS[0]})


def test_unfolded_content_beside_a_keyboard_can_be_reached(
    page: Any, stack: Stack, screens: dict[str, tuple[str, str]]
) -> None:
    page.set_viewport_size(BESIDE_KEYBOARD)
    show(page, stack, screens["planned"])
    page.get_by_label("Write to the agent").wait_for()
    open_folds(page)
    page.mouse.move(180, 400)
    for label in ("Time limit, minutes", "Write to the agent"):
        field = page.get_by_label(label)
        field.scroll_into_view_if_needed()
        box = field.bounding_box()
        assert 0 <= box["y"] <= BESIDE_KEYBOARD["height"] - box["height"], label
    page.set_viewport_size(PHONE)


def test_a_reader_at_the_end_stays_there_when_the_keyboard_opens(
    page: Any, stack: Stack, screens: dict[str, tuple[str, str]]
) -> None:
    show(page, stack, screens["ran"])
    page.get_by_label("Write to the agent").wait_for()
    page.wait_for_function("() => scrollY > 0")
    page.set_viewport_size(BESIDE_KEYBOARD)
    page.wait_for_function("() => Math.abs(document.body.scrollHeight - innerHeight - scrollY) <= 2")
    page.set_viewport_size(PHONE)


def test_a_keyboard_shrinks_the_page_instead_of_covering_it(page: Any) -> None:
    assert "interactive-widget=resizes-content" in page.locator("meta[name=viewport]").get_attribute("content")
