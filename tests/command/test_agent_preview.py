"""An agent's preview of its call, as an approval shows it (J-12)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.command.agent_preview import preview_of
from interlock.protocol.limits import PREVIEW_CHARS_MAX, PREVIEW_PARTS_MAX
from interlock.protocol.resources import Approval, PreviewPart

pytestmark = pytest.mark.req("J-12")
DIFF = {"type": "diff", "path": "/w/a.py", "oldText": "x = 1\n", "newText": "x = 2\n"}


def asked(content: Any = None, subject: bytes | None = None) -> Approval:
    whole = {"tool_name": "edit", **({"content": content} if content is not None else {})}
    return Approval(id="apr_1", tenant_id="t", door="tool", state="pending", created_at="", expires_at="", title="",
                    agent_id="claude", session_id="s", digest="", input=msgspec.Raw(b"{}"), rule="ask",
                    subject=msgspec.Raw(subject if subject is not None else msgspec.json.encode(whole)))


def test_diffs_and_texts_are_shown_in_the_agents_order_and_nothing_else() -> None:
    text = {"type": "content", "content": {"type": "text", "text": "I will change it."}}
    new = {"type": "diff", "path": "/w/b.py", "newText": ""}
    preview = preview_of(asked([text, DIFF, new, {"type": "terminal", "terminalId": "t"}, "words", {"type": "diff"}]))
    assert preview is not None
    assert preview.parts == [
        PreviewPart(kind="text", text="I will change it."),
        PreviewPart(kind="diff", path="/w/a.py", old_text="x = 1\n", text="x = 2\n"),
        PreviewPart(kind="diff", path="/w/b.py", text="")]


@pytest.mark.parametrize("content", [None, [], "words", {"type": "diff"}, [{"type": "terminal"}]])
def test_an_agent_that_shows_nothing_has_no_preview(content: Any) -> None:
    assert preview_of(asked(content)) is None


def test_a_request_that_cannot_be_read_or_is_not_there_has_no_preview() -> None:
    assert preview_of(asked(subject=b"{]")) is None
    assert preview_of(msgspec.structs.replace(asked(), subject=msgspec.UNSET)) is None


def test_too_long_content_is_cut_and_counted() -> None:
    long = {**DIFF, "oldText": "a" * PREVIEW_CHARS_MAX, "newText": "b" * PREVIEW_CHARS_MAX}
    preview = preview_of(asked([long] + [DIFF] * PREVIEW_PARTS_MAX))
    assert preview is not None
    first, *others = preview.parts
    assert (len(first.old_text or ""), len(first.text), first.truncated) == (
        PREVIEW_CHARS_MAX // 2, PREVIEW_CHARS_MAX // 2, PREVIEW_CHARS_MAX)
    assert {(one.text, one.truncated) for one in others} == {("", 12)}
    assert (len(preview.parts), preview.left_out) == (PREVIEW_PARTS_MAX, 1)
