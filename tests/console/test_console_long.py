"""A transcript of 100,000 entries in real Chromium, scrolled from its first entry to its last: of all that, the page
holds what is near the screen (J-3, J-4)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.console.pages import interlock, origin, page_of

from proof.processes.stack import Stack

pytestmark = [pytest.mark.long, pytest.mark.needs("chromium", "console"), pytest.mark.filterwarnings("ignore"),
              pytest.mark.req("J-4")]
ENTRIES = 100_000
STRETCH = 50
"""This many entries far from the screen are one element."""
NEAR_ELEMENTS = 1_500
"""The rest of the page, with the entries that are near the screen of a phone."""
SCREENS = 200
"""How far each step scrolls."""
PATIENCE_MS = 120_000
SCROLLED = """async (screens) => {
  const row = (element) => Number(element.textContent.slice(1));
  const frame = () => new Promise(requestAnimationFrame);
  const shown = () => [...document.querySelectorAll('.blocks code')].filter((one) => {
    const {top, bottom} = one.getBoundingClientRect();
    return bottom > 0 && top < innerHeight;
  }).map(row);
  const found = {most: 0, blank: 0, back: 0, steps: 0, rows: 0};
  let [last, at] = [0, -1];
  scrollTo(0, 0);
  await frame(); await frame(); await frame();
  while (scrollY !== at) {
    at = scrollY;
    const rows = shown();
    found.most = Math.max(found.most, document.querySelectorAll('*').length);
    found.steps += 1;
    found.rows += rows.length;
    if (rows.length > 0 && rows[0] < last) found.back += 1;
    if (document.querySelectorAll('.blocks code').length === 0) found.blank += 1;
    last = rows.at(-1) ?? last;
    scrollBy(0, screens * innerHeight);
    await frame(); await frame(); await frame();
  }
  return {...found, last};
}"""
"""Scroll by this many screens at a time until nothing moves."""


class Transcript:
    """Answers for a session's frames: each entry is one notice, whose code is its number."""

    def __init__(self) -> None:
        dice = random.Random(4)
        self._words = [dice.choice((1, 8, 40, 120)) for _ in range(ENTRIES)]

    def answer(self, route: Any) -> None:
        query = {name: values[0] for name, values in parse_qs(urlsplit(route.request.url).query).items()}
        end = int(query.get("before", ENTRIES))
        first = max(1, end - int(query["limit" if "before" in query else "last"]) + 1)
        route.fulfill(json={"events": [self._event(n) for n in range(first, end + 1)], "next_cursor": str(end),
                            "has_more": end < ENTRIES, "previous_cursor": str(first - 1) if first > 1 else None})

    def _event(self, n: int) -> dict[str, Any]:
        return {"n": n, "kind": "notice", "notice": {"code": f"N{n}", "message": "word " * self._words[n - 1]}}


@pytest.fixture(scope="module")
def page(browser: Any, stack: Stack) -> Iterator[Any]:
    """A page that shows all of the transcript, from its first entry on."""
    interlock(stack, "run", "shell", "true", "--session", "endless", "--yes")
    session = stack.get("/v1/sessions")["items"][0]["session_id"]
    with page_of(browser, stack) as page:
        page.set_default_timeout(PATIENCE_MS)
        page.route("**/v1/sessions/*/frames?*", Transcript().answer)
        page.goto(f"{origin(stack)}/console/sessions/{session}")
        page.get_by_text(f"N{ENTRIES}", exact=True).wait_for()
        earlier = page.get_by_role("button", name="Show earlier")
        while earlier.count():
            stretches = page.locator(".blocks > div").count()
            page.evaluate("scrollTo(0, 0)")
            page.wait_for_function("(before) => document.querySelectorAll('.blocks > div').length > before",
                                   arg=stretches)
        assert page.locator(".blocks > div").count() == ENTRIES // STRETCH
        yield page


def test_the_size_of_the_page_is_bounded_from_the_first_entry_to_the_last(page: Any) -> None:
    found = page.evaluate(SCROLLED, SCREENS)
    assert found["steps"] > 40, "it was scrolled by many steps"
    assert found["rows"] > found["steps"] // 2, "entries were on the screen"
    assert found["most"] <= ENTRIES // STRETCH + NEAR_ELEMENTS
    assert (found["last"], found["back"], found["blank"]) == (ENTRIES, 0, 0)


def test_a_jump_to_either_end_shows_that_end_and_new_events(page: Any) -> None:
    page.evaluate("scrollTo(0, 0)")
    page.get_by_text("N1", exact=True).wait_for()
    newest = page.get_by_role("button", name="Newest")
    newest.wait_for()
    place = newest.bounding_box()
    assert place["y"] + place["height"] <= page.viewport_size["height"], "a reader far from the end sees it"
    newest.click()
    page.get_by_text(f"N{ENTRIES}", exact=True).wait_for()
    page.wait_for_function("() => innerHeight + scrollY >= document.body.scrollHeight - 160")
    page.keyboard.press("Home")
    page.get_by_text("N1", exact=True).wait_for()
    assert page.evaluate("document.querySelectorAll('*').length") <= ENTRIES // STRETCH + NEAR_ELEMENTS
