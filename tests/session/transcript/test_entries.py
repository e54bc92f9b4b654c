"""The lines of a transcript (X-3): the fields written for each kind of entry, and those required to append one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.protocol.records import TranscriptLine
from interlock.session.transcript.entries import (
    AssistantMessage,
    BadLine,
    BranchSummary,
    CompactionSummary,
    Custom,
    Draft,
    Label,
    MessageBody,
    Stub,
    TextPart,
    TokenFigures,
    ToolResultMessage,
    UserEntry,
    check_line,
    contributes,
    entry_line,
    header_line,
    new_entry_id,
    read_stub,
)

NOTICE = Custom("interlock.notice", {"code": "c", "message": "a\nb"})
USER = UserEntry(timestamp=7, content="hi")
COMPACTED = CompactionSummary(summary="so far", first_kept_entry_id="k", tokens_before=9, details={})


@pytest.mark.req("X-3")
def test_an_id_is_drawn_again_on_collision() -> None:
    draws = iter([b"\0\0\0\1", b"\0\0\0\2", b"\0\0\0\3"])
    assert new_entry_id({"00000001", "00000002"}, lambda _count: next(draws)) == "00000003"
    with pytest.raises(RuntimeError, match="taken"):
        new_entry_id({"00000000"}, bytes)


@pytest.mark.req("X-3")
def test_lines_have_the_required_fields() -> None:
    assert msgspec.json.decode(header_line("S", "2026-01-01T00:00:00.000Z", "/w")) == {
        "type": "session", "version": 3, "id": "S", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/w"}
    line = entry_line(NOTICE, "0000000a", None, "at")
    assert msgspec.json.decode(line) | {"data": 0} == {
        "type": "custom", "id": "0000000a", "parentId": None, "timestamp": "at", "customType": "interlock.notice",
        "data": 0}
    check_line(TranscriptLine(tenant_id="t1", session_id="S", entry_id="0000000a", line=line))
    for entry_id, bad in (("0000000b", line), ("x", b'{"type":"session","id":"x"}'), ("x", b'{"id":"x"}'),
                          ("x", b'{"type":"a",\n"id":"x"}'), ("x", b"\0\0"), ("x", b'["x"]')):
        with pytest.raises(BadLine):
            check_line(TranscriptLine(tenant_id="t1", session_id="S", entry_id=entry_id, line=bad))


@pytest.mark.req("X-3", "X-8")
@pytest.mark.parametrize(("draft", "written"), [
    (USER, {"type": "message", "message": {"role": "user", "timestamp": 7, "content": "hi"}}),
    (ToolResultMessage(timestamp=7, tool_call_id="c", tool_name="ls", content=[TextPart("a")], is_error=False),
     {"type": "message", "message": {"role": "toolResult", "timestamp": 7, "toolCallId": "c", "toolName": "ls",
                                     "content": [{"type": "text", "text": "a"}], "isError": False}}),
    (Label("e", "mark"), {"type": "label", "targetId": "e", "label": "mark"}),
    (Label("e", None), {"type": "label", "targetId": "e"}),
    (BranchSummary("f", "left"), {"type": "branch_summary", "fromId": "f", "summary": "left"}),
    (COMPACTED, {"type": "compaction", "summary": "so far", "firstKeptEntryId": "k", "tokensBefore": 9, "details": {}}),
])
def test_each_kind_of_entry_is_written_with_id_and_parent(draft: Draft, written: dict[str, Any]) -> None:
    line = entry_line(draft, "0000000a", "p", "at")
    assert msgspec.json.decode(line) == {"id": "0000000a", "parentId": "p", "timestamp": "at", **written}
    assert b"\n" not in line


def test_an_assistants_message_has_usage_even_if_the_agent_reports_none() -> None:
    entry = AssistantMessage(timestamp=1, content=[], api="rawp", provider="p", model="m", usage=TokenFigures(),
                             stop_reason="stop")
    usage = msgspec.json.decode(entry_line(entry, "a", None, "at"))["message"]["usage"]
    assert usage == {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0,
                     "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}}


@pytest.mark.req("Z-5")
def test_an_origin_marks_a_message_and_nothing_else() -> None:
    assert msgspec.json.decode(entry_line(USER, "a", None, "at", origin="flush"))["origin"] == "flush"
    assert "origin" not in msgspec.json.decode(entry_line(NOTICE, "a", None, "at", origin="flush"))


@pytest.mark.req("X-1")
@pytest.mark.parametrize(("draft", "in_context"), [
    (USER, True), (BranchSummary("f", "left"), True), (COMPACTED, True), (NOTICE, False), (Label("e", None), False)])
def test_notes_and_labels_do_not_change_the_context(draft: Draft, in_context: bool) -> None:
    assert contributes(draft) is in_context
    assert isinstance(draft, MessageBody) <= in_context


@pytest.mark.req("X-4")
@pytest.mark.parametrize(("line", "stub"), [
    (b'{"type":"x","id":"a","parentId":"b"}', Stub("x", "a", "b")),
    (b'{"type":"x","id":"a","parentId":7}', Stub("x", "a", None)),
    (b'\xef\xbb\xbf{"type":"x","id":"a"}', Stub("x", "a", None)),
    (b'{"type":"x","id":"a","n":1e999}', Stub("x", "a", None)),
    (b'{"type":7,"id":"a"}', None), (b'{"type":"x"}', None), (b"[]", None), (b"null", None), (b"\0\0", None),
    (b'{"type":"x","id":"a"', None), (b"", None), (b"[" * 100_000, None),
])
def test_a_damaged_line_is_in_the_tree_if_its_type_and_id_are_readable(line: bytes, stub: Stub | None) -> None:
    assert read_stub(line) == stub
