"""What each person sees of a vote in real Chromium: of several people's, of a changed input, and of an answer that was
lost (J-5)."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

import pytest
from tests.console.pages import answered, asked, origin, page_of

from interlock.model_stand_in import running_model_server
from proof.processes.fork_server import ForkServer
from proof.processes.stack import Stack

pytestmark = [pytest.mark.needs("chromium", "console"), pytest.mark.filterwarnings("ignore"), pytest.mark.req("J-5")]
CONFIG = """[agents.builtin]
adapter = "builtin"
model = "openai-chat/gpt-5"
base_url = "%s/v1"
api_key_env = "OWN_KEY"
env = {OWN_KEY = "not-a-key"}
[[policy.rules]]
name = "two people"
effect = "ask"
door = "tool"
command = "touch two.*"
required = 2
deny_threshold = 2
"""

ANOTHER = "1 of 2 yes votes; waiting for another approver"

LOSE = """() => {
  const sent = window.fetch;
  window.fetch = async (path, options) => {
    const answer = await sent(path, options);
    if (path.endsWith("/grants")) throw new TypeError();
    return answer;
  };
}"""
"""Loses the answer to a vote that has reached the gateway, as a cut connection does."""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, fork_server: ForkServer) -> Generator[Stack]:
    """A gateway and a runner with the builtin agent, which takes a changed input, and a rule for two people."""
    with running_model_server() as model:
        stack = Stack(tmp_path_factory.mktemp("votes"), CONFIG % model.url, fork_server)
        try:
            stack.up()
            yield stack
        finally:
            stack.down()


def allow(page: Any) -> None:
    page.get_by_role("button", name="Allow once", disabled=False).click()


def vote_as_ann(stack: Stack, approval: str, decision: str) -> None:
    ann = {"principal": {"type": "user", "id": "ann"}, "roles": ["approver"]}
    key = stack.post("/v1/keys", ann, f"key-of-ann-{approval}").json()["key"]
    run = stack.interlock(decision, approval, "--yes", "--url", stack.url, environment={"INTERLOCK_KEY": key})
    assert run.returncode == 0, run.stderr


def test_a_person_who_has_voted_sees_that_again_and_no_buttons(browser: Any, stack: Stack) -> None:
    approval = asked(stack, "touch two-again", "again")
    with page_of(browser, stack, f"/console/a/{approval}") as page:
        allow(page)
        page.get_by_text(ANOTHER).wait_for()
        page.reload()
        page.get_by_text(ANOTHER).wait_for()
        assert page.get_by_role("button", name="Deny").count() == 0
        page.get_by_text("1 of 2 yes votes · user:owner: Allowed").wait_for()
        vote_as_ann(stack, approval, "approve")
        page.get_by_text("Decided by user:ann").wait_for()


def test_whose_answer_was_lost_sees_that_the_vote_counts(browser: Any, stack: Stack) -> None:
    approval = asked(stack, "touch two-lost", "lost")
    with page_of(browser, stack, f"/console/a/{approval}") as page:
        page.evaluate(LOSE)
        allow(page)
        page.get_by_text(ANOTHER).wait_for()
        assert page.get_by_text("The gateway did not answer").count() == 0
    answered(stack, approval, "grant")
    vote_as_ann(stack, approval, "approve")


def test_the_list_and_its_count_name_what_waits_for_another_approver(browser: Any, stack: Stack) -> None:
    voted = asked(stack, "touch two-listed", "listed")
    with page_of(browser, stack) as page, page_of(browser, stack) as other:
        rows = page.get_by_role("listitem")
        rows.filter(has_text="touch two-listed").wait_for()
        assert page.get_by_text(ANOTHER).count() == 0
        assert page.title() == "(1) Approvals · Interlock"
        answered(stack, voted, "grant")
        rows.filter(has_text=ANOTHER).wait_for()
        assert page.title() == "Approvals · Interlock"
        own = asked(stack, "touch two-next", "next")
        rows.filter(has_text="touch two-next").wait_for()
        assert ["two-next" in row for row in rows.all_inner_texts()] == [True, False]
        other.goto(f"{origin(stack)}/console/a/{voted}")
        assert (other.get_by_role("link", name="Next approval").get_attribute("href") or "").endswith(own)
    for approval in (own, voted):
        vote_as_ann(stack, approval, "approve")
    answered(stack, own, "grant")


def test_sessions_and_tasks_that_wait_for_another_approver_are_listed_as_such(browser: Any, stack: Stack) -> None:
    approval = asked(stack, "touch two-others", "others")
    record = stack.get(f"/v1/approvals/{approval}")
    link = f"/console/sessions/{record['session_id']}"
    with page_of(browser, stack, "/console/commands") as page:
        task = page.locator(f"a[href='/console/commands/{record['command_id']}']")
        task.filter(has_text="Waiting for you").wait_for()
        answered(stack, approval, "grant")
        task.filter(has_text="Waiting for another approver").wait_for()
        page.get_by_role("link", name="Sessions").click()
        page.locator("h2:text('Waiting for another approver') + .cards").locator(f"a[href='{link}']").wait_for()
        assert page.locator(f"a[href='{link}']").count() == 1
        vote_as_ann(stack, approval, "approve")
        page.locator("h2:text('Idle and closed') + .cards").locator(f"a[href='{link}']").wait_for()


def test_a_vote_for_a_no_is_named_as_one_with_its_reason(browser: Any, stack: Stack) -> None:
    approval = asked(stack, "touch two-no", "no")
    with page_of(browser, stack, f"/console/a/{approval}") as page:
        answered(stack, approval, "deny", "not today")
        page.get_by_text("0 of 2 yes votes · user:owner: Denied (not today)").wait_for()
    vote_as_ann(stack, approval, "deny")


def test_an_agent_that_does_not_accept_a_changed_input_gets_none(browser: Any, stack: Stack) -> None:
    approval = asked(stack, "touch untaken", "untaken")
    with page_of(browser, stack, f"/console/a/{approval}") as page:
        page.get_by_text("More options").click()
        page.get_by_text("This agent does not accept a changed input.").wait_for()
        assert page.get_by_text("Change the input", exact=True).count() == 0
    answered(stack, approval, "deny")


def test_an_advice_to_try_again_disappears_once_another_person_has_decided(browser: Any, stack: Stack) -> None:
    approval = asked(stack, "touch unreached", "unreached")
    with page_of(browser, stack, f"/console/a/{approval}") as page:
        page.route("**/grants", lambda route: route.abort("connectionfailed"))
        allow(page)
        page.get_by_role("alert").get_by_text("Try again once the connection is back.").wait_for()
        vote_as_ann(stack, approval, "approve")
        page.get_by_text("Decided by user:ann").wait_for()
        assert page.get_by_role("alert").count() == 0


def test_a_changed_input_is_shown_to_its_approver_and_linked_for_others(browser: Any, stack: Stack) -> None:
    approval = asked(stack, "[[tool:touch asked]]", "changed", "builtin")
    with page_of(browser, stack, f"/console/a/{approval}") as page, \
            page_of(browser, stack, f"/console/a/{approval}") as other:
        page.get_by_text("More options").click()
        page.get_by_text("Change the input", exact=True).click()
        text = page.locator("#changed")
        text.fill(json.dumps({**json.loads(text.input_value()), "command": "touch changed"}))
        page.get_by_role("button", name="Allow the changed input once", disabled=False).click()
        page.locator("h1", has_text="$ touch changed").wait_for()
        page.get_by_text("Decided by user:owner").wait_for()
        other.locator(".notice", has_text="Replaced by a new request").get_by_role("link").click()
        other.locator("h1", has_text="$ touch changed").wait_for()
        assert other.url == page.url != f"{origin(stack)}/console/a/{approval}"
    stack.until(lambda: (stack.workspace / "changed").exists())
    assert not (stack.workspace / "asked").exists()
