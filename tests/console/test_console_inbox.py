"""An inbox of thousands in real Chromium: of all its approvals, the page holds those near the screen (J-5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.console.pages import asked, origin, page_of

from proof.processes.stack import Stack

pytestmark = [pytest.mark.needs("chromium", "console"), pytest.mark.filterwarnings("ignore"), pytest.mark.req("J-5")]
WAITING = 2_400
NEAR_ELEMENTS = 2_000
"""The page with the approvals that are near the screen of a phone; each has 8 elements."""


@pytest.fixture(scope="module")
def page(browser: Any, stack: Stack) -> Iterator[Any]:
    """A page whose gateway repeats one approval, each with a number for its host."""
    asked(stack, "touch long", "long")
    (one,) = stack.get("/v1/approvals", state="pending")["items"]
    requests = list[int]()

    def answer(route: Any) -> None:
        query = parse_qs(urlsplit(route.request.url).query)
        first, limit = (int(query.get(name, ["0"])[0]) for name in ("cursor", "limit"))
        requests.append(limit)
        until = min(first + limit, WAITING)
        items = [{**one, "id": f"apr_{n:06}", "runner_id": f"host-{n}",
                  "created_at": f"2026-01-01T00:{59 - n // 60:02}:{59 - n % 60:02}.000Z"} for n in range(first, until)]
        route.fulfill(json={"items": items, "next_cursor": str(until) if until < WAITING else None,
                            "has_more": until < WAITING})

    with page_of(browser, stack) as page:
        page.route("**/v1/approvals?state=pending*", answer)
        page.goto(f"{origin(stack)}/console/")
        yield page
        assert max(requests) * len(requests) < 2 * WAITING


def test_of_a_long_inbox_the_page_holds_what_is_near_the_screen_from_the_oldest_to_the_newest(page: Any) -> None:
    page.get_by_text(f"host-{WAITING - 1}", exact=True).wait_for()
    assert page.title() == f"({WAITING}) Approvals · Interlock"
    assert page.evaluate("document.querySelectorAll('*').length") < NEAR_ELEMENTS
    for n in (WAITING // 2, 0):
        page.evaluate("(share) => scrollTo(0, share * document.body.scrollHeight)", (WAITING - n) / WAITING)
        page.locator(f"a[href='/console/a/apr_{n:06}']").wait_for(state="attached")
        assert page.evaluate("document.querySelectorAll('*').length") < NEAR_ELEMENTS
