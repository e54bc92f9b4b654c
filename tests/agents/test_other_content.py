"""Images, audio and files, in our words and in each agent's (A-7)."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from interlock.agents.acp import content as acp
from interlock.agents.claude import content as claude

pytestmark = pytest.mark.req("A-7", "E-5")
DATA = base64.b64encode(b"bytes").decode()


def block(kind: str, media_type: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "data": DATA, "media_type": media_type, **fields}


@pytest.mark.parametrize(("given", "told"), [
    ({"type": "text", "text": "hi"}, {"type": "text", "text": "hi"}),
    (block("image", "image/gif"), {"type": "image", "mimeType": "image/gif", "data": DATA}),
    (block("audio", "audio/ogg"), {"type": "audio", "mimeType": "audio/ogg", "data": DATA}),
    (block("file", "text/csv", name="a.csv"), {"type": "resource", "resource": {
        "uri": "attachment:///a.csv", "mimeType": "text/csv", "blob": DATA}}),
])
def test_a_prompts_block_as_acp_has_it(given: dict[str, Any], told: dict[str, Any]) -> None:
    assert acp.block_of(given) == told


@pytest.mark.parametrize(("given", "file"), [
    ({"type": "image", "data": DATA, "mimeType": "image/png"}, ("image", "image/png", b"bytes")),
    ({"type": "image", "data": DATA, "mimeType": "image/png", "uri": "file:///w/p.png"},
     ("p.png", "image/png", b"bytes")),
    ({"type": "audio", "data": DATA, "mimeType": "audio/wav"}, ("audio", "audio/wav", b"bytes")),
    ({"type": "resource", "resource": {"uri": "x:///a.zip", "blob": DATA}},
     ("a.zip", "application/octet-stream", b"bytes")),
    ({"type": "resource", "resource": {"uri": "x:///a", "text": "words"}}, None),
    ({"type": "image", "data": "?", "mimeType": "image/png"}, None),
    ({"type": "text", "text": "hi"}, None), (None, None), ("odd", None),
])
def test_a_file_in_what_an_acp_agent_says(given: Any, file: Any) -> None:
    assert acp.file_of(given) == file


@pytest.mark.parametrize(("given", "told"), [
    ({"type": "text", "text": "hi"}, {"type": "text", "text": "hi"}),
    (block("image", "image/png"),
     {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}}),
    (block("file", "application/pdf", name="a.pdf"),
     {"type": "document", "title": "a.pdf",
      "source": {"type": "base64", "media_type": "application/pdf", "data": DATA}}),
    (block("file", "text/csv"),
     {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "bytes"}}),
])
def test_a_prompts_block_as_claude_has_it(given: dict[str, Any], told: dict[str, Any]) -> None:
    assert claude.block_of(given) == told


def test_a_file_that_claude_cannot_read_is_one_sentence() -> None:
    with pytest.raises(claude.NotTaken, match="PDF and UTF-8 text, not a file of application/zip"):
        claude.block_of({"type": "file", "media_type": "application/zip", "data": base64.b64encode(b"\xff").decode()})


@pytest.mark.parametrize(("content", "rest", "files"), [
    ("text", "text", []), (None, None, []),
    ([{"type": "text", "text": "a"}, {"type": "image", "source": {"type": "base64", "media_type": "image/png",
                                                                  "data": DATA}}],
     [{"type": "text", "text": "a"}], [("image", "image/png", b"bytes")]),
    ([{"type": "image", "source": {"type": "url", "url": "x"}}],
     [{"type": "image", "source": {"type": "url", "url": "x"}}],
     []),
    (["odd", {"type": "image", "source": 7}], ["odd", {"type": "image", "source": 7}], []),
])
def test_a_result_of_claude_without_its_images(content: Any, rest: Any, files: Any) -> None:
    assert claude.without_files(content) == (rest, files)
