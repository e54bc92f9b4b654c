"""A session of a real agent, goose, on the page in real Chromium: its words as they come, its call held and allowed
there (J-4, J-5)."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from tests.console.pages import origin, page_of, read_to_end, submitted

from installed import require
from interlock.model_stand_in import AFTER_TOOL, running_model_server
from proof.agents.held_tool_call import goose_config
from proof.processes.fork_server import ForkServer
from proof.processes.stack import Stack

pytestmark = [pytest.mark.needs("chromium", "console", "goose"), pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, fork_server: ForkServer) -> Generator[Stack]:
    """A gateway and a runner with goose, with the model stand-in."""
    place = tmp_path_factory.mktemp("goose")
    (place / "home").mkdir()
    with running_model_server() as model:
        stack = Stack(place, goose_config(require("goose"), place / "home", model.url), fork_server)
        try:
            stack.up()
            yield stack
        finally:
            stack.down()


@pytest.mark.req("J-4", "J-5")
def test_gooses_text_streams_and_its_call_is_held_until_the_page_grants_it(browser: Any, stack: Stack) -> None:
    written = stack.workspace / "written.txt"
    prompt = "[[chunks:30]] [[delay:20]] [[tool:echo held > written.txt; cat written.txt]]"
    session = submitted(stack, "goose", prompt, "goose")["target"]["session_id"]
    with page_of(browser, stack, f"/console/sessions/{session}") as page:
        page.get_by_text("chunk 30 of 30").wait_for()
        page.get_by_role("link", name="Open the approval").click()
        page.get_by_role("button", name="Deny").wait_for()
        assert not written.exists()
        read_to_end(page)
        page.get_by_role("button", name="Allow once", disabled=False).click()
        page.get_by_text("Decided by").wait_for()
        page.goto(f"{origin(stack)}/console/sessions/{session}")
        page.get_by_text(AFTER_TOOL).wait_for()
        assert written.read_text() == "held\n"
        assert all(f"chunk {n} of 30" in page.locator(".blocks").inner_text() for n in range(1, 31))
