"""Images, audio and files, in our words and in ACP's."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from interlock.agents.acp import content

pytestmark = pytest.mark.req("A-7", "E-5")
DATA = base64.b64encode(b"bytes").decode()


def block(kind: str, media_type: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "data": DATA, "media_type": media_type, **fields}


@pytest.mark.parametrize(("given", "expected"), [
    ({"type": "text", "text": "hi"}, {"type": "text", "text": "hi"}),
    (block("image", "image/gif"), {"type": "image", "mimeType": "image/gif", "data": DATA}),
    (block("audio", "audio/ogg"), {"type": "audio", "mimeType": "audio/ogg", "data": DATA}),
    (block("file", "text/csv", name="a.csv"), {"type": "resource", "resource": {
        "uri": "attachment:///a.csv", "mimeType": "text/csv", "blob": DATA}}),
])
def test_a_prompts_block_is_converted_to_acp(given: dict[str, Any], expected: dict[str, Any]) -> None:
    assert content.block_of(given) == expected


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
def test_a_file_in_an_acp_agents_message_is_converted(given: Any, file: Any) -> None:
    assert content.file_of(given) == file
