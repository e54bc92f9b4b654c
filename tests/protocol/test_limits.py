"""The numbers of the specification: a change of one changes the protocol."""

from __future__ import annotations

import msgspec
import pytest

from interlock.command.policy.policy import Rule
from interlock.command.signature import CLOCK_MS
from interlock.config.sections import LimitsSection
from interlock.engine.bridge.lane_state import Limits
from interlock.gateway.rest.request.json_body import typed
from interlock.protocol import limits
from interlock.protocol.problems import Problem
from interlock.protocol.resources import Approval, CommandBody, Target

SECOND_MS, MINUTE_MS, HOUR_MS = 1_000, 60_000, 3_600_000
DAY_MS = 24 * HOUR_MS

PUBLISHED = [
    ("C-0", "TIMEOUT_DEFAULT_MS", HOUR_MS),
    ("C-0", "MAX_INLINE_BINARY_BYTES", 512 * 1024),
    ("C-0", "MAX_COMMAND_BINARY_BYTES", 4 * 1024 * 1024),
    ("C-0", "CANCEL_FORCE_MS", 30 * SECOND_MS),
    ("C-1", "APPROVAL_TTL_MS", DAY_MS),
    ("C-1", "APPROVAL_TTL_MAX_MS", 30 * DAY_MS),
    ("C-7", "DETACH_TTL_MS", DAY_MS),
    ("M-1", "IDEMPOTENCY_KEY_MIN", 8),
    ("M-1", "IDEMPOTENCY_KEY_MAX", 255),
    ("M-2", "IDEMPOTENCY_TTL_MS", DAY_MS),
    ("S-1", "PAGE_MAX", 500),
    ("S-1", "WAIT_MAX_S", 30),
    ("S-2", "HEARTBEAT_INTERVAL_MS", 15 * SECOND_MS),
    ("S-4", "VIEWER_OUTBOX_BYTES", 1024 * 1024),
    ("S-5", "PROGRESS_INTERVAL_MS", SECOND_MS),
]


@pytest.mark.req("C-0", "C-1", "C-7", "M-1", "M-2", "S-1", "S-2", "S-4", "S-5")
@pytest.mark.parametrize(("clause", "name", "value"), PUBLISHED)
def test_a_limit_is_the_published_one(clause: str, name: str, value: int) -> None:
    assert getattr(limits, name) == value, f"{clause} gives {name}"


@pytest.mark.req("C-1", "P-4")
def test_without_configuration_the_published_timeouts_apply() -> None:
    section, lane = LimitsSection(), Limits()
    for name, value in (("timeout_ms", HOUR_MS), ("approval_ttl_ms", DAY_MS), ("detach_ttl_ms", DAY_MS)):
        assert (getattr(section, name), getattr(lane, name)) == (value, value)
    assert CLOCK_MS == 5 * MINUTE_MS


@pytest.mark.req("C-1", "P-1")
def test_no_approval_lives_longer_than_30_days() -> None:
    assert Rule(name="r", effect="ask", ttl="30d").verdict().ttl_ms == 30 * DAY_MS
    with pytest.raises(ValueError, match="30 days"):
        Rule(name="r", effect="ask", ttl="31d")
    with pytest.raises(ValueError, match="30 days"):
        LimitsSection(approval_ttl_ms=30 * DAY_MS + 1)


@pytest.mark.req("P-1", "C-0")
def test_an_unset_limit_has_the_published_default() -> None:
    rule = Rule(name="r", effect="ask").verdict()
    assert (rule.required, rule.deny_threshold, rule.groups, rule.self_approval) == (1, 1, (), True)
    body = CommandBody(type="execute", target=Target())
    assert (body.priority, body.on_busy, body.timeout_ms) == (0, "enqueue", None)
    fields = dict(zip(Approval.__struct_fields__[-len(Approval.__struct_defaults__):], Approval.__struct_defaults__,
                      strict=True))
    assert (fields["required"], fields["deny_threshold"]) == (1, 1)


@pytest.mark.req("C-0")
@pytest.mark.parametrize(("priority", "taken"), [(-101, False), (-100, True), (100, True), (101, False)])
def test_a_priority_is_between_minus_100_and_100(priority: int, taken: bool) -> None:
    raw = msgspec.json.encode({"type": "execute", "target": {}, "priority": priority})
    decoder = msgspec.json.Decoder(CommandBody, strict=True)
    if taken:
        assert typed(decoder, raw).priority == priority
        return
    with pytest.raises(Problem, match="/priority"):
        typed(decoder, raw)
