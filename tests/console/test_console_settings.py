"""Usage, keys and devices, and settings in real Chromium (J-8)."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from tests.console.pages import PHONE, answered, asked, link, origin, page_of, ran

from proof.processes.stack import Stack

pytestmark = [pytest.mark.needs("chromium", "console"), pytest.mark.filterwarnings("ignore"), pytest.mark.req("J-8")]
FITS = "document.documentElement.scrollWidth <= innerWidth"


def test_usage_is_shown_by_agent_and_downloaded(browser: Any, stack: Stack, tmp_path: Path) -> None:
    ran(stack, "shell", "true", "used")
    with page_of(browser, stack, "/console/usage") as page:
        page.locator(".figures tbody td").first.wait_for()
        page.get_by_label("By").select_option("agent")
        page.locator(".figures tbody th", has_text="shell").wait_for()
        assert "by=agent" in page.url
        assert page.evaluate(FITS)
        with page.expect_download() as found:
            page.get_by_role("button", name="Download as CSV").click()
        found.value.save_as(tmp_path / "usage.csv")
    rows = list(csv.DictReader((tmp_path / "usage.csv").read_text("utf-8").splitlines()))
    report = stack.get("/v1/usage", by="agent")
    assert [(one["agent"], int(one["turns"])) for one in rows] == [(one["agent_id"], one["turns"])
                                                                   for one in report["items"]]


def test_a_key_is_created_shown_once_and_revoked(browser: Any, stack: Stack) -> None:
    with page_of(browser, stack, "/console/access") as page:
        page.get_by_text("this browser").wait_for()
        page.locator("summary", has_text="Create a key").click()
        page.get_by_label("Name", exact=True).fill("of a test")
        page.get_by_label("Role").select_option("viewer")
        page.get_by_label("Valid for (days)").fill("1")
        page.get_by_role("button", name="Create a key").click()
        page.locator("pre", has_text="ilk_").wait_for()
        row = page.locator("#keys li", has_text="of a test")
        row.get_by_text("viewer").wait_for()
        assert page.evaluate(FITS)
        row.get_by_role("button", name="Revoke").click()
        row.get_by_role("button", name="it stops working at once").click()
        row.wait_for(state="detached")
    kept = next(one for one in stack.get("/v1/keys")["keys"] if one["label"] == "of a test")
    assert (kept["roles"], kept["revoked"], kept["expires_at"] is None) == (["viewer"], True, False)


def test_another_browsers_login_is_ended(browser: Any, stack: Stack) -> None:
    other = browser.new_context(viewport=PHONE)
    page = other.new_page()
    page.goto(link(stack))
    page.get_by_role("heading", name="Waiting for you").wait_for()
    with page_of(browser, stack) as mine:
        mine.goto(f"{origin(stack)}/console/access")
        mine.get_by_text("this browser").wait_for()
        while (ends := mine.get_by_role("button", name="End", exact=True)).count():
            before = ends.count()
            ends.first.click()
            mine.get_by_role("button", name="End this login").click()
            mine.wait_for_function("count => [...document.querySelectorAll('button.no')].filter("
                                   "(one) => one.textContent === 'End').length < count", arg=before)
    page.reload()
    page.get_by_label("Key").wait_for()
    other.close()


def test_colours_and_language_are_stored_per_browser(browser: Any, stack: Stack) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    with page_of(browser, stack, "/console/settings") as page:
        page.get_by_label("Colours").select_option("dark")
        dark = page.evaluate(ground)
        page.get_by_label("Colours").select_option("light")
        light = page.evaluate(ground)
        assert (dark, light) == ("rgb(13, 17, 23)", "rgb(255, 255, 255)")
        page.get_by_label("Colours").select_option("dark")
        page.get_by_label("Language").select_option("한국어")
        page.get_by_role("heading", name="설정").wait_for()
        page.reload()
        page.get_by_role("heading", name="설정").wait_for()
        assert page.evaluate(ground) == dark
        page.get_by_label("언어").select_option("English")
        page.get_by_role("heading", name="Settings").wait_for()
        assert page.evaluate(FITS)


@pytest.mark.req("J-4")
def test_a_session_is_named_forked_and_archived(browser: Any, stack: Stack) -> None:
    approval = asked(stack, "echo act", "acted")
    answered(stack, approval, "grant")
    session = stack.get(f"/v1/approvals/{approval}")["session_id"]
    stack.until(lambda: stack.get(f"/v1/sessions/{session}")["state"] == "idle")
    with page_of(browser, stack, f"/console/sessions/{session}") as page:
        page.get_by_text("Rename, fork, archive…").click()
        page.get_by_label("Name of the session").fill("<b>a name</b>")
        page.get_by_role("button", name="Rename").click()
        page.get_by_role("heading", name="<b>a name</b>").wait_for()
        page.get_by_role("button", name="Fork, branch or label an entry").click()
        page.get_by_label("Label (empty removes it)").fill("here")
        page.get_by_role("button", name="Set the label").click()
        page.get_by_text("The label is saved.").wait_for()
        assert page.evaluate(FITS)
        page.get_by_role("button", name="Fork from here").click()
        page.wait_for_url(lambda url: session not in url)
        forked = page.url.rpartition("/")[2]
        page.get_by_text("Rename, fork, archive…").click()
        page.get_by_role("button", name="Archive", exact=True).click()
        page.get_by_role("button", name="running work ends").click()
        page.get_by_text("Archived. It remains readable.").wait_for()
    assert stack.get(f"/v1/sessions/{forked}")["state"] in ("archived", "closed")
    assert any(one.get("label") == "here" for one in stack.get(f"/v1/sessions/{session}/tree")["nodes"])


def test_the_settings_show_the_retention_of_each_kind(browser: Any, stack: Stack) -> None:
    day_ms = 86_400_000
    with page_of(browser, stack, "/console/settings") as page:
        page.locator("#retention li").first.wait_for()
        plan = stack.get("/v1/retention")
        kept = page.locator("#retention").inner_text()
        assert (f"{plan['keep_ms'] // day_ms} days after" if plan["keep_ms"] else "for ever") in kept
        assert "the audit log: until a person removes them" in kept
        page.route("**/v1/retention", lambda one: one.fulfill(json={
            "keep_ms": None, "answers_ms": day_ms, "usage_ms": 5_400_000, "last_pruned_at": None}))
        page.reload()
        page.get_by_text("sent questions: for ever.").wait_for()
        assert page.locator("#retention li").nth(1).inner_text() == "Responses to repeated requests: 1 day."
        assert page.locator("#retention li").nth(2).inner_text() == "Daily usage: 1.5 hours."
        page.get_by_text("No data was removed yet.").wait_for()


def test_what_could_not_be_read_is_not_called_empty(browser: Any, stack: Stack) -> None:
    with page_of(browser, stack) as page:
        page.route("**/v1/sessions?*", lambda one: one.abort())
        page.route("**/v1/status", lambda one: one.abort())
        page.get_by_role("link", name="Sessions").click()
        page.get_by_role("alert").get_by_text("The gateway did not answer.").wait_for()
        assert page.get_by_text("No matching sessions.").count() == 0
        page.get_by_role("link", name="Settings").click()
        page.get_by_role("alert").get_by_text("The gateway did not answer.").wait_for()
        assert page.get_by_text("Nothing is scheduled.").count() == page.get_by_text("No channel is set.").count() == 0


def test_a_failure_of_signing_keys_is_over_when_they_are_read(browser: Any, stack: Stack) -> None:
    with page_of(browser, stack) as page:
        page.route("**/v1/signing-keys*", lambda one: one.abort())
        page.get_by_role("link", name="Keys & devices").click()
        page.get_by_role("alert").get_by_text("The gateway did not answer.").wait_for()
        page.unroute("**/v1/signing-keys*")
        ran(stack, "shell", "true", "reads-the-view-again")
        page.get_by_role("alert").wait_for(state="detached")
