"""Edits of files as differences by lines, in real Chromium: on the page of an approval and in a session (J-4, J-5)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.console.acp_agents import agent
from tests.console.pages import answered, asked, origin, read_to_end

from interlock.command.card.lines import lines
from interlock.command.card.request import ReceivedRequest
from proof.processes.stack import Stack

pytestmark = [pytest.mark.needs("chromium", "console"), pytest.mark.filterwarnings("ignore"), pytest.mark.req("J-5")]
AGENT = Path(__file__).parent / "forging_agent.py"
LONG = 120
TEXT = "".join(f"line {number}\n" for number in range(LONG))
PATCH = "*** Begin Patch\n*** Update File: a.py\n@@ def f():\n-    return 1\n+    return 2\n*** End Patch"
FORMS: dict[str, dict[str, Any]] = {
    "replaced": {"rawInput": {"file_path": "src/a.py", "old_string": "one\ntwo\nthree\n",
                              "new_string": "one\n2\nthree\nfour\n", "replace_all": True}},
    "several": {"rawInput": {"file_path": "a.py", "edits": [
        {"old_string": "a", "new_string": "b"}, {"old_string": "c\nd", "new_string": "c"}]}},
    "written": {"rawInput": {"path": "new.txt", "content": "first\nsecond\n"}},
    "editor": {"rawInput": {"command": "str_replace", "path": "/srv/x", "old_str": "x = 1", "new_str": "x = \u202e2"}},
    "patched": {"rawInput": {"input": PATCH}},
    "content": {"rawInput": {}, "content": [
        {"type": "diff", "path": "b.py", "oldText": "old\nkept", "newText": "new\nkept\n"},
        {"type": "content", "content": {"type": "text", "text": "why not"}}]},
}


@pytest.fixture(scope="module")
def stack_config() -> str:
    """An agent that asks for the call that its prompt is."""
    return agent("forger", "-I", str(AGENT))


def held(stack: Stack, name: str, call: dict[str, Any]) -> str:
    return asked(stack, json.dumps({"kind": "edit", "title": "an edit", **call}), name, "forger")


def opened(page: Any, stack: Stack, approval: str) -> Any:
    """The page of an approval, with what it changes."""
    page.goto(f"{origin(stack)}/a/{approval}")
    page.locator(".change").first.wait_for()
    return page.locator(".change")


def rows(diff: Any) -> list[str]:
    return diff.locator("pre > *").evaluate_all("all => all.flatMap((one) => one.textContent.split('\\n'))")


def card(approval: dict[str, Any]) -> list[list[str]]:
    """The rows of each edit on the gateway's own card of the same request."""
    subject = approval["subject"]
    content = json.dumps(subject["content"]).encode() if "content" in subject else None
    shown = lines(ReceivedRequest(subject["tool_name"], json.dumps(subject.get("input", {})).encode(), content=content))
    edits: list[list[str]] = []
    for line in shown:
        if line.style == "place" and line.text.startswith("--- "):
            edits.append([])
        elif edits and (line.style in ("added", "removed", "place") or line.text.startswith(" ")):
            edits[-1].append(line.text)
    return edits


@pytest.mark.parametrize("name", sorted(FORMS))
def test_each_form_of_an_edit_is_shown_as_the_gateways_card_shows_it(page: Any, stack: Stack, name: str) -> None:
    approval = held(stack, name, FORMS[name])
    changes = opened(page, stack, approval)
    record = stack.get(f"/v1/approvals/{approval}")
    expected = card(record)
    assert expected != []
    assert [[row for row in rows(one) if not row.startswith("\\")] for one in changes.all()] == expected
    added = sum(row.startswith("+") for edit in expected for row in edit)
    removed = sum(row.startswith("-") for edit in expected for row in edit)
    assert page.get_by_role("heading", level=1).inner_text().endswith(f"(+{added} −{removed})")
    counts = [changes.locator(f".place .{kind}").all_inner_texts() for kind in ("good", "bad")]
    assert [sum(int(one[1:]) for one in each) for each in counts] == [added, removed]
    assert page.get_by_text(f"sha256 {record['digest']}").count() == 1, "a vote is on the bytes, however they are shown"
    shown = page.get_by_role("region", name="Request").inner_text()
    if name == "replaced":
        assert "input.replace_all\ntrue" in shown or "input.replace_all true" in shown, "what a diff lacks stands below"
    if name == "content":
        assert "why not" in shown
        assert "\\ No newline at end of the old text" in shown
    if name == "editor":
        assert "+x = <U+202E>2" in shown
    page.get_by_text("The exact bytes").click()
    assert '"tool_name"' in page.get_by_role("region", name="Request").locator("details pre").inner_text()
    answered(stack, approval, "deny")


def test_a_folded_change_cannot_be_granted_before_it_was_shown_in_full(page: Any, stack: Stack) -> None:
    changed = TEXT.replace("line 60\n", "line sixty\n")
    approval = held(stack, "long", {"rawInput": {}, "content": [
        {"type": "diff", "path": "long.txt", "oldText": TEXT, "newText": changed}]})
    diff = opened(page, stack, approval).first
    assert rows(diff) == ["@@ -58,7 +58,7 @@", " line 57", " line 58", " line 59", "-line 60", "+line sixty",
                          " line 61", " line 62", " line 63"]
    read_to_end(page)
    page.get_by_text("Part of the change is folded.").wait_for()
    allow = page.get_by_role("button", name="Allow once")
    assert allow.is_disabled()
    page.get_by_role("button", name=f"Show all {LONG + 2} lines").click()
    page.get_by_text("line 0", exact=False).first.wait_for()
    assert len(rows(diff)) == LONG + 2
    page.get_by_text("Scroll to the end").wait_for()
    assert allow.is_disabled(), "its end was not on the screen"
    read_to_end(page)
    page.get_by_role("button", name="Allow once", disabled=False).wait_for()
    answered(stack, approval, "deny")


@pytest.mark.req("J-4")
def test_a_tool_card_shows_the_edit_that_ran(page: Any, stack: Stack) -> None:
    approval = held(stack, "ran", FORMS["replaced"])
    opened(page, stack, approval)
    read_to_end(page)
    page.get_by_role("button", name="Allow once", disabled=False).click()
    page.get_by_text("Decided by").wait_for()
    session = stack.get(f"/v1/approvals/{approval}")["session_id"]
    page.goto(f"{origin(stack)}/console/sessions/{session}")
    diff = page.locator(".tool .change")
    diff.wait_for()
    assert rows(diff) == ["@@ -1,3 +1,4 @@", " one", "-two", "+2", " three", "+four"]
    assert diff.locator(".place").inner_text() == "src/a.py +2 −1"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
