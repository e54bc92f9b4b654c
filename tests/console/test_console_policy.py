"""The view of policy in real Chromium: the rules in order, their decision on a call, and revoking one (J-8)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.console.pages import answered, asked, interlock, origin, page_of

from proof.processes.stack import Stack

pytestmark = [pytest.mark.needs("chromium", "console"), pytest.mark.filterwarnings("ignore")]


@pytest.mark.req("J-8")
def test_a_call_is_tried_and_the_deciding_rule_shown(browser: Any, stack: Stack) -> None:
    expected = stack.get("/v1/policy/decision", agent="shell", command="ls", tool="shell", workspace="/tmp")
    with page_of(browser, stack) as page:
        page.get_by_role("link", name="Policy").click()
        page.locator("#rules li").first.wait_for()
        assert page.locator("#rules li").count() == len(stack.get("/v1/policy")["rules"])
        sources = {rule["source"] for rule in stack.get("/v1/policy")["rules"]}
        assert sources == {"shipped"}
        assert set(page.locator("#rules li > .quiet").all_inner_texts()) == {"ships with Interlock"}
        for label, value in (("Agent", "shell"), ("Tool", "shell"), ("Command line", "ls"), ("Directory", "/tmp")):
            page.locator("#try").get_by_label(label, exact=True).fill(value)
        page.get_by_role("button", name="Which rule decides?").press("Enter")
        page.locator(".notice", has_text=f"rule “{expected['rule']}”").wait_for()
        assert page.url.endswith("/console/policy?agent=shell&tool=shell&command=ls&workspace=%2Ftmp")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.locator("#unclear").count() == 0
        page.goto(f"{origin(stack)}/console/policy?agent=shell&tool=shell&command=ls%20%26%26")
        page.get_by_text("covers this call: the command is not of a shell's grammar.").wait_for()
        page.goto(f"{origin(stack)}/console/policy?agent=Not%20an%20agent")
        page.get_by_role("alert").wait_for()
        assert "agent" in page.get_by_role("alert").inner_text()


@pytest.mark.req("J-8", "A-9")
def test_a_remembered_rule_is_revoked_after_a_second_click(browser: Any, stack: Stack) -> None:
    approval = asked(stack, "true remembered", "remembered")
    interlock(stack, "deny", approval, "--always", "session", "--yes")
    with page_of(browser, stack, "/console/policy") as page:
        page.get_by_role("button", name="Revoke").click()
        assert "revoked_at" not in stack.get("/v1/policy/rules")["rules"][0]
        page.get_by_role("button", name="such calls need an approval again").click()
        page.get_by_text("revoked by user:owner").wait_for()
        assert stack.get("/v1/policy/rules")["rules"][0]["revoked_by"] == "user:owner"


@pytest.mark.req("J-8", "J-13")
def test_a_rule_is_replayed_on_recorded_calls(browser: Any, stack: Stack) -> None:
    for line in ("true replayed", "echo untouched"):
        answered(stack, asked(stack, line, "replay"), "deny")
    before = stack.get("/v1/policy")
    with page_of(browser, stack, "/console/policy") as page:
        form = page.locator("#replay")
        form.get_by_label("Command (regular expression)").fill("true replayed")
        form.get_by_role("button", name="Replay").press("Enter")
        changed = page.locator("#replayed li", has_text="true replayed")
        changed.filter(has_text="Ask → Deny").wait_for()
        assert "tried-in-the-console" in changed.inner_text()
        page.locator("#replayed li", has_text="echo untouched").filter(has_text="Ask → Ask").wait_for()
        box = form.get_by_label("Only calls whose decision would change")
        label, tick = form.locator("label.check").bounding_box(), box.bounding_box()
        assert (tick["x"] - label["x"], tick["width"] <= 24) == (0, True), "it is in front of its words"
        box.check()
        form.get_by_role("button", name="Replay").press("Enter")
        page.locator("#replayed li", has_text="echo untouched").wait_for(state="detached")
        changed.filter(has_text="Ask → Deny").wait_for()
        assert page.locator("#replayed li", has_text="echo untouched").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        form.get_by_label("Command (regular expression)").fill("true (")
        form.get_by_role("button", name="Replay").press("Enter")
        page.get_by_role("alert").wait_for()
        assert "command" in page.get_by_role("alert").inner_text()
    assert stack.get("/v1/policy") == before
