"""An exported transcript: its text redacted by rules, and the same tree (K-4, X-1)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from interlock.session.transcript.export_redaction import leaving
from interlock.session.transcript.tree import read_tree

pytestmark = pytest.mark.req("K-4")


def hush(text: str) -> str:
    return text.replace("swordfish", "***")


def line(**entry: Any) -> bytes:
    return json.dumps(entry).encode()


SECRET = "the word is swordfish"
HEADER = line(type="session", version=3, id="swordfish", timestamp="t", cwd="/w")
USER = line(type="message", id="a1", parentId=None, timestamp="t",
            message={"role": "user", "content": SECRET, "timestamp": 1})
CALL = line(type="message", id="a2", parentId="a1", timestamp="t", message={
    "role": "assistant", "provider": "swordfish", "model": "swordfish", "content": [
        {"type": "text", "text": SECRET}, {"type": "thinking", "thinking": SECRET},
        {"type": "toolCall", "id": "swordfish-1", "name": "swordfish",
         "arguments": {"id": SECRET, "name": ["swordfish"], "swordfish": 1}}]})
RESULT = line(type="message", id="a3", parentId="a2", timestamp="t", message={
    "role": "toolResult", "toolCallId": "swordfish-1", "toolName": "swordfish", "isError": False,
    "content": [{"type": "text", "text": SECRET}, {"type": "image", "data": "swordfish", "mimeType": "image/png"}],
    "details": {"type": SECRET}})
SUMMARY = line(type="compaction", id="a4", parentId="a3", timestamp="t", summary=SECRET, firstKeptEntryId="a1")
CUSTOM = line(type="custom", id="a5", parentId="a4", timestamp="t", customType="swordfish", data={"id": SECRET})
UNKNOWN = line(type="swordfish", id="a6", parentId="a5", timestamp="t", wholly={"new": SECRET})
PLAIN = b'{"type":"message", "id":"a7","parentId":"a6","message":{"role":"user","content":"hello \\u00e9"}}'
WHOLE = [HEADER, USER, CALL, RESULT, SUMMARY, CUSTOM, UNKNOWN, PLAIN]


def test_texts_are_redacted_everywhere_and_names_are_kept() -> None:
    after = leaving(WHOLE, hush)
    assert SECRET.encode() not in b"\n".join(after.lines)
    assert after.redacted == 6
    assert after.lines[0] == HEADER
    call, result, custom = (json.loads(after.lines[place]) for place in (2, 3, 5))
    text, thinking, tool = call["message"]["content"]
    assert (text["text"], thinking["thinking"]) == ("the word is ***", "the word is ***")
    assert (tool["id"], tool["name"], call["message"]["model"]) == ("swordfish-1", "swordfish", "swordfish")
    assert tool["arguments"] == {"id": "the word is ***", "name": ["***"], "***": 1}
    assert result["message"]["toolCallId"] == "swordfish-1"
    assert result["message"]["content"][1]["data"] == "swordfish", "a picture is not text"
    assert result["message"]["details"] == {"type": "the word is ***"}
    assert (custom["customType"], custom["data"]) == ("swordfish", {"id": "the word is ***"})


def test_the_tree_is_the_same_and_untouched_lines_are_byte_by_byte() -> None:
    before, after = read_tree(WHOLE), read_tree(leaving(WHOLE, hush).lines)
    assert [(node.id, node.parent_id, node.type) for node in after.nodes] == [
        (node.id, node.parent_id, node.type) for node in before.nodes]
    assert leaving(WHOLE, hush).lines[-1] == PLAIN
    assert leaving(WHOLE, str).lines == WHOLE


@pytest.mark.parametrize("damaged", [b'{"type":"message","content":"swordfish', b"\xff swordfish", b"swordfish\x00",
                                     b'["swordfish"]', b'"swordfish"'])
def test_a_damaged_line_is_text_and_redacted_as_such(damaged: bytes) -> None:
    [after] = leaving([damaged], hush).lines
    assert b"swordfish" not in after
    assert b"***" in after
