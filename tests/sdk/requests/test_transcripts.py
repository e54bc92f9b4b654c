"""Requests for transcripts (X-1, X-4, X-6): a short one as JSON, a long one as the body itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interlock.sdk.exchange import RequestSpec
from interlock.sdk.requests import transcripts
from sdk.requests.asked import body, line

pytestmark = pytest.mark.req("X-6")


@pytest.mark.parametrize(("asked", "text"), [
    (transcripts.entries("s", last=5), "GET /v1/sessions/s/transcript?last=5"),
    (transcripts.every_entry("s", cursor="c"), "GET /v1/sessions/s/transcript?cursor=c"),
    (transcripts.tree("s"), "GET /v1/sessions/s/tree"), (transcripts.context("s"), "GET /v1/sessions/s/context"),
    (transcripts.export("s", format="html", view="raw"), "GET /v1/sessions/s/export?format=html&view=raw"),
    (transcripts.examine("s"), "GET /v1/sessions/s/doctor"),
])
def test_a_read_is_that_of_the_reference(asked: RequestSpec[Any], text: str) -> None:
    assert line(asked) == text


@pytest.mark.parametrize(("asked", "text", "expected"), [
    (transcripts.repair("s"), "POST /v1/sessions/s/repair", {}),
    (transcripts.label("s", "e", "mark"), "POST /v1/sessions/s/labels", {"entry_id": "e", "label": "mark"}),
    (transcripts.branch("s", "e", summary="tried"), "POST /v1/sessions/s/branches", {"entry_id": "e",
    "summary": "tried"}),
    (transcripts.fork("s"), "POST /v1/sessions/s/fork", {}), (transcripts.fork("s", entry_id="e"),
    "POST /v1/sessions/s/fork",
                                                            {"entry_id": "e"}),
    (transcripts.take_in("{}", "shell"), "POST /v1/sessions/import", {"content": "{}", "agent_id": "shell"}),
])
def test_a_change_carries_its_arguments(asked: RequestSpec[Any], text: str, expected: dict[str, Any]) -> None:
    assert (line(asked), body(asked)) == (text, expected)


def test_a_label_is_removed_by_null() -> None:
    assert b'"label":null' in (transcripts.label("s", "e", None).body or b"")


def test_a_long_file_is_the_body_and_the_query_names_its_session() -> None:
    asked = transcripts.upload(Path("t.jsonl"), "shell", workspace="/w")
    assert (line(asked), asked.file) == ("POST /v1/sessions/import?agent_id=shell&workspace=/w", Path("t.jsonl"))
    assert transcripts.upload(b"x", "shell").body == b"x"
