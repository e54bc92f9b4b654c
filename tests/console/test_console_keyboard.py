"""The console by keyboard alone in real Chromium: from login to answer, the palette, a rule that is kept (J-5)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.console.pages import PAINTED, PATIENCE_MS, PHONE, answered, asked, interlock, origin, page_of

from proof.processes.stack import Stack

pytestmark = [pytest.mark.needs("chromium", "console"), pytest.mark.filterwarnings("ignore"), pytest.mark.req("J-5")]
FOCUSED = "document.activeElement.textContent"


def test_from_the_login_to_a_decision_without_a_mouse(browser: Any, stack: Stack) -> None:
    """Two wait; the second is denied and the first allowed, and no pointer is ever used."""
    first = asked(stack, "touch by-key", "keys-first")
    second = asked(stack, "touch never", "keys-second")
    context = browser.new_context(viewport=PHONE)
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(f"{origin(stack)}/console/")
    page.get_by_label("Key").wait_for()
    page.keyboard.press("Tab")
    while page.evaluate("document.activeElement.id") != "key":
        page.keyboard.press("Tab")
    page.keyboard.type((stack.state / "owner.key").read_text().strip())
    page.keyboard.press("Enter")
    page.get_by_text("touch never").wait_for()
    page.keyboard.press("j")
    assert "touch by-key" in page.evaluate(FOCUSED)
    page.keyboard.press("j")
    assert "touch never" in page.evaluate(FOCUSED)
    page.keyboard.press("o")
    page.wait_for_url(f"**/console/a/{second}")
    page.get_by_role("button", name="Allow once", disabled=False).wait_for()
    page.keyboard.press("d")
    assert page.evaluate(FOCUSED) == "Deny"
    assert stack.get(f"/v1/approvals/{second}")["state"] == "pending", "one key alone decides nothing"
    page.keyboard.press("r")
    page.keyboard.type("a key")  # In a field, keys are letters.
    page.keyboard.press("Tab")
    while page.evaluate(FOCUSED) != "Deny":
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.get_by_text("Decided by").wait_for()
    page.keyboard.press("u")
    page.get_by_text("touch by-key").wait_for()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/console/a/{first}")
    page.get_by_role("button", name="Allow once", disabled=False).wait_for()
    page.keyboard.press("a")
    assert page.evaluate(FOCUSED) == "Allow once"
    page.keyboard.press("Enter")
    page.get_by_text("Decided by").wait_for()
    stack.until((stack.workspace / "by-key").exists)
    denied = stack.get(f"/v1/approvals/{second}")
    assert (denied["state"], denied["comment"]) == ("denied", "a key")
    context.close()


def test_a_key_scrolls_to_the_end_before_it_may_grant(browser: Any, stack: Stack) -> None:
    approval = asked(stack, "echo " + "long " * 900, "keys-long")
    with page_of(browser, stack, f"/a/{approval}") as page:
        page.get_by_text("More is below").wait_for()
        for _ in range(20):
            page.keyboard.press("a")
            page.evaluate(PAINTED)
            if page.evaluate(FOCUSED) == "Allow once":
                break
        assert page.evaluate(FOCUSED) == "Allow once"
        assert stack.get(f"/v1/approvals/{approval}")["state"] == "pending"
    answered(stack, approval, "deny")


def test_the_palette_jumps_and_the_help_lists_the_keys(browser: Any, stack: Stack) -> None:
    approval = asked(stack, "touch palette", "keys-palette")
    with page_of(browser, stack) as page:
        page.keyboard.press("?")
        page.get_by_role("dialog", name="Keyboard shortcuts").wait_for()
        page.keyboard.press("Escape")
        page.locator("dialog").wait_for(state="detached")  # By its role it is gone as soon as it is hidden.
        page.keyboard.press("Control+k")
        page.get_by_role("combobox").wait_for()
        page.keyboard.type("palet")
        page.get_by_role("option", name="touch palette approval").wait_for()
        page.keyboard.press("Enter")
        page.wait_for_url(f"**/console/a/{approval}")
        page.locator("dialog").wait_for(state="detached")
        page.keyboard.press("Control+k")
        page.get_by_role("combobox").wait_for()
        page.keyboard.type("run")
        page.get_by_role("option", name="Runners view").wait_for()
        page.keyboard.press("Enter")
        page.wait_for_url("**/console/runners")
    answered(stack, approval, "deny")


def test_a_dialog_that_opens_while_another_closes_stays_open(browser: Any, stack: Stack) -> None:
    """A dialog's close event comes in a task of its own: keys may be pressed before it."""
    with page_of(browser, stack) as page:
        for _ in range(3):
            page.keyboard.press("?")
            page.get_by_role("dialog", name="Keyboard shortcuts").wait_for()
            page.evaluate("""async () => {
                const dialog = document.querySelector('dialog');
                const closed = new Promise((done) => { dialog.addEventListener('close', done); });
                dialog.close();
                document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'k', ctrlKey: true, bubbles: true}));
                await closed;
            }""")
            page.get_by_role("combobox").wait_for()
            page.evaluate(PAINTED)
            assert page.locator("dialog").count() == 1
            page.keyboard.type("runn")
            page.get_by_role("option", name="Runners view").wait_for()
            page.keyboard.press("Escape")
            page.locator("dialog").wait_for(state="detached")


def test_going_back_closes_the_dialog(browser: Any, stack: Stack) -> None:
    with page_of(browser, stack) as page:
        page.get_by_role("link", name="Decided").click()
        page.wait_for_url("**/console/decided")
        page.keyboard.press("Control+k")
        page.get_by_role("combobox").wait_for()
        page.go_back()
        page.locator("dialog").wait_for(state="detached")
        assert page.url == f"{origin(stack)}/console/"


def test_a_rule_is_stored_as_shown_and_is_in_the_list_of_decisions(browser: Any, stack: Stack) -> None:
    approval = asked(stack, "echo kept", "keys-rule")
    with page_of(browser, stack, f"/a/{approval}") as page:
        page.get_by_text("More options").click()
        page.get_by_label("Scope").select_option("in every session")
        page.locator("#kept", has_text="shell").wait_for()
        shown = page.locator("#kept").inner_text()
        page.get_by_role("button", name="Allow and save this rule", disabled=False).click()
        page.get_by_text("Rule saved:").wait_for()
        page.goto(f"{origin(stack)}/console/")
        page.get_by_role("link", name="Decided").click()
        page.locator(".cards a", has_text="echo kept").get_by_text("rule saved").wait_for()
        page.get_by_label("Search action").fill("nobody ever asked this")
        page.get_by_text("No decision matches.").wait_for()
        assert "q=nobody" in page.url
    kept = stack.get("/v1/policy/rules")["rules"][-1]
    assert kept["approval_id"] == approval
    assert kept["rule"]["effect"] == "allow"
    for name, value in kept["rule"].items():
        assert name in ("effect", "name", "source") or f"{name} = " in shown, (name, value)
    interlock(stack, "policy", "forget", kept["id"])


def test_the_box_of_the_agent_is_shown(browser: Any, stack: Stack) -> None:
    approval = asked(stack, "touch boxed", "keys-box")
    box = stack.get(f"/v1/approvals/{approval}")["box"]
    with page_of(browser, stack, f"/a/{approval}") as page:
        page.locator("#box", has_text={"none": "no walls"}.get(box["walls"], f"({box['walls']})")).wait_for()
    answered(stack, approval, "deny")
