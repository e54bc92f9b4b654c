"""An agent's plan, what it lets be chosen, its edits by file, and files either way, in real Chromium (J-4, J-14)."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from tests.console.pages import page_of, ran
from tests.console.screens import config
from tests.console.update_agent import HOSTILE

from proof.processes.stack import Stack

pytestmark = [pytest.mark.needs("chromium", "console"), pytest.mark.filterwarnings("ignore"), pytest.mark.req("J-4")]
RULES = """
[[policy.rules]]
name = "edits are allowed here"
effect = "allow"
door = "tool"
agent = "forger"
"""
GIF = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")
SVG = b"<svg xmlns='http://www.w3.org/2000/svg' onload='window.ran=1'><script>window.ran=1</script></svg>"
SHOWN = ".block .file img"
DRAWN = f"() => [...document.querySelectorAll('{SHOWN}')].every((one) => one.complete && one.naturalWidth > 0)"
STEPS = [("Read the code", "completed"), (HOSTILE, "in_progress"), ("Write a test", "pending")]


@pytest.fixture(scope="module")
def stack_config() -> str:
    """Agents that send the updates of their prompt."""
    return config() + RULES


def png(width: int, height: int) -> bytes:
    """A picture of zero bytes, or a small one with a large declared size."""
    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    rows = b"".join(b"\0" + bytes(3 * width) for _ in range(height if width < 1_000 else 1))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def sent(content: bytes, name: str, media_type: str = "image/png") -> dict[str, Any]:
    return {"sessionUpdate": "agent_message_chunk", "content": {
        "type": "image", "mimeType": media_type, "uri": f"file:///{name}", "data": base64.b64encode(content).decode()}}


def plan(*steps: tuple[str, str]) -> dict[str, Any]:
    return {"sessionUpdate": "plan", "entries": [
        {"content": content, "status": status, "priority": "medium"} for content, status in steps]}


def updated(stack: Stack, session: str, *updates: dict[str, Any]) -> str:
    """Have the agent send updates in a session with this name; its id."""
    return ran(stack, "updater", json.dumps(updates), session)


def test_a_plan_is_shown_beside_the_prompt_as_it_changes(browser: Any, stack: Stack) -> None:
    session = updated(stack, "planned", plan(*STEPS))
    with page_of(browser, stack, f"/console/sessions/{session}") as page:
        summary = page.locator(".plan summary")
        summary.get_by_text("Plan: 1 of 3 done").wait_for()
        doing = HOSTILE.replace("\u202e", "<U+202E>")
        assert summary.text_content() == f"Plan: 1 of 3 done · {doing}", "what it does now, as text"
        steps = page.get_by_role("region", name="Plan steps").get_by_role("listitem")
        assert steps.count() == 0, "folded"
        summary.focus()
        page.keyboard.press("Enter")
        steps.first.wait_for()
        assert [one.text_content().split(" · ")[-1] for one in steps.all()] == ["done", "now", "to do"]
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        updated(stack, "planned", plan(("All of it", "completed"), ("Look at it", "completed")))
        summary.get_by_text("Plan: 2 of 2 done").wait_for()
        assert steps.count() == 2
        page.reload()
        page.get_by_text("Plan: 2 of 2 done").wait_for()
        updated(stack, "planned", plan())
        summary.wait_for(state="detached")


def test_an_offered_setting_is_chosen_and_sent(browser: Any, stack: Stack) -> None:
    session = updated(stack, "chosen", plan())
    with page_of(browser, stack, f"/console/sessions/{session}") as page:
        page.get_by_text("mode: Default · Thinking depth: Low").wait_for()
        page.get_by_text("Options").click()
        mode = page.get_by_label("Mode", exact=True)
        assert mode.locator("option").all_text_contents()[1:3] == ["Default", "Plan first"]
        assert HOSTILE.replace("\u202e", "<U+202E>") in mode.locator("option").all_text_contents()[3]
        mode.select_option("plan")
        page.get_by_label("Model", exact=True).select_option("small")
        page.get_by_label("Thinking depth").select_option("high")
        page.get_by_label("Write to the agent").fill("go")
        page.get_by_role("button", name="Send").click()
        page.get_by_text("mode: Plan first · Thinking depth: High").wait_for()
    payload = stack.get(f"/v1/commands/{stack.get('/v1/commands')['items'][0]['id']}")["payload"]
    assert (payload["mode"], payload["model"], payload["options"]) == ("plan", "small", {"thinking": "high"})


def test_edits_are_summed_by_file(browser: Any, stack: Stack) -> None:
    for path, old, new in (("b.py", "a\nb\n", "a\nc\nd\n"), (HOSTILE, "", "x\n"), ("b.py", "c\n", "")):
        given = {"file_path": path, "old_string": old, "new_string": new}
        call = {"kind": "edit", "title": "an edit", "rawInput": given}
        session = ran(stack, "forger", json.dumps(call), "edited")
    with page_of(browser, stack, f"/console/sessions/{session}") as page:
        page.get_by_text("Files changed by 3 edits").click()
        page.locator(".edited li").first.wait_for()
        lines = [" ".join(one.text_content().split()) for one in page.locator(".edited li").all()]
        assert lines == [f"{HOSTILE} +1 −0".replace("\u202e", "<U+202E>"), "b.py +2 −2 · 2 edits"]


def test_pictures_are_shown_by_their_content_and_every_file_can_be_saved(browser: Any, stack: Stack) -> None:
    session = updated(stack, "files", sent(png(40, 30), "small.png"), sent(SVG, "drawn.svg", "image/svg+xml"),
                      sent(SVG, "renamed.png"), sent(png(100_000, 100_000), "bomb.png"), sent(b"", "empty.png"),
                      sent(b"\xff\xd8\xff", "cut.jpg", "image/jpeg"),
                      {**sent(png(400, 200), "<img src=x>.png"), "padding": 700_000})
    with page_of(browser, stack, f"/console/sessions/{session}") as page:
        page.get_by_role("img", name="small.png").wait_for()
        page.get_by_role("img", name="<img src=x>.png").scroll_into_view_if_needed()
        page.wait_for_function(DRAWN)
        assert [(one.get_attribute("alt"), one.evaluate("one => [one.naturalWidth, one.naturalHeight]"))
                for one in page.locator(SHOWN).all()] == [("small.png", [40, 30]), ("<img src=x>.png", [400, 200])]
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the wide one too"
        with page.expect_download() as download:
            page.get_by_role("button", name="Save drawn.svg").click()
        assert Path(download.value.path()).read_bytes() == SVG
        assert download.value.suggested_filename.endswith(".svg")


def test_a_picture_of_a_prompt_is_shown_with_it(browser: Any, stack: Stack) -> None:
    session = updated(stack, "attached", plan())
    with page_of(browser, stack, f"/console/sessions/{session}") as page:
        page.get_by_text("Options").click()
        page.get_by_label("Attach files").set_input_files([
            {"name": "pixel.gif", "mimeType": "text/plain", "buffer": GIF},
            {"name": "large.png", "mimeType": "image/png", "buffer": png(30, 20) + bytes(500_000)},
            {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"notes"}])
        page.get_by_role("button", name="Remove notes.txt").wait_for()
        page.get_by_label("Write to the agent").fill("look")
        page.get_by_role("button", name="Send").click()
        prompt = page.locator(".block.prompt", has_text="look")
        prompt.get_by_role("img", name="pixel.gif").wait_for()
        prompt.get_by_role("img", name="large.png").wait_for()
        assert prompt.get_by_role("img", name="notes.txt").count() == 0
        with page.expect_download() as download:
            prompt.get_by_role("button", name="Save notes.txt").click()
        assert Path(download.value.path()).read_bytes() == b"notes"
        assert page.locator(".block .file").count() == 3, "the prompt has them, and no block beside it"
