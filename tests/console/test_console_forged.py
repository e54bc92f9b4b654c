"""What an agent sends never looks like the console's own words, in the inbox and on the page of an approval (H-4)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.console.acp_agents import agent
from tests.console.forging_agent import CLAIM, FORGED
from tests.console.pages import answered, asked, origin

from proof.processes.stack import Stack

pytestmark = [pytest.mark.needs("chromium", "console"), pytest.mark.filterwarnings("ignore"),
              pytest.mark.req("H-4", "J-5", "J-16")]
AGENT = Path(__file__).parent / "forging_agent.py"
QUOTING = ".act, .said, pre, code"
"""What holds an agent's words: in another type than the console's own, within a border or on a line of its own."""
OUTSIDE = """([claim, quoting]) => {
  const texts = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
  const found = [];
  while (texts.nextNode()) {
    const text = texts.currentNode;
    if (text.data.includes(claim) && text.parentElement.closest(quoting) === null) found.push(text.data);
  }
  return found;
}"""
"""Texts with the forged words that are not in what holds an agent's words."""
LINE_PX = "() => parseFloat(getComputedStyle(document.querySelector('.cards .act')).lineHeight)"
MOST_LINES = 3
HIDDEN = ("\u202e", "\u202c", "\u2066", "\u2069", "\u200b")


@pytest.fixture(scope="module")
def stack_config() -> str:
    """The agent that forges."""
    return agent("forger", "-I", str(AGENT))


@pytest.fixture(params=sorted(FORGED))
def forged(stack: Stack, request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """The approval that the agent's request of this name makes."""
    approval = asked(stack, request.param, request.param, "forger")
    yield stack.get(f"/v1/approvals/{approval}")
    answered(stack, approval, "deny")


def font(place: Any) -> str:
    return place.evaluate("(element) => getComputedStyle(element).fontFamily")


def hidden(shown: str) -> list[str]:
    return [one for one in HIDDEN if one in shown]


def test_a_row_of_the_inbox_names_the_agent_the_host_and_the_directory(
    page: Any, stack: Stack, forged: dict[str, Any]
) -> None:
    page.goto(f"{origin(stack)}/console/")
    row = page.locator(f"a[href='/console/a/{forged['id']}']")
    row.wait_for()
    act, place, _ = row.locator(":scope > span").all()
    assert place.inner_text() == f"forger · {forged['runner_id']}:{forged['workspace']}"
    shown = act.inner_text()
    assert ("\n" in shown, hidden(shown)) == (False, [])
    assert font(act) != font(place)
    assert act.bounding_box()["height"] <= MOST_LINES * page.evaluate(LINE_PX), "nor does it grow into rows of its own"
    assert page.evaluate(OUTSIDE, [CLAIM, QUOTING]) == []
    assert page.locator("main button").count() == 0


def test_the_page_of_an_approval_separates_its_own_text(page: Any, stack: Stack, forged: dict[str, Any]) -> None:
    page.goto(f"{origin(stack)}/a/{forged['id']}")
    page.get_by_role("button", name="Deny", exact=True).wait_for()
    own = dict(zip(page.locator("dt").all_inner_texts(), page.locator("dd").all_inner_texts(), strict=True))
    assert (own["Agent"], own["Runner"], own["Directory"]) == ("forger", forged["runner_id"], forged["workspace"])
    assert page.locator("main button").all_inner_texts() == ["Deny", "Allow once"]
    assert page.locator("p.notice strong").all_inner_texts() == [], "nothing says that it was decided"
    assert page.evaluate(OUTSIDE, [CLAIM, QUOTING]) == []
    assert hidden(page.locator("main").inner_text()) == []
    headline = page.get_by_role("heading", level=1).inner_text()
    if "command" not in (forged["input"] or {}):
        assert not headline.startswith("$ "), "that is how a command is shown, and there is none"
        assert headline.endswith(('"', "…")), "the agent's words are quoted to their end"
