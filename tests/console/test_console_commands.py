"""The view of commands in real Chromium: a command's steps as they happen, each with its audit record (J-6)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.console.pages import answered, asked, origin, page_of

from proof.processes.stack import Stack

pytestmark = [pytest.mark.needs("chromium", "console"), pytest.mark.filterwarnings("ignore")]


def steps(page: Any) -> list[str]:
    """The names of the steps that are shown."""
    return page.locator(".timeline strong").all_inner_texts()


@pytest.mark.req("J-6", "Y-17")
def test_a_tasks_steps_appear_as_they_happen_and_link_to_their_records(browser: Any, stack: Stack) -> None:
    approval = asked(stack, "true timeline", "timeline")
    command = stack.get(f"/v1/approvals/{approval}")["command_id"]
    with page_of(browser, stack) as page:
        page.get_by_role("link", name="Tasks").click()
        page.locator(f"a[href='/console/commands/{command}']", has_text="true timeline").click()
        page.get_by_text("Waiting for approval", exact=True).wait_for()
        assert page.get_by_role("blockquote").inner_text() == "true timeline"
        assert steps(page)[:3] == ["Submitted", "Sent to the runner", "Running"]
        answered(stack, approval, "grant")
        page.get_by_role("heading", name="Succeeded: shell").wait_for()
        page.locator(".timeline strong", has_text="Used: the tool ran").wait_for()
        page.get_by_text("Audit record").nth(5).wait_for()
        listed = steps(page)
        assert listed[listed.index("Waiting for approval"):][:3] == [
            "Waiting for approval", "Allowed", "Used: the tool ran"]
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        allowed = page.locator(".timeline li", has_text="Allowed").get_by_role("link", name="Audit record")
        seq = int(allowed.inner_text().split()[-1])
        record = stack.get(f"/v1/audit/records/{seq}")["record"]
        assert (record["action"], record["approval_id"], record["command_id"]) == ("approve", approval, command)
        allowed.click()
        page.wait_for_url(f"**/console/audit?command={command}&record={seq}")
        page.locator(".records details[open] pre", has_text='"action": "approve"').wait_for()


@pytest.mark.req("J-6")
def test_a_task_that_ends_during_its_fetch_is_shown_as_ended(browser: Any, stack: Stack) -> None:
    approval = asked(stack, "true meanwhile", "meanwhile")
    command = stack.get(f"/v1/approvals/{approval}")["command_id"]

    def end_it(route: Any) -> None:
        if stack.get(f"/v1/commands/{command}")["state"] != "succeeded":
            answered(stack, approval, "grant")
            stack.until(lambda: stack.get(f"/v1/commands/{command}")["state"] == "succeeded")
        route.continue_()

    with page_of(browser, stack) as page:
        page.route(f"**/v1/commands/{command}/status*", end_it)
        page.goto(f"{origin(stack)}/console/commands/{command}")
        page.get_by_role("heading", name="Succeeded: shell").wait_for()


@pytest.mark.req("J-6")
def test_a_missing_task_gives_one_sentence(browser: Any, stack: Stack) -> None:
    with page_of(browser, stack, "/console/commands/cmd_00000000000000000000000000") as page:
        page.get_by_text("There is no such task.").wait_for()
