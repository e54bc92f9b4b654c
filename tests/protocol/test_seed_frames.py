"""Each frame of RAWP-DPS 7 and 17 by its own table: required fields, types, enumerations and bounds (W-1, E-1)."""

from __future__ import annotations

import copy
import json
from typing import Any, NamedTuple

import msgspec
import pytest

from interlock.protocol.frames import FRAMES, Class, Direction, InvalidFrame, decode
from interlock.protocol.integers import MAX_REWRITTEN

UUID = "7d444840-9dc0-41d5-bff0-12c3f7b6a5e1"
TEXTS = [1, True, None, [], {}]
NUMBERS = ["1", True, None, [], {}]
COUNTS = [*NUMBERS, -1, 1.5, 2**64 - 1, 1e300]
FLAGS = ["true", 1, 0, None, [], {}]
TEXT_LISTS = ["x", 1, {}, [1], [None], [["x"]]]


class Seed(NamedTuple):
    """A frame of the seeds: who sends it, a payload with every field, and by field what must be refused. Fields in
    `optional` may be absent; all others must be there."""

    sender: str
    payload: dict[str, Any]
    wrong: dict[str, list[Any]]
    optional: frozenset[str] = frozenset()


def words(*values: str) -> list[Any]:
    """What an enumeration refuses: other types, another case, another word."""
    return [*TEXTS, "", "x", values[0].swapcase(), values[0] + " "]


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
    "agent.error": Seed("C", {"severity": "fatal", "error_code": "SIGNAL_EXIT", "message": "m"},
                        {"severity": words("fatal"), "error_code": TEXTS, "message": TEXTS}),
    "agent.interaction.request": Seed("C", {
        "interaction_id": "i", "interaction_type": "PERMISSION", "title": "t", "context": {"tool_name": "shell"},
    }, {"interaction_id": TEXTS, "interaction_type": words("PERMISSION"), "context": ["x", 1, [], None],
        "context.tool_name": TEXTS}),
    "control.interaction.timeout": Seed("M", {"interaction_id": "i"}, {"interaction_id": TEXTS}),
    "control.mode.switch": Seed("M", {"mode": "plan"}, {"mode": TEXTS}),
}
ENUMERATIONS = {
    ("session.history", "buffer_status.policy_applied"): ["RING", "DROP", "NONE"],
    ("session.compacted", "trigger"): ["auto", "manual", "requested"],
    ("session.turn.end", "stop_reason"): ["end_turn", "max_tokens", "cancelled", "error", "tool_use", "awaiting_input"],
    ("agent.error", "severity"): ["fatal", "error", "warning"],
    ("agent.interaction.request", "interaction_type"): ["PERMISSION", "QUESTION"],
}


def framed(kind: str, payload: Any) -> bytes:
    numbered = {"seq": 1} if FRAMES[kind].frame_class is Class.DURABLE else {}
    return json.dumps({"type": kind, "payload": payload, "message_id": "m", "session_id": UUID, "timestamp": "",
                       **numbered}).encode()


def senders(kind: str) -> list[Direction]:
    sender = SEEDS[kind].sender
    return [Direction.C, Direction.M] if sender == "both" else [Direction[sender]]


def changed(kind: str, field: str, *value: Any) -> Any:
    """The payload with a field of another value, or, without a value, absent."""
    payload = copy.deepcopy(SEEDS[kind].payload)
    *path, last = field.split(".")
    inner = payload
    for name in path:
        inner = inner[name]
    if value:
        inner[last] = value[0]
    else:
        del inner[last]
    return payload


@pytest.mark.req("W-1")
@pytest.mark.parametrize("kind", SEEDS)
def test_each_is_accepted_from_its_sender_alone(kind: str) -> None:
    raw = framed(kind, SEEDS[kind].payload)
    for direction in (Direction.C, Direction.M):
        if direction in senders(kind):
            assert decode(raw, direction).type == kind
        else:
            with pytest.raises(InvalidFrame, match="direction"):
                decode(raw, direction)


@pytest.mark.req("W-1", "E-1")
@pytest.mark.parametrize(("kind", "field"), [(kind, field) for kind, seed in SEEDS.items() for field in seed.wrong])
def test_a_field_is_refused_by_its_place_if_it_is_wrong_or_missing(kind: str, field: str) -> None:
    for direction in senders(kind):
        for wrong in SEEDS[kind].wrong[field]:
            if wrong is None and field in SEEDS[kind].optional:
                continue
            with pytest.raises(InvalidFrame) as caught:
                decode(framed(kind, changed(kind, field, wrong)), direction)
            assert caught.value.path.startswith(f"$.payload.{field}"), wrong
        if field in SEEDS[kind].optional:
            decode(framed(kind, changed(kind, field)), direction)
            continue
        with pytest.raises(InvalidFrame, match="missing") as caught:
            decode(framed(kind, changed(kind, field)), direction)
        assert caught.value.path == f"$.payload.{field}"


@pytest.mark.req("W-1")
@pytest.mark.parametrize(("kind", "field"), ENUMERATIONS)
def test_each_word_of_an_enumeration_is_accepted(kind: str, field: str) -> None:
    for word in ENUMERATIONS[kind, field]:
        assert decode(framed(kind, changed(kind, field, word)), senders(kind)[0]).type == kind


@pytest.mark.req("W-1")
@pytest.mark.parametrize(("kind", "field"), [(kind, field) for kind, seed in SEEDS.items()
                                             for field, wrong in seed.wrong.items() if wrong is COUNTS])
@pytest.mark.parametrize("written", ["2.0", "2e0", "0.2E1", "-0.0"])
def test_an_integral_float_is_an_integer(kind: str, field: str, written: str) -> None:
    raw = framed(kind, changed(kind, field, "HERE")).replace(b'"HERE"', written.encode())
    found: Any = decode(raw, senders(kind)[0]).payload
    for name in field.split("."):
        found = getattr(found, name)
    assert (type(found), found) == (int, int(float(written)))


@pytest.mark.req("W-1", "E-3")
def test_an_integral_float_numbers_a_frame() -> None:
    raw = framed("session.error", SEEDS["session.error"].payload).replace(b'"seq": 1', b'"seq": 1.0')
    assert decode(raw, Direction.C).seq == 1


@pytest.mark.req("P-2", "W-1")
def test_a_rewritten_integer_leaves_the_bytes_of_a_tools_input_alone() -> None:
    given = b'{ "count" : 1.0, "path": "\\u00e9" }'
    raw = (b'{"type":"agent.interaction.request","message_id":"m","session_id":"s","seq":3.0,"payload":{'
           b'"interaction_id":"i","interaction_type":"PERMISSION","title":"t","context":{"tool_name":"x",'
           b'"input":' + given + b"}}}")
    frame = decode(raw, Direction.C)
    assert frame.seq == 3
    assert bytes(frame.payload.context.input) == given


@pytest.mark.req("E-1")
def test_integers_written_as_floats_are_rewritten_up_to_a_limit() -> None:
    def welcome(count: int) -> bytes:
        session = {"session_id": "s", "last_durable_seq": 1.0}
        return msgspec.json.encode({"type": "x-interlock.welcome", "message_id": "m", "payload": {
            "version": "v", "link_id": "l", "gateway_id": "g", "limits": {}, "sessions": [session] * count}})

    assert len(decode(welcome(MAX_REWRITTEN), Direction.M).payload.sessions) == MAX_REWRITTEN
    with pytest.raises(InvalidFrame, match=r"got `float`"):
        decode(welcome(MAX_REWRITTEN + 1), Direction.M)


@pytest.mark.req("E-1")
@pytest.mark.parametrize("kind", SEEDS)
def test_unknown_fields_are_no_fault(kind: str) -> None:
    decode(framed(kind, {**SEEDS[kind].payload, "x_new": [1.0]}), senders(kind)[0])
