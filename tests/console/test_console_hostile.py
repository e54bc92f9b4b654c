"""Hostile texts of an agent in real Chromium, wherever the console shows them: none runs or loads (J-16)."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.console.acp_agents import agents_of
from tests.console.pages import answered, asked, origin, page_of, ran, submitted, waiting
from tests.console.payloads import HOSTILE

from interlock.gateway.rest.console_pages import ASSETS
from proof.processes.stack import Stack

pytestmark = [pytest.mark.needs("chromium", "console"), pytest.mark.filterwarnings("ignore"), pytest.mark.req("J-16")]
LEAST = 60
WATCH = """() => {
  window.violations = [];
  addEventListener('securitypolicyviolation', (event) => violations.push(event.violatedDirective));
}"""
FOREIGN = """() => {
  const inside = [...document.querySelectorAll('main *')];
  const tags = 'script,style,link,meta,base,iframe,object,embed,img,svg,math,video,audio,template,dialog,slot,'
    + 'form:not(.compose)';
  const found = inside.filter((one) => one.matches(tags) || one.localName.includes('-')).map((one) => one.outerHTML);
  for (const one of inside) {
    for (const {name, value} of one.attributes) {
      const isOpen = name === 'href' && !/^(https?:\\/\\/|mailto:|\\/console)/.test(value);
      if (/^on|^style$|^src|^ping$|^is$|^name$|action$/.test(name) || isOpen) found.push(one.outerHTML);
    }
  }
  return found;
}"""
"""Elements and attributes that the console does not make itself."""
CLEANED = """async ([url, payloads]) => {
  const {clean} = await import(url);
  const place = document.querySelector('main').appendChild(document.createElement('div'));
  for (const one of payloads) place.append(clean(one));
}"""


@pytest.fixture(scope="module")
def stack_config() -> str:
    """An agent that repeats its prompt, and one that asks for the call in its prompt."""
    return agents_of(writer="text_agent", forger="forging_agent")


@pytest.fixture(scope="module")
def page(browser: Any, stack: Stack) -> Iterator[Any]:
    with page_of(browser, stack) as page:
        page.add_init_script(f"({WATCH})()")
        yield page


def check(page: Any) -> None:
    """Nothing ran, and the page has its own elements alone."""
    page.wait_for_load_state("networkidle")
    assert page.evaluate("window.ran") is None
    assert page.evaluate(FOREIGN) == []
    assert page.evaluate("document.getElementById('app').contains(document.querySelector('main'))")


def check_text(page: Any) -> None:
    """So is it, and not even the page's security policy had anything to stop."""
    check(page)
    assert page.evaluate("window.violations") == []


def test_there_are_enough_hostile_texts() -> None:
    assert len(set(HOSTILE)) == len(HOSTILE) >= LEAST


def test_texts_of_an_agent_are_harmless(page: Any, stack: Stack) -> None:
    session = ran(stack, "writer", json.dumps(HOSTILE), "texts")
    page.goto(f"{origin(stack)}/console/sessions/{session}")
    page.wait_for_function("count => document.querySelectorAll('div.block[data-drawn]').length === count",
                           arg=len(HOSTILE))
    assert page.locator(".block.markup").count() == len(HOSTILE)
    check_text(page)
    for link in page.locator(".block.markup a").all():
        assert link.get_attribute("rel") == "noopener noreferrer nofollow"


def test_names_fields_paths_and_files_of_a_tool_call_are_harmless(page: Any, stack: Stack) -> None:
    member = "\n".join(HOSTILE)
    call = {
        "kind": HOSTILE[1], "title": member, "locations": [{"path": one} for one in HOSTILE[:5]],
        "rawInput": {**{one: one for one in HOSTILE}, "file_path": HOSTILE[1], "old_string": member, "new_string": "x"},
        "content": [
            *({"type": "diff", "path": one, "oldText": one, "newText": f"{one}\n{one}"} for one in HOSTILE),
            *({"type": "content", "content": {"type": "resource", "resource": {
                "uri": f"file:///tmp/{one}", "mimeType": "image/svg+xml",
                "blob": base64.b64encode(one.encode()).decode()}}} for one in HOSTILE[:10])],
    }
    approval = asked(stack, json.dumps(call), "call", "forger")
    page.goto(f"{origin(stack)}/console/")
    page.locator(f"a[href='/console/a/{approval}']").wait_for()
    check_text(page)
    page.goto(f"{origin(stack)}/a/{approval}")
    page.locator(".change").first.wait_for()
    assert page.locator(".change").count() == 1 + len(HOSTILE)
    check_text(page)
    session = stack.get(f"/v1/approvals/{approval}")["session_id"]
    answered(stack, approval, "grant")
    page.goto(f"{origin(stack)}/console/sessions/{session}")
    page.locator(".tool .change").first.wait_for()
    check_text(page)


def test_directories_prompts_and_reasons_are_harmless(page: Any, stack: Stack) -> None:
    approvals: list[str] = []
    for at, name in enumerate(one.replace("/", "\\") for one in HOSTILE[:4]):
        directory = stack.workspace / name
        directory.mkdir()
        command = submitted(stack, "shell", f"touch x # {HOSTILE[at]}", f"directory-{at}", directory)
        stack.until(lambda command=command: waiting(stack, command) != [])
        approvals += waiting(stack, command)
    page.goto(f"{origin(stack)}/console/")
    for approval in approvals:
        page.locator(f"a[href='/console/a/{approval}']").wait_for()
    check_text(page)
    for approval in approvals:
        answered(stack, approval, "deny", HOSTILE[0])
        page.goto(f"{origin(stack)}/a/{approval}")
        page.get_by_text("Decided by").wait_for()
        check_text(page)
    for path in ("sessions", "decided"):
        page.goto(f"{origin(stack)}/console/{path}")
        page.locator(".cards a").first.wait_for()
        check_text(page)
    page.keyboard.press("Control+k")
    page.get_by_role("option", name="session").first.wait_for()
    check_text(page)


def test_markup_is_harmless_even_if_html_is_not_kept_as_text(page: Any, stack: Stack) -> None:
    """The check of the nodes by itself, without the reader of Markdown before it."""
    page.goto(f"{origin(stack)}/console/")
    page.get_by_role("heading", name="Waiting for you").wait_for()
    module = next(path.name for path in (ASSETS / "assets").iterdir() if path.name.startswith("markup-"))
    page.evaluate(CLEANED, [f"/console/assets/{module}", list(HOSTILE)])
    check(page)
