"""A rule of policy by itself (P-1): which rules are refused, and the first field that does not match a call."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.command.facts.request import RequestFacts
from interlock.command.policy.rule import (
    PolicySubject,
    PolicyVerdict,
    QuorumGroup,
    Rule,
    concerns,
    duration_ms,
    fits_box,
    fits_files,
    fits_type,
    listed,
    moment_ms,
)
from interlock.protocol.box import CLOSED

pytestmark = pytest.mark.req("P-1")
NOON = 1_800_000_000_000  # a Friday, 08:00 UTC
TOOL = PolicySubject("tool", "t1", "shell", "user", "asks", NOON, tool_name="bash", tool_kind="execute",
                     facts=RequestFacts(lines=("ls -l",)), session_id="s", digest="d", runner_id="r", workspace="/w",
                     person="user:ann")
EXECUTE = PolicySubject("command", "t1", "shell", "user", "asks", NOON, command_type="execute")


def rule(**fields: Any) -> Rule:
    return msgspec.convert({"name": "r", "effect": "ask", **fields}, Rule)


@pytest.mark.parametrize(("fields", "sentence"), [
    ({"name": ""}, "name: "), ({"type": "run"}, "type: there is no run"), ({"type": "cancel"}, "never held"),
    ({"required": 0}, "at least one vote"), ({"deny_threshold": 0}, "at least one vote"), ({"below": True}, "below: "),
    ({"effect": "allow", "door": "command", "below": True}, "below: "), ({"effect": "deny", "dangerous": True},
    "danger"),
    ({"shell": ["pipe"]}, "shell: "), ({"shell": ["loop"], "words": "ls"}, "shell"), ({"path": "x" * 1_001}, "path: "),
    ({"workspace_files": "*"}, "workspace_files: "), ({"door": "workspace", "path": "x"}, "door: "),
    ({"hours": "9-18"}, "hours: "), ({"hours": "09:00-25:00"}, "hours: "), ({"hours": "09:00-24:30"}, "hours: "),
    ({"hours": "08:00-12:00,13:00-17:00"}, "hours: "), ({"zone": "Mars/Base"}, "zone: "), ({"zone": "../etc"},
    "zone: "),
    ({"until": "tomorrow"}, "until: "), ({"ttl": "0s"}, "ttl: "), ({"ttl": "31d"}, "30 days"), ({"ttl": "1.5h"},
    "ttl: "),
    ({"effect": "maybe"}, "effect"), ({"paths": "x"}, "unknown field `paths`"), ({"self": "no"}, "self"),
])
def test_a_meaningless_field_is_refused_in_one_sentence_that_names_it(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=sentence):
        rule(**fields)


@pytest.mark.parametrize(("fields", "missed"), [
    ({}, None), ({"tenant": "t2"}, "tenant"), ({"door": "command"}, "door"), ({"session": "other"}, "session"),
    ({"permission": "never"}, "permission"), ({"type": "execute"}, "type"), ({"origin": ["cron", "hook"]}, "origin"),
    ({"agent": "claude*"}, "agent"), ({"runner": ["a", "b"]}, "runner"), ({"workspace": "/other"}, "workspace"),
    ({"person": "user:bob"}, "person"), ({"tool": "read*"}, "tool"), ({"kind": "edit"}, "kind"), ({"box": True}, "box"),
    ({"described": True}, "described"), ({"until": "2026-01-01T00:00:00Z"}, "until"), ({"cost_over": 0.0}, "cost_over"),
    ({"hours": "09:00-18:00"}, "hours"), ({"digest": "other"}, "digest"), ({"command": "rm.*"}, "command"),
    ({"tenant": "t2", "tool": "x"}, "tenant"), ({"hours": "08:00-09:00", "digest": "d", "person": "user:ann"}, None),
])
def test_the_first_mismatching_field_is_named(fields: dict[str, Any], missed: str | None) -> None:
    assert rule(**fields).missed(TOOL) == missed


def test_a_rule_about_an_input_does_not_match_a_command() -> None:
    assert rule(command="ls.*").missed(EXECUTE) == "command"
    assert rule().missed(EXECUTE) is None


@pytest.mark.parametrize(("hours", "zone", "holds"), [
    ("08:00-08:01", "UTC", True), ("07:59-08:00", "UTC", False), ("22:00-06:00", "UTC", False),
    ("22:00-08:01", "UTC", True), ("16:00-18:00", "Asia/Singapore", True), ("00:00-24:00", "UTC", True),
    ("08:00-08:00", "UTC", False),
])
def test_hours_include_their_first_minute_and_may_span_midnight(hours: str, zone: str, holds: bool) -> None:
    assert rule(hours=hours, zone=zone).fits_hours(NOON) is holds


@pytest.mark.parametrize(("cost", "holds"), [(0.0, False), (1.0, False), (1.01, True)])
def test_a_cost_is_over_a_bound_and_not_at_it(cost: float, holds: bool) -> None:
    assert rule(cost_over=1.0).fits_cost(cost) is holds
    assert rule().fits_cost(cost)


def test_a_verdict_has_all_fields_that_people_need() -> None:
    made = rule(required=2, ttl="15m", reason="two eyes", self=False, groups=[{"role": "approver", "min": 2}],
                deny_threshold=2, signed="passkey", require_independent=True, dangerous=True)
    assert made.verdict() == PolicyVerdict("ask", "r", 2, 900_000, "two eyes", False,
                                           (QuorumGroup(role="approver", min=2),), 2, "passkey", True, False, True)


@pytest.mark.req("H-13")
@pytest.mark.parametrize(("effect", "files", "holds"), [
    ("allow", ["a.json"], True), ("allow", ["a.json", "b.toml"], False), ("deny", ["a.json", "b.toml"], True),
    ("ask", ["b.toml"], False), ("allow", [], False), ("deny", [], False),
])
def test_an_allow_rule_must_match_every_file_and_other_rules_any(effect: str, files: list[str], holds: bool) -> None:
    assert fits_files(rule(effect=effect, door="workspace", workspace_files="*.json"), files) is holds
    assert fits_files(rule(effect=effect, door="workspace"), files)


@pytest.mark.req("H-18")
@pytest.mark.parametrize(("wanted", "found", "holds"), [
    (None, (), True), (True, tuple(CLOSED), True), (True, (), False), (False, (), True), (False, tuple(CLOSED), False),
    ([], tuple(CLOSED), False), (["writes"], ("writes", "network"), True), (["writes", "network"], ("writes",), False),
])
def test_a_box_must_have_the_properties_named_by_the_rule(wanted: Any, found: Any, holds: bool) -> None:
    assert fits_box(wanted, found) is holds


def test_a_rule_without_a_door_or_a_type_was_not_written_for_workspaces_nor_for_verbs() -> None:
    assert [concerns(rule(), door) for door in ("command", "tool", "workspace")] == [True, True, False]  # type: ignore[arg-type]
    assert concerns(rule(door="workspace"), "workspace")
    assert [fits_type(None, value) for value in (None, "execute", "cancel")] == [True, True, False]
    assert fits_type(["close", "pause"], "pause")
    assert not fits_type("close", None)


@pytest.mark.parametrize("text", ["", "5", "5x", "-5m", "5 m", "05m", "\u0665m", "1h30m"])
def test_an_invalid_duration_is_refused(text: str) -> None:
    assert [duration_ms(one) for one in ("90s", "15m", "24h", "2d")] == [90_000, 900_000, 86_400_000, 172_800_000]
    with pytest.raises(ValueError, match="write a duration"):
        duration_ms(text)


def test_values_are_read_as_tuples_and_an_invalid_time_as_none() -> None:
    assert [listed(None), listed("a"), listed(["a", "b"])] == [(), ("a",), ("a", "b")]
    assert (moment_ms("1970-01-01T00:00:01Z"), moment_ms("soon")) == (1_000, None)
