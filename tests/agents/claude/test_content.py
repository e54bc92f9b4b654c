"""Images, audio and files, in our words and in Claude Code's."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from interlock.agents.claude.content import NotTaken, block_of, without_files

pytestmark = pytest.mark.req("A-7", "E-5")
DATA = base64.b64encode(b"bytes").decode()


def block(kind: str, media_type: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "data": DATA, "media_type": media_type, **fields}


@pytest.mark.parametrize(("given", "expected"), [
    ({"type": "text", "text": "hi"}, {"type": "text", "text": "hi"}),
    (block("image", "image/png"),
     {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}}),
    (block("file", "application/pdf", name="a.pdf"),
     {"type": "document", "title": "a.pdf",
      "source": {"type": "base64", "media_type": "application/pdf", "data": DATA}}),
    (block("file", "text/csv"),
     {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "bytes"}}),
])
def test_a_prompts_block_is_converted_for_claude(given: dict[str, Any], expected: dict[str, Any]) -> None:
    assert block_of(given) == expected


def test_a_file_that_claude_cannot_read_gives_one_sentence() -> None:
    with pytest.raises(NotTaken, match="PDF and UTF-8 text, not a file of application/zip"):
        block_of({"type": "file", "media_type": "application/zip", "data": base64.b64encode(b"\xff").decode()})


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
def test_images_are_left_out_of_a_claude_result(content: Any, rest: Any, files: Any) -> None:
    assert without_files(content) == (rest, files)
