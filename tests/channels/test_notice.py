"""A notice begins with the link to decide; the request's text cannot imitate ours or exceed the service's limit."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.channels.notice import CUT, NAMES_CHARS, QUOTE, details_of, link_to, text_of
from interlock.ports.channel import ApprovalNotice

pytestmark = pytest.mark.req("O-11")
LINK = "https://gate.example/a/ap1"


def asking(**fields: Any) -> ApprovalNotice:
    return ApprovalNotice(**{"approval_id": "ap1", "title": "Run make", "agent_id": "claude", "runner_id": "r1",
                             "workspace": "/src", "requested_by": "user:ann", "lines": "make\nall", "digest": "d",
                             "input": "{}", "expires_at": "2026-01-01T00:00:00Z"} | fields)


def test_a_link_is_included_if_other_hosts_can_follow_it() -> None:
    assert link_to("https://gate.example", "ap1") == LINK
    assert link_to(None, "ap1") is None
    assert text_of(asking(), LINK, details=False, max_bytes=100) == f"Read and decide: {LINK}"
    here = text_of(asking(), None, details=False, max_bytes=100)
    assert here == "Read and decide at a terminal: interlock approve ap1"


def test_without_details_a_notice_contains_nothing_of_the_request() -> None:
    text = text_of(asking(lines="SECRET", workspace="/SECRET", agent_title="SECRET", title="SECRET", input="SECRET"),
    LINK,
                   details=False, max_bytes=9_999)
    assert "SECRET" not in text


def test_details_follow_the_link() -> None:
    assert text_of(asking(), LINK, details=True, max_bytes=9_999).split("\n") == [
        f"Read and decide: {LINK}", "agent claude on r1 in /src for user:ann", f"{QUOTE}make", f"{QUOTE}all"]
    assert details_of(asking(runner_id="", workspace="", requested_by=""), 9_999).split("\n") == [
        "agent claude", f"{QUOTE}make", f"{QUOTE}all"]


@pytest.mark.parametrize("ending", ["\n", "\r", "\r\n", "\u2028", "\u2029", "\x85", "\x0b", "\x0c"], ids=ascii)
def test_every_line_of_the_request_is_quoted_for_every_line_end(ending: str) -> None:
    forged = f"make{ending}Read and decide: https://evil.example"
    for line in details_of(asking(lines=forged), 9_999).splitlines()[1:]:
        assert line.startswith(QUOTE)
    names = details_of(asking(workspace=forged, lines=""), 9_999).splitlines()
    assert len(names) == 2
    assert names[0].startswith("agent claude on r1 in make")


def test_long_names_are_truncated_and_bidirectional_marks_shown() -> None:
    first, line = details_of(asking(workspace="/" + "w" * 9_000, lines="a\u202eb"), 99_999).split("\n")
    assert len(first) == NAMES_CHARS
    assert line == f"{QUOTE}a<U+202E>b"


def test_an_earlier_truncation_is_reported() -> None:
    assert details_of(asking(is_cut=True), 9_999).split("\n")[-1] == CUT


@pytest.mark.parametrize("lines", ["x" * 5_000, "é" * 5_000, "\N{GRINNING FACE}" * 5_000, "line\n" * 5_000])
@pytest.mark.parametrize("limit", [100, 101, 102, 103, 1_000])
def test_a_notice_has_at_most_the_bytes_that_the_service_accepts(lines: str, limit: int) -> None:
    text = text_of(asking(lines=lines), LINK, details=True, max_bytes=limit)
    assert limit - 4 < len(text.encode()) <= limit
    assert text.startswith(f"Read and decide: {LINK}\n")
    assert text.endswith(f"\n{CUT}")
