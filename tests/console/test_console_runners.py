"""The view of runners in real Chromium: the online ones, a drain, and a code that pairs another (J-8)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from tests.console.pages import page_of

import interlock
from proof.processes.stack import Stack

pytestmark = [pytest.mark.needs("chromium", "console"), pytest.mark.filterwarnings("ignore"), pytest.mark.req("J-8")]


def test_a_runner_is_drained_and_resumed_and_another_gets_a_code(browser: Any, stack: Stack) -> None:
    with page_of(browser, stack) as page:
        page.get_by_role("link", name="Runners").click()
        page.locator("p", has_text=re.compile("^(online|working) ")).wait_for()  # Other tests share this runner.
        page.locator(".runners li li", has_text="shell").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.get_by_role("button", name="Drain", exact=True).click()
        page.get_by_text("drained: no new work starts").wait_for()
        assert stack.get("/v1/status")["drains"][0]["scope"] == "runner"
        page.get_by_role("button", name="End the drain").click()
        page.get_by_role("button", name="Drain", exact=True).wait_for()
        assert stack.get("/v1/status").get("drains", []) == []
        page.get_by_role("button", name="Pair a host").click()
        page.locator("pre", has_text="interlock runner pair").wait_for()
        page.get_by_role("button", name="Revoke").click()
        page.get_by_role("button", name="it can never connect again").wait_for()
        assert not any(one["revoked"] for one in stack.get("/v1/runners")["runners"])


@pytest.fixture
def drained(stack: Stack) -> Iterator[None]:
    """A drain of everything."""
    stack.post("/v1/drain", {"scope": "gateway", "reason": "a new disk <b>tonight</b>"}, "drain-all")
    yield
    stack.post("/v1/undrain", {"scope": "gateway"}, "undrain-all")


def altered(page: Any, nodes: list[dict[str, Any]], **members: Any) -> None:
    """Make the list of runners report this of the only one."""
    page.unroute_all()
    page.route("**/v1/edge/nodes", lambda one: one.fulfill(json={"nodes": [{**nodes[0], **members}]}))
    page.reload()


def test_a_runners_version_system_and_clock_are_shown(browser: Any, stack: Stack) -> None:
    with page_of(browser, stack, "/console/runners") as page:
        facts = page.locator(".facts").first
        facts.wait_for()
        assert facts.inner_text().startswith(f"interlock {interlock.__version__} · ")
        assert page.locator("[data-skew], [data-outbox]").count() == 0
        nodes = stack.get("/v1/edge/nodes")["nodes"]
        altered(page, nodes, device_name="ann's <b>laptop</b>")
        page.get_by_role("heading", name="local · host ann's <b>laptop</b>", exact=True).wait_for()
        altered(page, nodes, device_name="local")
        page.get_by_role("heading", name="local", exact=True).wait_for()
        for offset_ms, text, tone in ((89_500, "Its clock is 89.5 s ahead of the gateway’s.", "bad"),
                                      (1_199_300, "Its clock is 20 min ahead of the gateway’s.", "bad"),
                                      (-7_200_000, "Its clock is 2 h behind the gateway’s.", "bad"),
                                      (-259_200_000, "Its clock is 3 d behind the gateway’s.", "bad"),
                                      (-1_500, "Its clock is 1.5 s behind the gateway’s.", "quiet"),
                                      (999, "Its clock matches the gateway’s.", "quiet")):
            altered(page, nodes, clock_offset_ms=offset_ms)
            clock = page.locator("[data-clock]")
            clock.wait_for()
            assert (clock.inner_text(), clock.get_attribute("class")) == (text, tone)
        altered(page, nodes, software="interlock 0.0.1", outbox_bytes=1_234_567)
        page.locator("[data-skew]", has_text=f"differs from the gateway’s, {interlock.__version__}").wait_for()
        page.locator("[data-outbox]", has_text="1,235 kB in its outbox are not sent yet").wait_for()
        altered(page, nodes, software="<img src=x onerror='window.ran=1'>\u202e", system=None, clock_offset_ms=None)
        page.locator(".facts", has_text="<U+202E>").wait_for()
        assert page.locator("[data-clock]").count() == 0, "a runner whose clock is not known says nothing of it"
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.usefixtures("drained")
def test_a_drain_of_everything_is_shown_with_its_reason_and_can_be_ended(browser: Any, stack: Stack) -> None:
    with page_of(browser, stack, "/console/runners") as page:
        shown = page.locator("[data-drain=gateway]")
        shown.get_by_text("a new disk <b>tonight</b>").wait_for()
        assert re.search(r"since .*, by ", shown.inner_text())
        page.get_by_role("button", name="Drain", exact=True).wait_for()
        assert page.locator("[data-drain=runner]").count() == 0, "the runner itself is not drained"
        shown.get_by_role("button", name="End the drain").click()
        shown.wait_for(state="detached")
        assert stack.get("/v1/status").get("drains", []) == []


def test_why_a_runner_was_not_drained_stays_while_the_view_is_read_again(browser: Any, stack: Stack) -> None:
    with page_of(browser, stack, "/console/runners") as page:
        page.route("**/v1/drain", lambda one: one.fulfill(status=409, json={"code": "Conflict", "detail": "Not now."}))
        with page.expect_response("**/v1/edge/nodes"):
            page.get_by_role("button", name="Drain", exact=True).click()
        with page.expect_response("**/v1/edge/nodes"):
            page.get_by_role("alert").get_by_text("Not now.").wait_for()
        assert page.get_by_role("alert").get_by_text("Not now.").is_visible()
        page.unroute("**/v1/drain")
        page.get_by_role("button", name="Drain", exact=True).click()
        page.get_by_role("alert").wait_for(state="detached")
        page.get_by_role("button", name="End the drain").click()
        page.get_by_role("button", name="Drain", exact=True).wait_for()
