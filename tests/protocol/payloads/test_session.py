"""`session.` frames by their own tables (W-1, E-1): required fields, and the accepted values and figures."""

from __future__ import annotations

import pytest

from protocol.seed_frames import (
    COUNTS,
    FLAGS,
    NUMBERS,
    TEXT_LISTS,
    TEXTS,
    UUID,
    Seed,
    check_field,
    check_integral_float,
    check_sender,
    check_words,
    fields,
    words,
)

TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "thinking_tokens")
SEEDS: dict[str, Seed] = {
    "session.history": Seed("C", {
        "frames": [], "last_sync_timestamp": "2026-01-01T00:00:00.000Z", "last_message_id": "m1",
        "buffer_status": {"policy_applied": "RING", "truncated": True, "lost_frame_count": 2,
                          "buffer_high_watermark": 1000},
    }, {
        "frames": ["x", 1, {}, None], "last_sync_timestamp": TEXTS, "last_message_id": TEXTS,
        "buffer_status": ["x", 1, [], None], "buffer_status.policy_applied": words("RING"),
        "buffer_status.truncated": FLAGS, "buffer_status.lost_frame_count": COUNTS,
        "buffer_status.buffer_high_watermark": COUNTS,
    }, frozenset({"buffer_status.lost_frame_count", "buffer_status.buffer_high_watermark"})),
    "session.compacted": Seed("C", {
        "summary": "s", "previous_token_count": 9, "current_token_count": 3, "trigger": "auto",
        "preserved_elements": {"files_modified": ["a"], "decisions_made": ["b"], "errors_encountered": ["c"],
                               "active_todos": [{"d": 1}]},
    }, {
        "summary": TEXTS, "previous_token_count": COUNTS, "current_token_count": COUNTS, "trigger": words("auto"),
        "preserved_elements": ["x", 1, [], None], "preserved_elements.files_modified": TEXT_LISTS,
        "preserved_elements.decisions_made": TEXT_LISTS, "preserved_elements.errors_encountered": TEXT_LISTS,
        "preserved_elements.active_todos": ["x", 1, {}, ["x"], [1], [[]]],
    }, frozenset({"preserved_elements", *(
        f"preserved_elements.{name}"
        for name in ("files_modified", "decisions_made", "errors_encountered", "active_todos"))})),
    "session.usage": Seed("both", {
        "turn_id": UUID, "token_usage": dict.fromkeys(TOKENS, 1),
        "cost_usage": {"limit": -1, "used": 0.25, "unit": "USD"},
        "message_usage": {"limit": 10, "used": 1, "unit": "COUNT"},
        "context_window": {"capacity": 10, "used": 5, "utilization": 0.5},
        "time_to_reset": "2026-01-01T00:00:00.000Z",
    }, {
        "turn_id": [1, True, [], {}], "token_usage": ["x", 1, [], None], "cost_usage": ["x", 1, [], None],
        "message_usage": ["x", 1, [], None], "context_window": ["x", 1, [], None], "time_to_reset": TEXTS,
        **{f"token_usage.{name}": COUNTS for name in TOKENS},
        **{f"{name}.limit": [*NUMBERS, -2] for name in ("cost_usage", "message_usage")},
        **{f"{name}.used": [*NUMBERS, -1] for name in ("cost_usage", "message_usage")},
        "cost_usage.unit": TEXTS, "message_usage.unit": words("COUNT"),
        "context_window.capacity": COUNTS, "context_window.used": COUNTS,
        "context_window.utilization": [*NUMBERS, -0.1, 1.1],
    }, frozenset({"turn_id", *(f"token_usage.{name}" for name in TOKENS[2:]),
                  "context_window", *(f"context_window.{name}" for name in ("capacity", "used", "utilization"))})),
    "session.error": Seed("both", {"error_code": "X", "message": "m", "fatal": True},
                          {"error_code": TEXTS, "message": TEXTS, "fatal": FLAGS}),
    "session.turn.start": Seed("C", {"turn_id": UUID, "turn_index": 0, "mode": "plan"}, {
        "turn_id": [*TEXTS, "", "t1", UUID[:-1], UUID + "\n", UUID.replace("-", ""), UUID.replace("-41d5", "-11d5"),
                    UUID.replace("-bff0", "-cff0"), "{" + UUID + "}"],
        "turn_index": COUNTS, "mode": [1, True, [], {}],
    }, frozenset({"mode"})),
    "session.turn.end": Seed("C", {"turn_id": UUID, "stop_reason": "end_turn", "tool_invocation_count": 1},
                             {"turn_id": TEXTS, "stop_reason": words("end_turn"), "tool_invocation_count": COUNTS},
                             frozenset({"tool_invocation_count"})),
}
ENUMERATIONS = {
    ("session.history", "buffer_status.policy_applied"): ["RING", "DROP", "NONE"],
    ("session.compacted", "trigger"): ["auto", "manual", "requested"],
    ("session.turn.end", "stop_reason"): ["end_turn", "max_tokens", "cancelled", "error", "tool_use", "awaiting_input"],
}


@pytest.mark.req("W-1", "E-1")
@pytest.mark.parametrize("kind", SEEDS)
def test_each_frame_is_accepted_only_from_its_sender(kind: str) -> None:
    check_sender(kind, SEEDS[kind])


@pytest.mark.req("W-1", "E-1")
@pytest.mark.parametrize(("kind", "field"), fields(SEEDS))
def test_a_wrong_or_missing_field_is_refused_with_its_place(kind: str, field: str) -> None:
    check_field(kind, SEEDS[kind], field)


@pytest.mark.req("W-1")
@pytest.mark.parametrize(("kind", "field"), ENUMERATIONS)
def test_each_value_of_an_enumeration_is_accepted(kind: str, field: str) -> None:
    check_words(kind, SEEDS[kind], field, ENUMERATIONS[kind, field])


@pytest.mark.req("W-1")
@pytest.mark.parametrize(("kind", "field"), fields(SEEDS, COUNTS))
@pytest.mark.parametrize("written", ["2.0", "2e0", "0.2E1", "-0.0"])
def test_an_integral_float_is_an_integer(kind: str, field: str, written: str) -> None:
    check_integral_float(kind, SEEDS[kind], field, written)
