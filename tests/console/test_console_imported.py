"""An imported session in real Chromium: its initial entries are shown before it has worked (J-3)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.console.pages import interlock, page_of, submitted, waiting

from proof.processes.stack import Stack

pytestmark = [pytest.mark.needs("chromium", "console"), pytest.mark.filterwarnings("ignore"),
              pytest.mark.req("J-3", "X-2")]
TRANSCRIPT = [
    {"type": "session", "version": 3, "id": "old", "timestamp": "2025-11-01T00:00:00.000Z", "cwd": "/elsewhere"},
    {"type": "message", "id": "aaaa0001", "parentId": None, "timestamp": "2025-11-01T00:00:01.000Z",
     "message": {"role": "user", "content": "count the bananas", "timestamp": 1}},
    {"type": "message", "id": "aaaa0002", "parentId": "aaaa0001", "timestamp": "2025-11-01T00:00:02.000Z",
     "message": {"role": "assistant", "timestamp": 2, "content": [
         {"type": "text", "text": "I look."},
         {"type": "toolCall", "id": "call1", "name": "ls", "arguments": {"path": "kitchen"}}]}},
    {"type": "message", "id": "aaaa0003", "parentId": "aaaa0002", "timestamp": "2025-11-01T00:00:03.000Z",
     "message": {"role": "toolResult", "toolCallId": "call1", "toolName": "ls", "timestamp": 3,
                 "content": [{"type": "text", "text": "three-bananas"}]}},
]


def test_an_imported_session_shows_its_original_conversation_once(browser: Any, stack: Stack, tmp_path: Path) -> None:
    """It was empty, and named by its key, until its first task."""
    file = tmp_path / "talk.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in TRANSCRIPT))
    answer = json.loads(interlock(stack, "sessions", "import", str(file), "--agent", "shell", "--json"))
    session = answer["session"]["session_id"]
    with page_of(browser, stack, f"/console/sessions/{session}") as page:
        page.get_by_role("heading", name="count the bananas").wait_for()
        blocks = page.locator(".blocks")
        blocks.get_by_text("I look.").wait_for()
        blocks.get_by_text("three-bananas").wait_for(state="attached")
        key = next(one["session_key"] for one in stack.get("/v1/sessions")["items"] if one["session_id"] == session)
        command = submitted(stack, "shell", "echo more", key.removeprefix("agent:shell:"))
        stack.until(lambda: waiting(stack, command) != [])
        blocks.get_by_text("echo more").first.wait_for()
        assert blocks.get_by_text("I look.").count() == 1
        assert blocks.get_by_text("count the bananas").count() == 1
