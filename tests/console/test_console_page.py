"""The console in real Chromium, at a phone's width: log in, read, allow, deny, and nothing hostile runs (J-5, J-15)."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.console.pages import PAINTED, PHONE, answered, asked, interlock, link, origin, page_of, read_to_end
from tests.console.payloads import HOSTILE

from interlock.sdk import Interlock
from proof.processes.stack import Stack

pytestmark = [pytest.mark.needs("chromium", "console"), pytest.mark.filterwarnings("ignore")]


@pytest.mark.req("J-10", "J-15", "J-16")
def test_a_link_logs_in_once_and_its_code_is_removed_from_the_url(browser: Any, stack: Stack) -> None:
    address = link(stack)
    context = browser.new_context(viewport=PHONE)
    page = context.new_page()
    page.goto(address)
    page.get_by_role("heading", name="Waiting for you").wait_for()
    assert page.url == address.partition("#")[0]
    context.close()
    second = browser.new_context(viewport=PHONE)
    page = second.new_page()
    page.goto(address)
    page.get_by_role("alert").wait_for()
    assert "not valid" in page.get_by_role("alert").inner_text()
    page.get_by_label("Key").fill((stack.state / "owner.key").read_text().strip())
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("heading", name="Waiting for you").wait_for()
    page.get_by_role("button", name="Log out").click()
    page.get_by_label("Key").wait_for()
    assert page.get_by_role("alert").count() == 0
    second.close()


@pytest.mark.req("J-10")
def test_a_login_that_ends_elsewhere_is_reported(browser: Any, stack: Stack) -> None:
    ann = {"principal": {"type": "user", "id": "ann"}, "roles": ["approver"]}
    key = stack.post("/v1/keys", ann, "key-for-ann").json()
    context = browser.new_context(viewport=PHONE)
    page = context.new_page()
    page.goto(f"{origin(stack)}/console/")
    page.get_by_label("Key").fill(key["key"])
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("heading", name="Waiting for you").wait_for()
    stack.post(f"/v1/keys/{key['key_id']}/revoke", {}, "revoke-the-key-of-ann").raise_for_status()
    page.get_by_role("alert").get_by_text("Your login has ended.").wait_for()
    page.get_by_label("Key").fill((stack.state / "owner.key").read_text().strip())
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("heading", name="Waiting for you").wait_for()
    context.close()


@pytest.mark.req("J-5", "J-17")
def test_a_phone_grants_and_denies(browser: Any, stack: Stack) -> None:
    made: dict[str, Path] = {name: stack.workspace / name for name in ("allowed", "denied")}
    with page_of(browser, stack) as page:
        for name, button in (("allowed", "Allow once"), ("denied", "Deny")):
            approval = asked(stack, f"touch {name}", f"phone-{name}")
            page.locator("main").get_by_text(f"touch {name}").click()
            page.wait_for_url(f"**/console/a/{approval}")
            deny, allow = (page.get_by_role("button", name=one) for one in ("Deny", "Allow once"))
            left, right = deny.bounding_box(), allow.bounding_box()
            assert min(left["height"], right["height"]) >= 48
            assert right["x"] - (left["x"] + left["width"]) >= 24
            if name == "denied":
                page.get_by_label("Reason").fill("not today")
            read_to_end(page)
            page.get_by_role("button", name=button, disabled=False).click()
            page.get_by_text("Decided by").wait_for()
            page.goto(f"{origin(stack)}/console/")
        stack.until(lambda: made["allowed"].exists())
    assert not made["denied"].exists()
    denied = next(one for one in stack.get("/v1/approvals", state="denied")["items"])
    assert denied["comment"] == "not today"


@pytest.mark.req("J-5")
def test_a_long_request_can_be_granted_only_after_its_end_was_shown(browser: Any, stack: Stack) -> None:
    approval = asked(stack, "echo " + "long " * 900, "long")
    with page_of(browser, stack, f"/a/{approval}") as page:
        allow = page.get_by_role("button", name="Allow once")
        page.get_by_text("More is below").wait_for()
        assert allow.is_disabled()
        page.mouse.wheel(0, 200)
        page.wait_for_function("() => scrollY > 100")
        assert allow.is_disabled()
        read_to_end(page)
        page.get_by_role("button", name="Allow once", disabled=False).wait_for()
    answered(stack, approval, "deny")


@pytest.mark.req("J-5")
def test_a_jump_stops_at_the_end_that_it_would_skip(browser: Any, stack: Stack) -> None:
    """What follows the request is taller than the screen, so that the end of the page does not show the request's."""
    approval = asked(stack, "echo " + "long " * 900, "jumped")
    with page_of(browser, stack) as page:
        page.set_viewport_size({"width": 360, "height": 420})
        page.goto(f"{origin(stack)}/a/{approval}")
        allow = page.get_by_role("button", name="Allow once")
        page.get_by_text("More is below").wait_for()
        assert allow.is_disabled()
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        page.get_by_role("button", name="Allow once", disabled=False).wait_for()
        end, bar = (page.locator(one).bounding_box() for one in (".end", ".answer"))
        assert 0 <= end["y"] < bar["y"], "its end is on the screen, above the buttons"
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        page.wait_for_function("() => document.querySelector('.end').getBoundingClientRect().top < 0")
    answered(stack, approval, "deny")


@pytest.mark.req("J-5")
def test_an_approval_decided_elsewhere_disappears(browser: Any, stack: Stack) -> None:
    approval = asked(stack, "touch elsewhere", "elsewhere")
    with page_of(browser, stack) as page:
        page.get_by_text("touch elsewhere").wait_for()
        answered(stack, approval, "deny")
        page.get_by_text("touch elsewhere").wait_for(state="detached")
        page.goto(f"{origin(stack)}/a/{approval}")
        page.get_by_text("Denied", exact=True).wait_for()
        assert page.get_by_role("button", name="Allow once").count() == 0


@pytest.mark.req("J-5")
def test_a_late_answer_restores_nothing(browser: Any, stack: Stack) -> None:
    """Reads of the list overlap, and the answer to an earlier one may come after that to a later one."""
    approval = asked(stack, "touch late", "late")
    held: list[tuple[Any, Any]] = []

    def hold_first(route: Any) -> None:
        if held:
            route.continue_()
        else:
            held.append((route, stack.get("/v1/approvals", state="pending", limit=100)))

    with page_of(browser, stack) as page:
        page.get_by_text("touch late").wait_for()
        page.route("**/v1/approvals?state=pending*", hold_first)
        other = asked(stack, "touch behind", "behind")
        stack.until(lambda: bool(page.evaluate("1") and held))
        answered(stack, approval, "deny")
        page.get_by_text("touch late").wait_for(state="detached")
        route, answer = held[0]
        with page.expect_event("requestfinished", lambda one: one == route.request):
            route.fulfill(json=answer)
        page.evaluate(PAINTED)
        assert page.get_by_text("touch late").count() == 0
    answered(stack, other, "deny")


@pytest.mark.req("J-5")
def test_chats_with_a_card_are_named_while_the_approval_waits(browser: Any, stack: Stack) -> None:
    approval = asked(stack, "touch posted", "posted")
    owner = (stack.state / "owner.key").read_text().strip()
    with Interlock(stack.url, owner) as bridge:
        bridge.approvals.report_cards(approval, "slack", ["C0123", "\u202e<b>"])
    with page_of(browser, stack, f"/a/{approval}") as page:
        assert page.locator("#chats").inner_text() == "slack (C0123) · slack (<U+202E><b>)"
        assert "posted in slack (C0123), slack (<U+202E><b>) as well" in interlock(stack, "approvals", approval)
        answered(stack, approval, "deny")
        page.locator("#chats").wait_for(state="detached")
    assert "posted in" not in interlock(stack, "approvals", approval)


@pytest.mark.req("J-5")
def test_the_remaining_time_follows_the_gateways_clock(browser: Any, stack: Stack) -> None:
    approval = asked(stack, "touch skewed", "skewed")
    context = browser.new_context(viewport=PHONE)
    page = context.new_page()
    page.clock.install(time=datetime.now(UTC) + timedelta(days=2))
    page.goto(link(stack))
    page.locator(".cards a", has_text="touch skewed").get_by_text("23 h").wait_for()
    page.goto(f"{origin(stack)}/console/a/{approval}")
    page.locator("dd", has_text="23 h").wait_for()
    context.close()
    answered(stack, approval, "deny")


@pytest.mark.req("J-5")
def test_a_vote_without_a_connection_is_not_shown_as_counted(browser: Any, stack: Stack) -> None:
    approval = asked(stack, "touch offline", "offline")
    with page_of(browser, stack, f"/console/a/{approval}") as page:
        allow = page.get_by_role("button", name="Allow once", disabled=False)
        allow.wait_for()
        page.context.set_offline(True)
        allow.click()
        page.get_by_role("alert").get_by_text("The gateway did not answer.").wait_for()
        assert stack.get(f"/v1/approvals/{approval}")["state"] == "pending"
        page.context.set_offline(False)
        allow.click()
        page.get_by_text("Decided by").wait_for()
        page.get_by_text("No connection to the gateway").wait_for(state="detached")


@pytest.mark.req("J-2")
def test_a_korean_page_shows_no_english_first(browser: Any, stack: Stack) -> None:
    """The translations are loaded before the first paint, and only for their readers."""
    context = browser.new_context(viewport=PHONE, locale="ko-KR", service_workers="block")
    context.add_init_script("""window.painted = [];
        new MutationObserver(() => { painted.push(document.body?.innerText ?? ''); })
          .observe(document, {childList: true, subtree: true, characterData: true});""")
    page = context.new_page()
    page.goto(f"{origin(stack)}/console/")
    page.get_by_role("button", name="로그인").wait_for()
    assert page.evaluate("document.documentElement.lang") == "ko"
    assert not any("Log in" in text for text in page.evaluate("painted"))
    context.close()


@pytest.mark.req("J-2")
def test_without_its_translation_a_page_is_in_english(browser: Any, stack: Stack) -> None:
    context = browser.new_context(viewport=PHONE, service_workers="block")
    asked_for: list[str] = []
    context.route("**/assets/korean-*", lambda route: (asked_for.append(route.request.url), route.abort()))
    page = context.new_page()
    page.goto(f"{origin(stack)}/console/")
    page.get_by_role("button", name="Log in").wait_for()
    assert asked_for == []
    with page.expect_event("requestfailed"):
        page.get_by_role("button", name="한국어").click()
    page.reload()
    page.get_by_role("button", name="Log in").wait_for()
    assert len(asked_for) == 1
    context.unroute("**/assets/korean-*")
    page.get_by_role("button", name="한국어").click()
    page.get_by_role("button", name="로그인").wait_for()
    page.reload()
    page.get_by_role("button", name="English").click()
    page.get_by_role("button", name="Log in").wait_for()
    context.close()


@pytest.mark.req("J-5", "K-1")
def test_a_viewer_is_not_offered_actions_that_would_be_refused(browser: Any, stack: Stack) -> None:
    approval = asked(stack, "touch looked", "looked")
    viewer = json.loads(interlock(stack, "keys", "create", "vi", "--role", "viewer", "--json"))
    context = browser.new_context(viewport=PHONE)
    page = context.new_page()
    page.goto(f"{origin(stack)}/console/a/{approval}")
    page.get_by_label("Key").fill(next(one for one in viewer.values() if str(one).startswith("ilk_")))
    page.get_by_role("button", name="Log in").click()
    page.get_by_text("can view, but not vote").wait_for()
    assert page.get_by_role("button").all_inner_texts() == ["한국어", "Log out"]
    assert page.get_by_text("interlock approve").count() == 0
    page.goto(f"{origin(stack)}/console/sessions/new")
    page.get_by_text("Your role does not include this view.").wait_for()
    assert page.get_by_label("Write to the agent").count() == 0
    context.close()
    answered(stack, approval, "deny")


@pytest.mark.req("J-16")
def test_no_hostile_text_of_a_request_runs_or_opens_a_dialog(browser: Any, stack: Stack) -> None:
    line = "printf '%s' " + " ".join("'" + one.replace("'", '"').replace("\n", " ") + "'" for one in HOSTILE)
    approval = asked(stack, line, "hostile")
    with page_of(browser, stack) as page:
        page.get_by_text("printf").first.wait_for()
        page.goto(f"{origin(stack)}/a/{approval}")
        page.locator(".end").wait_for(state="attached")
        shown = page.locator("pre").all_inner_texts()
        assert any("<script>window.ran=1</script>" in text for text in shown)
        assert any("<U+200B>" in text for text in shown)
    answered(stack, approval, "deny")
