"""What an agent writes as Markdown, in real Chromium: formatted, and nothing of it runs or loads (J-4, J-16)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.console.acp_agents import agents_of
from tests.console.pages import origin, ran

from proof.processes.stack import Stack

pytestmark = [pytest.mark.needs("chromium", "console"), pytest.mark.filterwarnings("ignore"),
              pytest.mark.req("J-4", "J-16")]
MAX_MARKUP_CHARS = 20_000
MARKDOWN = """\
# Plan

#### Steps

Change **two** files, see [the guide](https://example.org/guide) and <https://example.net/>:

3. `a.py`
4. b.py

- [x] done
- [ ] open

```python
if a < b:
    pass
```

| name | size |
|------|-----:|
| a.py |   12 |

[here](src/a.py) [no](javascript:window.ran=1) ![picture](https://example.org/p.png)
<b onclick="window.ran=1">not bold</b> gpj\u202e.exe and gpj&#8238;.exe
"""


@pytest.fixture(scope="module")
def stack_config() -> str:
    """An agent that repeats its prompt."""
    return agents_of(writer="text_agent")


def answered(stack: Stack, text: str, name: str) -> str:
    """Have the agent write this; the id of its session."""
    return ran(stack, "writer", text, name)


def test_markdown_is_formatted_and_its_links_show_their_target(page: Any, stack: Stack) -> None:
    page.goto(f"{origin(stack)}/console/sessions/{answered(stack, MARKDOWN, 'formatted')}")
    block = page.locator(".block.markup")
    block.wait_for()
    assert block.locator("h2").inner_text() == "Plan"
    assert block.locator("h3").inner_text() == "Steps", "no level is left out"
    assert block.locator("strong").inner_text() == "two"
    assert block.locator("ol li").all_inner_texts() == ["a.py", "b.py"]
    assert block.locator("ul li").all_inner_texts() == ["☑ done", "☐ open"]
    assert block.locator("pre").inner_text() == "if a < b:\n    pass"
    assert block.locator("ol").get_attribute("start") == "3"
    assert block.locator("td").all_inner_texts() == ["a.py", "12"]
    assert block.locator("td").last.get_attribute("align") == "right"
    shown = block.inner_text()
    assert "the guide (example.org) and https://example.net/:" in shown
    assert "here (src/a.py) no (javascript:window.ran=1) picture (example.org)" in shown
    assert '<b onclick="window.ran=1">not bold</b> gpj<U+202E>.exe and gpj<U+202E>.exe' in shown
    links = block.locator("a").evaluate_all("all => all.map((one) => [one.href, one.rel, one.target])")
    rel = "noopener noreferrer nofollow"
    assert links == [[to, rel, "_blank"] for to in (
        "https://example.org/guide", "https://example.net/", "https://example.org/p.png")]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_link_with_a_misleading_text_shows_its_target(page: Any, stack: Stack) -> None:
    text = "[https://bank.example](https://k.example/x) [k.example](https://k.example/x) [m](mailto:a@b.example)"
    page.goto(f"{origin(stack)}/console/sessions/{answered(stack, text, 'claims')}")
    block = page.locator(".block.markup")
    block.wait_for()
    assert block.inner_text() == "https://bank.example (k.example) k.example m (a@b.example)"


@pytest.mark.parametrize(("name", "text"), [
    ("long", "**long** " * (MAX_MARKUP_CHARS // 9 + 1)), ("deep", ">" * (MAX_MARKUP_CHARS - 1))])
def test_text_that_is_too_long_or_too_deep_is_shown_unformatted(page: Any, stack: Stack, name: str, text: str) -> None:
    page.goto(f"{origin(stack)}/console/sessions/{answered(stack, text, name)}")
    block = page.locator("div.block[data-drawn]")
    block.wait_for()
    assert page.locator(".block.markup").count() == 0
    assert block.inner_text().strip() == text.strip()


def test_streamed_text_ends_as_its_complete_markdown(page: Any, stack: Stack) -> None:
    page.goto(f"{origin(stack)}/console/sessions/{answered(stack, 'begun', 'streamed')}")
    page.locator(".block.markup").wait_for()
    rows = "\n".join(f"- item **{number}**" for number in range(300))
    page.get_by_label("Write to the agent").fill(f"{rows}\n\nThe *last* words.")
    page.get_by_role("button", name="Send").click()
    page.locator(".block.markup em", has_text="last").wait_for()
    assert page.locator(".block.markup").last.locator("li strong").all_inner_texts() == [
        str(number) for number in range(300)]
    # The view follows the end at any height of the markup.
    page.wait_for_function("() => innerHeight + scrollY >= document.body.scrollHeight - 160")


def test_both_trusted_types_policies_work_in_one_page(page: Any, stack: Stack) -> None:
    session = answered(stack, "**bold**", "after-audit")
    page.goto(f"{origin(stack)}/console/audit")
    page.locator(".verdict").first.wait_for()
    page.get_by_role("link", name="Sessions").click()
    page.locator(f"a[href='/console/sessions/{session}']").click()
    page.locator(".block.markup strong", has_text="bold").wait_for()
