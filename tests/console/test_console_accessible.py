"""Every screen of the console by axe-core, at the width of a phone and of a desk, light and dark (J-3 to J-8)."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from proof.house import House
from tests.console.pages import asked, interlock, origin, page_of

from installed import require

pytestmark = [pytest.mark.needs("chromium", "console", "axe"), pytest.mark.filterwarnings("ignore"),
              pytest.mark.req("J-4", "J-5")]
ROOT = Path(__file__).parents[2]
SIZES = ({"width": 360, "height": 740}, {"width": 1440, "height": 900})
SCHEMES = ("light", "dark")
RUN = """async () => (await axe.run({resultTypes: ['violations']})).violations.map((one) => [
  one.id, one.help, ...one.nodes.map((node) => `${node.html} ${node.failureSummary}`)])"""
EDIT = {"kind": "edit", "title": "an edit", "rawInput": {
    "file_path": "a.py", "old_string": "".join(f"{n}\n" for n in range(99)), "new_string": "one\ntwo\n"}}
MARKDOWN = ["# Title\n\n#### Part\n\n[a](https://example.org) `code`\n\n> quoted\n\n| a | b |\n|---|---|\n| 1 | 2 |",
            "```\ncode\n```\n\n- [x] done"]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Generator[House]:
    """A gateway and a runner with an agent that says its prompt, and one that asks for the call that its prompt is."""
    config = ""
    for name, module in (("speaker", "speaking"), ("forger", "forging")):
        start = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tests.console import {module} as one; one.main()"
        config += (f'[agents.{name}]\nadapter = "acp"\ncommand = {json.dumps(sys.executable)}\n'
                   f'args = {json.dumps(["-c", start])}\n')
    house = House(tmp_path_factory.mktemp("accessible"), config)
    try:
        house.up()
        yield house
    finally:
        house.down()


@pytest.fixture(scope="module")
def page(browser: Any, house: House) -> Iterator[Any]:
    with page_of(browser, house) as page:
        yield page


@pytest.fixture(scope="module")
def screens(house: House) -> dict[str, tuple[str, str]]:
    """The path of each screen, and what it shows once it is complete."""
    interlock(house, "run", "speaker", json.dumps(MARKDOWN), "--session", "spoken", "--yes")
    interlock(house, "run", "shell", "seq 40", "--session", "ran", "--yes")
    edit = asked(house, json.dumps(EDIT), "edit", "forger")
    waiting = asked(house, "touch waits", "waits")
    denied = asked(house, "touch denied", "denied")
    interlock(house, "deny", denied, "--yes", "--reason", "not now")
    sessions = {one["session_key"].rpartition(":")[2]: one["session_id"] for one in house.get("/v1/sessions")["items"]}
    command = house.get("/v1/commands")["items"][0]["id"]
    return {
        "inbox": ("/console/", ".cards a"),
        "edit": (f"/console/a/{edit}", ".answer"),
        "waiting": (f"/console/a/{waiting}", ".answer"),
        "decided": ("/console/decided", ".cards a"),
        "denied": (f"/console/a/{denied}", ".notice strong"),
        "sessions": ("/console/sessions", ".cards a"),
        "spoken": (f"/console/sessions/{sessions['spoken']}", ".block.markup pre"),
        "ran": (f"/console/sessions/{sessions['ran']}", ".tool pre[aria-label]"),
        "begin": ("/console/sessions/new", ".rule strong"),
        "commands": ("/console/commands", "main a"),
        "command": (f"/console/commands/{command}", ".timeline li"),
        "runners": ("/console/runners", ".runners li li"),
        "policy": ("/console/policy?agent=shell&tool=shell&command=ls", "#rules li"),
        "audit": ("/console/audit", ".records li"),
    }


def violations(page: Any) -> list[Any]:
    """What axe-core finds at each size and in each scheme."""
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    page.evaluate(require("axe").read_text("utf-8"))
    found: list[Any] = []
    for size in SIZES:
        page.set_viewport_size(size)
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            found += [(size["width"], scheme, one) for one in page.evaluate(RUN)]
    return found


@pytest.mark.parametrize("name", ["inbox", "edit", "waiting", "decided", "denied", "sessions", "spoken", "ran", "begin",
                                  "commands", "command", "runners", "policy", "audit"])
def test_axe_finds_nothing_on_a_screen(page: Any, house: House, screens: dict[str, tuple[str, str]], name: str) -> None:
    path, complete = screens[name]
    page.goto(f"{origin(house)}{path}")
    page.locator(complete).first.wait_for()
    assert violations(page) == []


def test_axe_finds_nothing_on_what_keys_and_folds_open(page: Any, house: House,
                                                       screens: dict[str, tuple[str, str]]) -> None:
    page.goto(f"{origin(house)}{screens['waiting'][0]}")
    page.get_by_text("Keep a rule, or change the input").click()
    page.locator("#kept").wait_for()
    assert violations(page) == []
    for key, role in (("?", "button"), ("Control+k", "option")):
        page.evaluate("document.activeElement.blur()")
        page.keyboard.press(key)
        page.get_by_role("dialog").get_by_role(role).first.wait_for()
        assert violations(page) == []
        page.keyboard.press("Escape")


def test_axe_finds_nothing_on_the_login(browser: Any, house: House) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{origin(house)}/console/")
    page.get_by_label("Key").wait_for()
    assert violations(page) == []
    context.close()
