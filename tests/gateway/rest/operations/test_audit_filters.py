"""Search of the audit log (J-13, Y-9): by actor, action, object and time."""

from __future__ import annotations

from typing import Any

import pytest

from command.audit_logs import draft
from interlock.command.audit.audit import FIRST_PREV, seal
from interlock.gateway.rest.operations.audit_filters import CLOCK_SLACK_MS, AuditSearch, is_named
from interlock.protocol.clock import iso
from interlock.protocol.records import AuditRecord

pytestmark = pytest.mark.req("J-13", "Y-9")
NOON_MS = 1_800_000_000_000


def record(at_ms: int = NOON_MS, **fields: Any) -> AuditRecord:
    who = {"id": "user:ann", "role": "owner"}
    return seal(draft(1, at=iso(at_ms), who=who, command_id="cmd_1", session_id="s", approval_id="apr_1", **fields), 1,
    FIRST_PREV)


def search(**fields: Any) -> AuditSearch:
    return AuditSearch(**{**dict.fromkeys(AuditSearch._fields), **fields})


@pytest.mark.parametrize(("fields", "fits"), [
    ({"actor": "ann"}, True), ({"actor": "user:ann"}, True), ({"actor": "agent:ann"}, False), ({"actor": "an"}, False),
    ({"action": "vote"}, True), ({"action": "cancel"}, False), ({"command": "cmd_1"}, True), ({"command": "cmd_2"},
    False),
    ({"session": "s", "approval": "apr_1"}, True), ({"session": "s", "approval": "apr_2"}, False),
    ({"from_ms": NOON_MS}, True), ({"from_ms": NOON_MS + 1}, False), ({"to_ms": NOON_MS}, False),
    ({"to_ms": NOON_MS + 1}, True),
    ({"actor": "ann", "action": "vote", "from_ms": 0, "to_ms": NOON_MS + 1}, True),
])
def test_a_record_must_match_every_criterion(fields: dict[str, Any], fits: bool) -> None:
    test = search(**fields).test
    assert test is not None
    assert test(record()) is fits


def test_without_criteria_there_is_no_filter() -> None:
    assert search().test is None
    assert search(from_ms=0).test is not None


def test_a_search_stops_past_its_time_range_and_allows_for_clock_changes() -> None:
    found = search(from_ms=NOON_MS, to_ms=NOON_MS + 10)
    assert not found.is_before(record(NOON_MS - CLOCK_SLACK_MS))
    assert found.is_before(record(NOON_MS - CLOCK_SLACK_MS - 1))
    assert not found.is_after(record(NOON_MS + CLOCK_SLACK_MS))
    assert found.is_after(record(NOON_MS + CLOCK_SLACK_MS + 10))
    assert not search().is_before(record(0))
    assert not search().is_after(record(NOON_MS))


@pytest.mark.parametrize(("wanted", "who", "named"), [
    ("ann", "user:ann", True), ("ann", "agent:ann", True), ("user:ann", "user:ann", True), ("user:ann", "agent:ann",
    False),
    ("ann", "ann", True), ("ann", "user:anna", False), ("", "user:", True), ("b", "oidc:a:b", False),
])
def test_a_name_without_type_finds_people_and_agents(wanted: str, who: str, named: bool) -> None:
    assert is_named(wanted, who, "owner") is named


@pytest.mark.parametrize(("wanted", "who", "role", "named"), [
    ("user:ann", "ann", "operator+approver", True), ("user:ann", "anna", "owner", False),
    ("user:gateway", "gateway", "system", False), ("user:local", "local", "runner", False),
    ("user:unknown", "unknown", "none", False),
])
def test_only_the_person_is_found_in_records_of_earlier_versions(
    wanted: str, who: str, role: str, named: bool,
) -> None:
    assert is_named(wanted, who, role) is named
