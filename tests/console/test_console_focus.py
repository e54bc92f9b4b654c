"""What the console presents to screen readers and keyboards as it changes, in real Chromium: announcements, titles, the
skip link, and where the focus is after a view was left (J-5)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.console.pages import PAINTED, answered, asked, origin, page_of, reached

from proof.processes.stack import Stack

pytestmark = [pytest.mark.needs("chromium", "console"), pytest.mark.filterwarnings("ignore"), pytest.mark.req("J-5")]
ANNOUNCEMENT = "p.unseen[role=status]"
"""A status is a polite live region."""
HOLD = """
window.held = [];
const plain = setTimeout;
window.setTimeout = (work, delay_ms, ...values) => delay_ms === 1000
    ? window.held.push(() => work(...values)) : plain(work, delay_ms, ...values);
"""
"""Announcements are due when the test releases them: what arrives before that is one burst."""
RECORD = """() => {
    window.announced = [];
    const region = document.querySelector('p.unseen[role=status]');
    new MutationObserver(() => { if (region.innerText) window.announced.push(region.innerText); })
        .observe(region, {childList: true, characterData: true, subtree: true});
}"""


def announced(page: Any) -> list[str]:
    """Release what is due, and return all announcements so far."""
    page.evaluate("for (const work of window.held.splice(0)) work()")
    page.evaluate(PAINTED)
    return page.evaluate("window.announced")


def has_title(page: Any, title: str) -> None:
    reached(page, f"async () => document.title === {json.dumps(title)}")


def has_focus(page: Any, selector: str) -> None:
    reached(page, f"async () => document.activeElement.matches({json.dumps(selector)})")


def test_new_approvals_are_announced_once_and_a_burst_as_a_count(browser: Any, stack: Stack) -> None:
    ids = {"before": asked(stack, "touch before", "announce-before")}

    def arrive(page: Any, name: str, line: str) -> None:
        ids[name] = asked(stack, line, f"announce-{name}")
        page.locator(f"a[href='/console/a/{ids[name]}']").wait_for()

    with page_of(browser, stack) as page:
        page.context.add_init_script(HOLD)
        page.reload()
        page.get_by_text("touch before").wait_for()
        page.evaluate(RECORD)
        assert announced(page) == [], "what waits already is not new"
        arrive(page, "one", "touch one")
        arrive(page, "two", "touch two")
        assert announced(page) == ["2 new approvals"]
        arrive(page, "alone", "touch $& alone")
        assert announced(page)[1:] == ["New approval: $ touch $& alone"]
        arrive(page, "alone-again", "touch $& alone")
        assert announced(page)[2:] == ["New approval: $ touch $& alone"], "another one with the same text"
        answered(stack, ids["before"], "deny")
        page.locator(f"a[href='/console/a/{ids['before']}']").wait_for(state="detached")
        page.reload()
        page.get_by_text("touch one").wait_for()
        page.evaluate(RECORD)
        assert announced(page) == []
        page.get_by_role("button", name="한국어").click()
        arrive(page, "korean", "touch korean")
        assert announced(page) == ["새 승인: $ touch korean"]
    del ids["before"]
    for approval in ids.values():
        answered(stack, approval, "deny")


def test_an_approval_is_announced_on_every_view(browser: Any, stack: Stack) -> None:
    with page_of(browser, stack, "/console/settings") as page:
        page.locator("#retention li").first.wait_for()
        has_title(page, "Settings · Interlock")
        approval = asked(stack, "touch elsewhere", "announce-elsewhere")
        page.locator(ANNOUNCEMENT, has_text="New approval: $ touch elsewhere").wait_for(state="attached")
        has_title(page, "(1) Settings · Interlock")
        answered(stack, approval, "deny")
        has_title(page, "Settings · Interlock")
        page.locator(f"{ANNOUNCEMENT}:empty").wait_for(state="attached")


def test_the_title_names_the_view(browser: Any, stack: Stack) -> None:
    approval = asked(stack, "touch title", "title")
    with page_of(browser, stack) as page:
        has_title(page, "(1) Approvals · Interlock")
        names = page.locator("nav a").all_inner_texts()
        assert len(names) > 5
        for name in names:
            page.locator("nav").get_by_role("link", name=name, exact=True).click()
            has_title(page, f"(1) {name} · Interlock")
        page.get_by_role("link", name="Approvals", exact=True).click()
        page.get_by_role("link", name="Decided").click()
        has_title(page, "(1) Decided · Interlock")
        page.goto(f"{origin(stack)}/console/a/{approval}")
        has_title(page, "(1) Approvals · Interlock")
        page.goto(f"{origin(stack)}/console/nowhere")
        has_title(page, "(1) Page not found · Interlock")
        page.get_by_role("button", name="한국어").click()
        has_title(page, "(1) 페이지를 찾을 수 없음 · Interlock")
    answered(stack, approval, "deny")
    context = browser.new_context()
    login = context.new_page()
    login.goto(f"{origin(stack)}/console/")
    has_title(login, "Log in · Interlock")
    context.close()


def test_a_skip_link_leads_past_the_navigation(browser: Any, stack: Stack) -> None:
    approval = asked(stack, "touch skip", "skip")
    with page_of(browser, stack) as page:
        page.get_by_text("touch skip").wait_for()
        link = page.get_by_role("link", name="Skip to content")
        assert link.bounding_box()["width"] == 1
        page.keyboard.press("Tab")
        has_focus(page, "a[href='#main']")
        shown = link.bounding_box()
        assert (shown["width"] > 50, shown["height"] >= 44) == (True, True), "it can be seen and touched while focused"
        page.keyboard.press("Enter")
        has_focus(page, "main")
        assert page.url == f"{origin(stack)}/console/"
        page.keyboard.press("Tab")
        has_focus(page, ".tabs a[href='/console/']")
    answered(stack, approval, "deny")


def test_after_an_approval_the_focus_is_on_its_row(browser: Any, stack: Stack) -> None:
    first, second = (asked(stack, f"touch leave-{n}", f"leave-{n}") for n in (1, 2))
    with page_of(browser, stack) as page:
        for leave in (lambda: page.get_by_role("link", name="All approvals").press("Enter"),
                      lambda: page.keyboard.press("u"), page.go_back):
            page.locator(f".cards a[href='/console/a/{second}']").press("Enter")
            page.get_by_role("button", name="Deny").wait_for()
            has_focus(page, "main")
            leave()
            has_focus(page, f".cards a[href='/console/a/{second}']")
        page.locator(f".cards a[href='/console/a/{second}']").press("Enter")
        page.get_by_role("button", name="Deny").click()
        page.get_by_text("Decided by").wait_for()
        has_focus(page, f"a.main[href='/console/a/{first}']")
        page.keyboard.press("Enter")
        page.wait_for_url(f"**/console/a/{first}")
        has_focus(page, "main")
        page.go_back()
        page.get_by_text("Decided by").wait_for()
        page.get_by_role("link", name="All approvals").press("Enter")
        has_focus(page, "h1.unseen")
        page.get_by_role("link", name="Decided").click()
        page.locator(f".cards a[href='/console/a/{second}']").press("Enter")
        page.get_by_text("Decided by").wait_for()
        page.go_back()
        has_focus(page, f".cards a[href='/console/a/{second}']")
    answered(stack, first, "deny")


def test_a_decided_approval_leaves_the_list_before_the_list_is_read_again(browser: Any, stack: Stack) -> None:
    first, second = (asked(stack, f"touch left-{n}", f"left-{n}") for n in (1, 2))
    held: list[Any] = []
    with page_of(browser, stack, f"/console/a/{second}") as page:
        has_title(page, "(2) Approvals · Interlock")
        page.route("**/v1/approvals?state=pending*", lambda route: held.append(route))
        page.get_by_role("button", name="Deny").click()
        has_title(page, "(1) Approvals · Interlock")
        page.keyboard.press("u")
        has_focus(page, "h1.unseen")
        assert page.locator(".cards a").count() == 1
        for route in held:
            route.continue_()
    answered(stack, first, "deny")


def test_a_list_moves_no_focus_that_the_user_has_set(browser: Any, stack: Stack) -> None:
    approval = asked(stack, "touch keep-focus", "keep-focus")
    with page_of(browser, stack, f"/console/a/{approval}") as page:
        page.get_by_role("button", name="Deny").wait_for()
        page.locator("nav").get_by_role("link", name="Approvals", exact=True).press("Enter")
        page.get_by_text("touch keep-focus").wait_for()
        page.evaluate(PAINTED)
        has_focus(page, "nav a[href='/console/']")
        page.evaluate("document.activeElement.blur()")
        other = asked(stack, "touch keep-body", "keep-body")
        page.locator("main").get_by_text("touch keep-body").wait_for()
        page.evaluate(PAINTED)
        has_focus(page, "body")
    for one in (approval, other):
        answered(stack, one, "deny")
