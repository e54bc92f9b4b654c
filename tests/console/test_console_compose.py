"""Writing a prompt in real Chromium: the rule that decides is shown before, and its options are sent (J-4)."""

from __future__ import annotations

import base64
from collections.abc import Callable, Generator
from typing import Any

import pytest
from tests.console.pages import answered, asked, origin, page_of

from proof.processes.fork_server import ForkServer
from proof.processes.stack import Stack

pytestmark = [pytest.mark.needs("chromium", "console"), pytest.mark.filterwarnings("ignore"), pytest.mark.req("J-4")]
PIXEL = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")
RULES = """
[[policy.rules]]
name = "secrets stay"
door = "command"
effect = "deny"
workspace = "{secret}"
reason = "Nothing starts there."

[[policy.rules]]
name = "nothing of mine"
door = "command"
effect = "deny"
workspace = "{own}"
person = "user:owner"
runner = "local"

[[policy.rules]]
name = "boxed"
door = "command"
effect = "deny"
workspace = "{boxed}"
box = true

[[policy.rules]]
name = "prompts of the shell"
door = "command"
effect = "ask"
agent = "shell"
"""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, fork_server: ForkServer) -> Generator[Stack]:
    """A gateway that holds each command of the shell, and a runner."""
    place = tmp_path_factory.mktemp("compose")
    directories = {name: place / "workspace" / name for name in ("secret", "own", "boxed")}
    stack = Stack(place, RULES.format(**directories), fork_server)
    try:
        stack.up()
        yield stack
    finally:
        stack.down()


def test_a_prompt_starts_a_session_after_its_rule_was_shown(browser: Any, stack: Stack) -> None:
    with page_of(browser, stack, "/console/sessions") as page:
        page.get_by_role("link", name="Start a session").click()
        page.get_by_role("heading", name="Start a session").wait_for()
        agents = page.get_by_label("Agent", exact=True)
        unavailable = agents.locator("option", has_text="builtin (unavailable)")
        unavailable.wait_for(state="attached")
        assert (unavailable.is_disabled(), agents.input_value()) == (True, "shell")
        page.get_by_text("Needs an approval").wait_for()
        page.get_by_text("rule “prompts of the shell”").wait_for()
        page.get_by_label("Directory").fill(f"{stack.workspace}/secret")
        page.get_by_text("Will be denied").wait_for()
        page.get_by_text("rule “secrets stay”: Nothing starts there.").wait_for()
        page.get_by_label("Directory").fill(str(stack.workspace))
        page.get_by_text("Needs an approval").wait_for()
        page.get_by_label("Runner").select_option("local")
        page.get_by_label("Directory").fill(f"{stack.workspace}/own")
        page.get_by_text("rule “nothing of mine”").wait_for()
        page.get_by_label("Directory").fill(str(stack.workspace))
        page.get_by_text("rule “prompts of the shell”").wait_for()
        page.get_by_label("Write to the agent").fill("echo composed")
        page.get_by_text("Options").click()
        page.get_by_label("If the session is busy").select_option("reject")
        page.get_by_label("Priority").fill("7")
        page.get_by_label("Time limit, minutes").fill("1.5")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.get_by_role("button", name="Send").click()
        page.wait_for_url(lambda url: "/sessions/new" not in url)
    command = stack.get("/v1/commands")["items"][0]
    assert (command["on_busy"], command["priority"], command["timeout_ms"]) == ("reject", 7, 90_000)
    assert command["target"]["runner_id"] == "local"
    assert command["target"]["workspace"] == str(stack.workspace)
    approval = stack.get("/v1/approvals", state="pending")["items"][0]
    assert approval["rule"] == "prompts of the shell", "what was shown before is what decided"
    answered(stack, approval["id"], "deny")


def test_a_mode_is_sent_with_the_prompt(browser: Any, stack: Stack) -> None:
    approval = stack.get(f"/v1/approvals/{asked(stack, 'true', 'moded')}")
    session = approval["session_id"]
    answered(stack, approval["id"], "deny")
    with page_of(browser, stack, f"/console/sessions/{session}") as page:
        page.get_by_text("rule “prompts of the shell”").wait_for()
        assert page.get_by_label("Directory").count() == 0, "a session stays where it is"
        page.get_by_label("Write to the agent").fill("echo again")
        page.get_by_text("Options").click()
        page.get_by_label("Mode", exact=True).fill("<b>plan</b>")
        page.get_by_label("Model").fill("small")
        page.get_by_label("Attach files").set_input_files([
            {"name": "<i>pixel.gif", "mimeType": "text/plain", "buffer": PIXEL},
            {"name": "large", "mimeType": "text/plain", "buffer": bytes(512 * 1024 + 1)}])
        page.get_by_text("large is not attached").wait_for()
        page.get_by_role("button", name="Remove <i>pixel.gif").wait_for()
        page.get_by_role("button", name="Send").click()
        page.get_by_text("Sent. It is waiting for an approval.").wait_for()
    command = stack.get(f"/v1/commands/{stack.get('/v1/commands')['items'][0]['id']}")
    assert (command["payload"]["mode"], command["payload"]["model"]) == ("<b>plan</b>", "small")
    words, picture = command["payload"]["messages"][0]["content"]
    assert words["value"] == "echo again"
    assert picture["contentType"] == "image", "by what it holds"
    assert (picture["value"]["media_type"], picture["value"]["name"]) == ("image/gif", "<i>pixel.gif")
    assert base64.b64decode(picture["value"]["data"]) == PIXEL
    assert command["target"]["session_id"] == session


@pytest.mark.req("H-18")
def test_the_rule_uses_the_box_that_every_runner_would_give_the_agent(browser: Any, stack: Stack) -> None:
    closed = {"walls": "namespace", "limited": True, "network": "none"}
    nodes = stack.get("/v1/edge/nodes")["nodes"]

    def fulfil(*boxes: dict[str, Any]) -> Callable[[Any], None]:
        agent = {**nodes[0]["agents"][0], "agent_id": "shell"}
        found = [{**nodes[0], "node_id": f"r{at}", "agents": [{**agent, "box": box}]} for at, box in enumerate(boxes)]
        return lambda route: route.fulfill(json={"nodes": found})

    for boxes, rule in (((closed, {**closed, "programs": True}), "boxed"),
                        ((closed, {**closed, "network": "all"}), "prompts of the shell"),
                        ((closed, {"walls": "none", "limited": True, "network": "none"}), "prompts of the shell")):
        with page_of(browser, stack) as page:
            page.route("**/v1/edge/nodes", fulfil(*boxes))
            page.goto(f"{origin(stack)}/console/sessions/new")
            page.get_by_label("Agent", exact=True).select_option("shell")
            page.get_by_label("Directory").fill(f"{stack.workspace}/boxed")
            page.get_by_text(f"rule “{rule}”").wait_for()
