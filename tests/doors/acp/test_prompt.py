"""An editor's prompt becomes the payload of a command, and the prompt of another client is shown to the editor."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.doors.acp.prompt import payload_of, slash_command, user_blocks
from interlock.protocol.payloads import PromptRequest

TEXT = {"type": "text", "text": "fix the test"}


@pytest.mark.req("O-3")
@pytest.mark.parametrize(("block", "part"), [
    (TEXT, ("text", "fix the test")),
    ({"type": "resource_link", "name": "a.py", "uri": "file:///w/a.py"}, ("text", "[a.py](file:///w/a.py)")),
    ({"type": "resource", "resource": {"uri": "file:///w/a.py", "text": "x = 1"}},
     ("text", "<context uri='file:///w/a.py'>\nx = 1\n</context>")),
    ({"type": "image", "data": "aGk=", "mimeType": "image/png"},
     ("image", {"encoding": "base64", "data": "aGk=", "name": "image", "media_type": "image/png"})),
    ({"type": "resource", "resource": {"uri": "file:///w/a.bin", "blob": "aGk="}},
     ("file", {"encoding": "base64", "data": "aGk=", "name": "a.bin"})),
])
def test_each_kind_of_block_becomes_a_part(block: dict[str, Any], part: tuple[str, Any]) -> None:
    payload = payload_of([block], {"mode": "plan", "model": "large", "thinking": "high"})

    assert [(one.contentType, one.value) for one in payload.messages[0].content] == [part]
    assert (payload.mode, payload.model, payload.options) == ("plan", "large", {"thinking": "high"})


@pytest.mark.req("O-3")
@pytest.mark.parametrize("blocks", [[], [{"type": "text", "text": ""}], ["text"], [{"type": "video"}]])
def test_a_prompt_without_content_is_refused_with_a_sentence(blocks: list[Any]) -> None:
    with pytest.raises(ValueError, match=r"^The prompt .*\.$"):
        payload_of(blocks, {})


@pytest.mark.req("O-5")
@pytest.mark.parametrize(("text", "found"), [
    ("/status", ("status", "")), ("/compact keep the plan ", ("compact", "keep the plan")), ("status", None),
    ("/usr/bin/env says no\nwhy?", None), ("/", None),
])
def test_a_line_that_begins_with_a_slash_is_a_command(text: str, found: tuple[str, str] | None) -> None:
    assert slash_command([{"type": "text", "text": text}]) == found


@pytest.mark.req("O-5")
def test_a_prompt_of_another_client_is_shown_with_its_files_named() -> None:
    prompt = PromptRequest(prompt_id="p", input_type="blocks", origin="user", content=[
        TEXT, {"type": "image", "data": "aGk=", "name": "shot.png"}])

    assert list(user_blocks(prompt)) == [TEXT, {"type": "text", "text": "[image: shot.png]"}]
