"""A session's earlier events in real Chromium: read as the reader comes near them, each once, while what is on the
screen stays where it is (J-3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.console.pages import origin, page_of, ran

from proof.processes.stack import Stack

pytestmark = [pytest.mark.needs("chromium", "console"), pytest.mark.filterwarnings("ignore"), pytest.mark.req("J-3")]
ENTRIES = 2_000
CALL, RESULT = 1_595, 1_605
"""A tool call that begins in one page and ends in the next."""
STRETCH, WHOLE = 50, 400
PRESSES = 200
SETTLED = 20
STEPS = 5
TWO_FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
WATCHED = """(name) => {
  const row = [...document.querySelectorAll('.blocks code')].find((one) => one.textContent === name);
  window.held = {row: row.closest('.block'), top: row.closest('.block').getBoundingClientRect().top};
}"""
MOVED = """(name) => {
  const row = [...document.querySelectorAll('.blocks code')].find((one) => one.textContent === name);
  return Math.abs(row.closest('.block').getBoundingClientRect().top - window.held.top);
}"""
SHOWN = """() => [...document.querySelectorAll('.blocks code')].filter((one) => {
  const {top, bottom} = one.getBoundingClientRect();
  return bottom > 0 && top < innerHeight;
}).map((one) => one.textContent)"""


class Frames:
    """Answers for a session's frames, and records what was asked. Each entry is one notice, whose code is its number,
    but for a tool call over the end of a page."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []
        self.fails = False

    def answer(self, route: Any) -> None:
        query = {name: values[0] for name, values in parse_qs(urlsplit(route.request.url).query).items()}
        self.asked.append(query)
        if self.fails and "before" in query:
            route.fulfill(status=503, json={"code": "Unavailable", "detail": "The ledger cannot be read now."})
            return
        end = int(query.get("before", ENTRIES))
        first = max(1, end - int(query["limit" if "before" in query else "last"]) + 1)
        route.fulfill(json={"events": [event(n) for n in range(first, end + 1)], "next_cursor": str(end),
                            "has_more": end < ENTRIES, "previous_cursor": str(first - 1) if first > 1 else None})

    @property
    def before(self) -> list[int]:
        return [int(query["before"]) for query in self.asked if "before" in query]


def event(n: int) -> dict[str, Any]:
    if n == CALL:
        return framed(n, "tool.invoke.request", {"invocation_id": "i", "tool_name": "shell", "title": "long-call",
                                                 "input": {"command": "sleep 9"}})
    if n == RESULT:
        return framed(n, "tool.invoke.result", {"invocation_id": "i", "status": "ok", "duration_ms": 9_000,
                                                "output_type": "text", "output": "woke-up"})
    return {"n": n, "kind": "notice", "notice": {"code": f"N{n}", "message": "word " * (1 + n % 7 * 9)}}


def framed(n: int, kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    return {"n": n, "kind": "C", "frame": {"type": kind, "payload": payload}}


@pytest.fixture(scope="module")
def session(stack: Stack) -> str:
    return ran(stack, "shell", "true", "earlier")


@pytest.fixture
def frames() -> Frames:
    return Frames()


@pytest.fixture
def page(browser: Any, stack: Stack, session: str, frames: Frames) -> Iterator[Any]:
    """A page at the newest events."""
    with page_of(browser, stack) as page:
        page.route("**/v1/sessions/*/frames?*", frames.answer)
        page.goto(f"{origin(stack)}/console/sessions/{session}")
        page.get_by_text(f"N{ENTRIES}", exact=True).wait_for()
        page.wait_for_function("() => scrollY > 1000 && innerHeight + scrollY >= document.body.scrollHeight - 160")
        yield page


def arrived(page: Any, first: int) -> None:
    """Wait until the events from this one on are there, and drawn."""
    number = (ENTRIES - first) // STRETCH + 1
    page.wait_for_function("(count) => document.querySelectorAll('.blocks > div').length >= count", arg=number)
    page.evaluate(TWO_FRAMES)


def test_the_readers_position_is_kept_while_earlier_events_load(page: Any, frames: Frames) -> None:
    assert frames.before == [], "nothing earlier is read before somebody comes near it"
    page.evaluate("scrollTo(0, 900)")
    page.evaluate(TWO_FRAMES)
    assert frames.before == []
    page.evaluate("scrollTo(0, 700)")
    seen = page.evaluate(SHOWN)[1]
    page.evaluate(WATCHED, seen)
    arrived(page, 1_101)
    assert page.evaluate(MOVED, seen) <= 1
    assert page.evaluate("scrollY") > 2_000
    assert frames.before == [1_600]


def test_a_late_growth_keeps_a_reader_at_the_end_and_no_other_reader(page: Any) -> None:
    grow = """() => {
      const panel = document.createElement('div');
      panel.style.height = '900px';
      document.querySelector('.blocks').after(panel);
    }"""
    page.evaluate(grow)
    page.wait_for_function("() => innerHeight + scrollY >= document.body.scrollHeight - 2")
    page.evaluate("scrollBy(0, -1500)")
    page.get_by_role("button", name="↓").wait_for()
    seen = page.evaluate(SHOWN)[1]
    page.evaluate(WATCHED, seen)
    page.evaluate(grow)
    page.evaluate(TWO_FRAMES)
    assert page.evaluate(MOVED, seen) <= 1


def test_a_reader_who_scrolls_up_slowly_while_text_arrives_leaves_the_end(page: Any) -> None:
    page.evaluate("""() => {
      const panel = document.createElement('div');
      document.querySelector('.blocks').after(panel);
      window.grown_px = 0;
      const grow = () => {
        window.grown_px += 2;
        panel.style.height = `${window.grown_px}px`;
        requestAnimationFrame(grow);
      };
      grow();
    }""")
    page.wait_for_function("() => window.grown_px > 100 && innerHeight + scrollY >= document.body.scrollHeight - 4")
    for _ in range(STEPS):
        page.evaluate("scrollBy(0, -8)")
        page.evaluate(TWO_FRAMES)
    page.get_by_role("button", name="Newest").wait_for()
    seen = page.evaluate(SHOWN)[1]
    page.evaluate(WATCHED, seen)
    page.wait_for_function("(px) => window.grown_px > px", arg=page.evaluate("window.grown_px") + 100)
    assert page.evaluate(MOVED, seen) <= 1


def test_the_position_is_kept_at_the_very_top_too(page: Any) -> None:
    page.evaluate(f"(name) => {{ scrollTo(0, 0); ({WATCHED})(name); }}", "N1601")
    arrived(page, 1_101)
    for _ in range(SETTLED):
        page.evaluate(TWO_FRAMES)
    assert page.evaluate(MOVED, "N1601") <= 1
    assert page.evaluate("scrollY") > 2_000


def test_keys_alone_reach_the_first_event_and_each_page_loads_once(page: Any, frames: Frames) -> None:
    page.evaluate("document.activeElement.blur()")
    for first, end in ((1_101, 1_600), (601, 1_100), (101, 600), (1, 100)):
        page.keyboard.press("Home")
        arrived(page, first)
        assert frames.before[-1] == end
    page.get_by_role("button", name="Show earlier").wait_for(state="detached")
    for _ in range(PRESSES):  # The browser holds its place, while what comes near gets its height.
        if page.evaluate("scrollY") == 0:
            break
        page.keyboard.press("Home")
        page.evaluate(TWO_FRAMES)
    page.get_by_text("N1", exact=True).wait_for()
    assert page.evaluate("scrollY") == 0
    assert frames.before == [1_600, 1_100, 600, 100]
    assert page.evaluate("document.querySelectorAll('.blocks code').length") < WHOLE, "of all, what is near is there"
    assert page.evaluate(f"({SHOWN})()")[:2] == ["N1", "N2"]


def test_a_call_that_continues_in_the_next_page_is_shown_once_at_its_start(page: Any) -> None:
    page.evaluate("scrollTo(0, 0)")
    arrived(page, 1_101)
    page.get_by_text("N1594", exact=True).scroll_into_view_if_needed()
    card = page.locator(".tool")
    card.wait_for()
    assert card.count() == 1
    assert "long-call" in card.inner_text()
    assert "woke-up" in card.inner_text()
    order = page.locator(".blocks > div > *").all_inner_texts()
    at = next(number for number, text in enumerate(order) if "long-call" in text)
    assert "N1594" in order[at - 1]
    assert "N1596" in order[at + 1]


def test_after_a_failure_only_the_button_retries_and_keeps_its_focus(page: Any, frames: Frames) -> None:
    frames.fails = True
    page.evaluate("scrollTo(0, 0)")
    page.get_by_role("alert").wait_for()
    page.evaluate("scrollTo(0, 50)")
    page.evaluate(TWO_FRAMES)
    assert frames.before == [1_600]
    frames.fails = False
    button = page.get_by_role("button", name="Show earlier")
    for first in (1_101, 601, 101, 1):
        button.focus()
        page.keyboard.press("Enter")
        arrived(page, first)
    button.wait_for(state="detached")
    assert page.get_by_role("alert").count() == 0
    assert page.evaluate("document.activeElement.getAttribute('role')") == "log"
    assert sorted(frames.before, reverse=True) == [1_600, 1_600, 1_100, 600, 100]


def test_a_jump_to_the_newest_ends_there_despite_late_sizes(page: Any) -> None:
    """A page that becomes shorter and longer within one frame moves up without a reader."""
    page.evaluate("scrollTo(0, 200)")
    newest = page.get_by_role("button", name="Newest")
    newest.wait_for()
    page.evaluate("""() => document.querySelector('.jump').addEventListener('click', () => requestAnimationFrame(() => {
        const last = document.querySelector('.blocks').lastElementChild;
        last.style.display = 'none';
        window.shorter = document.body.scrollHeight;
        last.style.display = '';
        window.longer = document.body.scrollHeight;
    }))""")
    newest.click()
    newest.wait_for(state="detached")
    page.wait_for_function("() => innerHeight + scrollY >= document.body.scrollHeight - 2")
    assert page.evaluate("longer - shorter > innerHeight"), "it was clamped meanwhile"


def test_a_reader_who_leaves_during_a_jump_is_not_held(page: Any) -> None:
    page.evaluate("scrollTo(0, 200)")
    page.get_by_role("button", name="Newest").wait_for()
    page.evaluate("""() => {
        let before = 0;
        const leave = () => {
            const [size, isSized] = [document.body.scrollHeight, document.body.scrollHeight === before];
            before = size;
            if (!isSized) { requestAnimationFrame(leave); return; }
            dispatchEvent(new WheelEvent('wheel', {deltaY: -900}));
            scrollBy(0, -900);
        };
        document.querySelector('.jump').addEventListener('click', () => requestAnimationFrame(leave));
    }""")
    page.get_by_role("button", name="Newest").click()
    page.wait_for_function("() => document.body.scrollHeight - innerHeight - scrollY > 160")
    for _ in range(PRESSES):
        page.evaluate(TWO_FRAMES)
    page.get_by_role("button", name="Newest").wait_for()
