"""The question whether staged changes land (H-17), read completely or not at all: its card shows nothing incomplete."""

from __future__ import annotations

import json
from typing import Any

import pytest

from interlock.command.card.landing_request import LandingRequest, landing_request
from interlock.command.card.request import ReceivedRequest
from interlock.protocol.box import LANDING

pytestmark = pytest.mark.req("H-17")
HOOK = {"path": ".git/hooks/x", "change": "added", "unasked": "git runs it"}
ASKED = {"workspace": "/w", "digest": "d", "changes": 3, "files": [{"path": "a", "change": "modified"}, HOOK]}


def read(**fields: Any) -> LandingRequest | None:
    return landing_request(ReceivedRequest(LANDING, json.dumps({**ASKED, **fields}).encode()))


def request(**fields: Any) -> LandingRequest:
    found = read(**fields)
    assert found is not None
    return found


def test_a_complete_landing_request_is_read() -> None:
    found = request(notListed=1)
    assert (found.workspace, found.changes, [file.path for file in found.files]) == ("/w", 3, ["a", ".git/hooks/x"])
    assert found.runners_title == "land 3 staged changes in /w"


def test_a_request_of_another_tool_is_not_a_landing() -> None:
    assert landing_request(ReceivedRequest("Bash", json.dumps(ASKED).encode())) is None


@pytest.mark.parametrize("raw", [
    b"", b"[]", b"{}", json.dumps({**ASKED, "more": 1}).encode(), json.dumps({**ASKED, "changes": "3"}).encode(),
    json.dumps({**ASKED, "files": [{"path": "a", "change": "added", "note": "x"}]}).encode(),
    json.dumps({**ASKED, "not_listed": 1}).encode(), json.dumps(ASKED)[:-1].encode() + b',"workspace":"/other"}',
    json.dumps(ASKED).replace('"path": "a"', '"path": "a", "path": "b"').encode(), b"[" * 100_000, b"\xff",
])
def test_members_not_shown_on_the_card_make_it_another_request(raw: bytes) -> None:
    assert landing_request(ReceivedRequest(LANDING, raw)) is None


@pytest.mark.parametrize(("fields", "chosen"), [({"notListed": 1}, False), ({}, True), ({"changes": 2}, False)])
def test_a_choice_is_marked_if_not_all_changes_are_listed(fields: dict[str, Any], chosen: bool) -> None:
    assert request(**fields).chosen is chosen


@pytest.mark.parametrize(("fields", "later"), [
    ({"changes": 2}, 1), ({"notListed": 1, "runsUnasked": 2}, 2), ({"notListed": 1, "runsUnasked": 0}, 1),
    ({"runsUnasked": 5}, 1),
])
def test_unlisted_changes_count_as_running_programs_unless_some_were_chosen(
        fields: dict[str, Any], later: int) -> None:
    assert request(**fields).later == later
