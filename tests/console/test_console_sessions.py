"""Sessions in real Chromium: the list, one session streamed, a prompt from the page, a gateway that dies (J-3, J-4)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.console.pages import answered, asked, interlock, page_of, ran
from tests.console.payloads import HOSTILE

from proof.processes.stack import Stack

pytestmark = [pytest.mark.needs("chromium", "console"), pytest.mark.filterwarnings("ignore")]


def session_of(stack: Stack, name: str) -> str:
    """The id of the session with this key of the shell."""
    return next(one["session_id"] for one in stack.get("/v1/sessions")["items"]
                if one["session_key"] == f"agent:shell:{name}")


@pytest.mark.req("J-3", "J-11")
def test_the_list_shows_waiting_sessions_first_and_keeps_its_filter_in_the_url(browser: Any, stack: Stack) -> None:
    asked(stack, "echo first", "list-waits")
    with page_of(browser, stack) as page:
        page.get_by_role("link", name="Sessions").click()
        page.wait_for_url("**/console/sessions")
        assert page.get_by_role("heading", level=2).first.inner_text() == "Waiting for you"
        page.get_by_text("echo first").wait_for()
        page.get_by_label("Search title").fill("nothing has this name")
        page.get_by_text("No matching sessions.").wait_for()
        assert "q=nothing+has+this+name" in page.url
        page.go_back()
        page.get_by_text("echo first").click()
        page.wait_for_url(f"**/console/sessions/{session_of(stack, 'list-waits')}")


@pytest.mark.req("J-4")
def test_a_prompt_from_the_page_is_decided_there_and_its_output_streams(browser: Any, stack: Stack) -> None:
    asked(stack, "echo begun", "stream")
    with page_of(browser, stack, f"/console/sessions/{session_of(stack, 'stream')}") as page:
        page.get_by_role("link", name="Open the approval").click()
        page.get_by_role("button", name="Allow once", disabled=False).click()
        page.get_by_text("Decided by").wait_for()
        page.go_back()
        page.get_by_label("Output").get_by_text("begun").wait_for()
        page.get_by_label("Write to the agent").fill("for n in 1 2 3; do echo line-$n; done")
        page.get_by_role("button", name="Send").click()
        page.get_by_role("link", name="Open the approval").click()
        page.get_by_role("button", name="Allow once", disabled=False).click()
        page.get_by_text("Decided by").wait_for()
        page.go_back()
        page.get_by_text("line-3").wait_for()
        assert page.get_by_label("Output").last.inner_text().split() == ["line-1", "line-2", "line-3"]


@pytest.mark.req("J-4", "J-16")
def test_agent_output_is_shown_and_never_run(browser: Any, stack: Stack) -> None:
    lines = "\n".join(HOSTILE)
    (stack.workspace / "hostile").write_text(lines)
    session = ran(stack, "shell", "cat hostile", "hostile-output")
    with page_of(browser, stack, f"/console/sessions/{session}") as page:
        page.get_by_label("Output").wait_for()
        page.get_by_role("button", name="Show earlier").click()
        shown = page.get_by_label("Output").inner_text()
        assert HOSTILE[0] in shown
        assert "<U+202E> gpj.exe" in shown
        page.wait_for_load_state("networkidle")


@pytest.mark.req("J-4")
def test_after_a_killed_gateway_the_open_page_has_the_whole_text(browser: Any, stack: Stack) -> None:
    approval = asked(stack, "seq -f tick-%g 1 5; until [ -e go ]; do sleep 0.05; done; seq -f tick-%g 6 40", "killed")
    answered(stack, approval, "grant")
    with page_of(browser, stack, f"/console/sessions/{session_of(stack, 'killed')}") as page:
        page.get_by_text("tick-5").wait_for()
        stack.kill("gateway")
        page.get_by_text("No connection to the gateway").wait_for()
        stack.start("gateway")
        (stack.workspace / "go").touch()
        page.get_by_text("tick-40").wait_for()
        page.get_by_role("button", name="Show earlier").last.click()
        assert page.get_by_label("Output").inner_text().split() == [f"tick-{n}" for n in range(1, 41)]
    assert interlock(stack, "status")


@pytest.mark.req("J-4", "A-2")
def test_an_agent_ended_by_its_runner_is_not_an_error(browser: Any, stack: Stack) -> None:
    session = ran(stack, "shell", "echo before", "ended-idle")
    interlock(stack, "sessions", "archive", session)

    def ended() -> list[dict[str, Any]]:
        return [one["frame"] for one in stack.pages(f"/v1/sessions/{session}/frames", "events")
                if one.get("frame", {}).get("type") == "agent.error"]

    stack.until(lambda: ended() != [])
    assert [(one["payload"]["error_code"], one["metadata"]) for one in ended()] == [("SIGNAL_EXIT", {"expected": True})]
    with page_of(browser, stack, f"/console/sessions/{session}") as page:
        page.get_by_text("ran 1 command").wait_for()
        assert "SIGTERM" not in page.inner_text("main")


@pytest.mark.req("J-4", "K-4")
def test_no_sender_can_hide_a_frame_by_its_metadata(browser: Any, stack: Stack) -> None:
    session = ran(stack, "shell", "echo before", "not-hidden")

    page_of_frames = stack.get(f"/v1/sessions/{session}/frames", last=200)
    for event in page_of_frames["events"]:
        if "frame" in event:
            event["frame"].setdefault("metadata", {})["expected"] = True

    with page_of(browser, stack, f"/console/sessions/{session}") as page:
        page.route("**/v1/sessions/*/frames?last=*", lambda route: route.fulfill(json=page_of_frames))
        page.reload()
        page.get_by_text("ran 1 command").wait_for()
        assert "echo before" in page.inner_text("main")
