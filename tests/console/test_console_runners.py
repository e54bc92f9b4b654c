"""The view of runners in real Chromium: who is online, draining one, and a code that pairs another (J-8)."""

from __future__ import annotations

import re
from typing import Any

import pytest
from proof.house import House
from tests.console.pages import page_of

pytestmark = [pytest.mark.needs("chromium", "console"), pytest.mark.filterwarnings("ignore")]


@pytest.mark.req("J-8")
def test_a_runner_is_drained_and_put_back_and_another_is_offered_a_code(browser: Any, house: House) -> None:
    with page_of(browser, house) as page:
        page.get_by_role("link", name="Runners").click()
        page.locator("p", has_text=re.compile("^(online|working) ")).wait_for()  # Other tests share this runner.
        page.locator(".runners li li", has_text="shell").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.get_by_role("button", name="Drain", exact=True).click()
        page.get_by_text("drained: nothing new starts").wait_for()
        assert house.get("/v1/status")["drains"][0]["scope"] == "runner"
        page.get_by_role("button", name="End the drain").click()
        page.get_by_role("button", name="Drain", exact=True).wait_for()
        assert house.get("/v1/status").get("drains", []) == []
        page.get_by_role("button", name="Pair a host").click()
        page.locator("pre", has_text="interlock runner pair").wait_for()
        page.get_by_role("button", name="Revoke").click()
        page.get_by_role("button", name="it can never connect again").wait_for()
        assert not any(one["revoked"] for one in house.get("/v1/runners")["runners"])
