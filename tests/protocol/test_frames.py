"""The frame table against the published one: every frame is typed once, checked in both directions (W-1)."""

from __future__ import annotations

import contextlib
import json
import types
import typing
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.protocol.codes import Code
from interlock.protocol.envelope import Frame
from interlock.protocol.frames import (
    FRAMES,
    Class,
    Direction,
    InvalidFrame,
    decode,
    decode_wire,
    encode,
    frame_class,
    join,
    split,
)
from interlock.protocol.limits import MAX_FRAME_BYTES, MAX_FRAME_DEPTH, MAX_ID_CHARS, MAX_MESSAGE_BYTES
from interlock.protocol.payloads.base import TurnId

PUBLISHED = """
agent.text.delta                C    transient  turn_id block_id offset text
agent.text.done                 C    durable    turn_id block_id text
agent.thinking.delta            C    transient  turn_id block_id offset text
agent.thinking.done             C    durable    turn_id block_id text
agent.interaction.request       C    durable    interaction_id interaction_type title context
agent.error                     C    durable    severity error_code message
agent.file.transfer             both durable    transfer_id name media_type size sha256 purpose content
agent.state.changed             C    durable    state previous
tool.invoke.request             C    durable    invocation_id turn_id tool_name input
tool.invoke.stream              C    transient  invocation_id channel offset text
tool.invoke.result              C    durable    invocation_id status output_type output duration_ms
control.prompt.request          M    durable    prompt_id input_type origin
control.interaction.response    M    durable    interaction_id decision by
control.interaction.timeout     M    durable    interaction_id
control.session.compact         M    durable    request_id
control.mode.switch             M    durable    mode
control.session.open            M    durable    session_id agent_id workspace workspace_access
control.session.close           M    durable    reason
control.session.release         M    durable    to
control.turn.cancel             M    durable    reason
control.turn.pause              M    durable
control.turn.resume             M    durable
session.capabilities            both durable    dps_version features
session.history                 C    link       frames buffer_status last_sync_timestamp last_message_id
session.compacted               C    durable  \
  summary previous_token_count current_token_count trigger
session.usage                   both durable    token_usage cost_usage message_usage time_to_reset
session.error                   both durable    error_code message fatal
session.turn.start              C    durable    turn_id turn_index
session.turn.end                C    durable    turn_id stop_reason
session.closed                  C    durable    reason
x-interlock.hello               C    link       versions runner_id boot_id agents sessions
x-interlock.welcome             M    link       version link_id gateway_id limits sessions
x-interlock.ack                 both link       session_id seq
x-interlock.heartbeat           C    link       agents
x-interlock.control.refused     C    link       message_id error_code message
x-interlock.control.changed     C    durable    gateway_id
x-interlock.asking.changed      C    durable    asks message
x-interlock.changes.discard      M    durable
x-interlock.changes.report       C    durable    event digest count
x-interlock.workspace.look      M    link       request_id session_id
x-interlock.workspace.changes   C    link       request_id session_id
x-interlock.plan.changed        C    durable    turn_id steps
x-interlock.settings.changed    C    durable
x-interlock.progress            C    durable    turn_id percent
x-interlock.interaction.held    M    durable    interaction_id approval_id expires_in_ms
x-interlock.interaction.resolved C   durable    interaction_id outcome decided_at
"""
"""rawp section 4: name, direction, class, required fields. A list that may be empty may be absent, so `options` of an
interaction and `features` of hello are not among the required."""

ROWS = [(name, direction, kind, tuple(fields))
        for name, direction, kind, *fields in (line.split() for line in PUBLISHED.strip().splitlines())]
NAMES = [row[0] for row in ROWS]


def sample(kind: Any) -> Any:
    """The smallest value of a type: of a struct its required fields only."""
    if kind == TurnId:
        return "7d444840-9dc0-41d5-bff0-12c3f7b6a5e1"
    if hasattr(kind, "__metadata__"):
        return sample(kind.__origin__)
    if typing.is_typeddict(kind):
        return {}
    origin = typing.get_origin(kind)
    if origin is Literal:
        return typing.get_args(kind)[0]
    if origin in (typing.Union, types.UnionType):
        return sample(typing.get_args(kind)[0])
    if origin in (list, dict):
        return origin()
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return {field.encode_name: sample(field.type) for field in msgspec.structs.fields(kind) if field.required}
    return {str: "text", int: 1, float: 0.5, bool: True, Any: "anything", msgspec.Raw: {"command": "ls"}}[kind]


def envelope(name: str, payload: Any, **changes: Any) -> bytes:
    """A frame of this type as it is on the wire; a change to None leaves that field out."""
    kind = frame_class(name)
    fields: dict[str, Any] = {"type": name, "payload": payload, "message_id": "m1", "session_id": "s1",
                              "seq": 1 if kind is Class.DURABLE else None, "timestamp": "2026-11-21T10:00:00.000Z"}
    return json.dumps({key: value for key, value in {**fields, **changes}.items() if value is not None}).encode()


def sender_of(name: str) -> Direction:
    """A sender of it."""
    return Direction.M if FRAMES[name].direction is Direction.M else Direction.C


def refusal(raw: bytes, sender: Direction) -> InvalidFrame:
    """The frame is refused, and this is why."""
    with pytest.raises(InvalidFrame) as caught:
        decode(raw, sender)
    return caught.value


@pytest.mark.req("W-1", "E-4")
def test_the_table_is_the_published_one() -> None:
    table = [(row.name, row.direction.value, row.frame_class.value) for row in FRAMES.values()]
    assert table == [row[:3] for row in ROWS]
    for name, _, _, required in ROWS:
        fields = msgspec.structs.fields(FRAMES[name].payload)
        assert tuple(field.encode_name for field in fields if field.required) == required, name


@pytest.mark.req("W-1")
@pytest.mark.parametrize("name", NAMES)
def test_every_frame_is_read_and_written_in_its_direction_only(name: str) -> None:
    row = FRAMES[name]
    raw = envelope(name, sample(row.payload))
    for sender in (Direction.C, Direction.M):
        if row.direction not in (sender, Direction.BOTH):
            assert refusal(raw, sender).path == "$.type"
            continue
        frame = decode(raw, sender)
        assert isinstance(frame.payload, row.payload)
        assert decode(encode(frame), sender) == frame


@pytest.mark.req("W-1", "E-1")
@pytest.mark.parametrize(("name", "field"), [(row[0], field) for row in ROWS for field in row[3]])
def test_a_missing_field_is_named_by_its_path(name: str, field: str) -> None:
    payload = sample(FRAMES[name].payload)
    del payload[field]
    error = refusal(envelope(name, payload), sender_of(name))
    assert (error.code, error.path, error.sentence) == (Code.INVALID_FRAME, f"$.payload.{field}", "is missing")
    assert error.wire is not None
    assert error.wire.session_id == "s1"


@pytest.mark.req("W-1", "E-1")
@pytest.mark.parametrize(("name", "field"), [(row[0], field) for row in ROWS for field in row[3]])
def test_a_field_of_another_type_is_named_by_its_path(name: str, field: str) -> None:
    kind = next(f.type for f in msgspec.structs.fields(FRAMES[name].payload) if f.encode_name == field)
    if kind in (Any, msgspec.Raw):
        return  # Whatever the agent gives is kept as it is.
    payload = {**sample(FRAMES[name].payload), field: 7 if isinstance(sample(kind), str | bool | dict | list) else "7"}
    assert refusal(envelope(name, payload), sender_of(name)).path == f"$.payload.{field}"


@pytest.mark.req("E-1")
@pytest.mark.parametrize(
    ("name", "payload", "path"),
    [
        ("session.turn.end", {"turn_id": "t", "stop_reason": "bored"}, "$.payload.stop_reason"),
        ("agent.error", {"severity": "awful", "error_code": "X", "message": ""}, "$.payload.severity"),
        ("tool.invoke.stream", {"invocation_id": "i", "channel": "tv", "offset": 0, "text": ""}, "$.payload.channel"),
        ("agent.interaction.request",
         {"interaction_id": "i", "interaction_type": "PERMISSION", "title": "", "context": {}},
         "$.payload.context.tool_name"),
        ("agent.interaction.request",
         {"interaction_id": "i", "interaction_type": "PERMISSION", "title": "", "context": {"tool_name": "t"},
          "options": [{"option_id": "a", "label": "b", "kind": "perhaps"}]}, "$.payload.options[0].kind"),
    ],
)
def test_a_bad_value_is_named_by_its_path_at_any_depth(name: str, payload: Any, path: str) -> None:
    assert refusal(envelope(name, payload), Direction.C).path == path


@pytest.mark.req("E-1", "W-1")
@pytest.mark.parametrize(
    ("name", "changes", "path"),
    [
        ("agent.text.done", {"message_id": None}, "$.message_id"),
        ("agent.text.done", {"session_id": None}, "$.session_id"),
        ("agent.text.done", {"seq": None}, "$.seq"),
        ("agent.text.done", {"seq": 0}, "$.seq"),
        ("agent.text.done", {"seq": "1"}, "$.seq"),
        ("agent.text.done", {"metadata": []}, "$.metadata"),
        ("agent.text.delta", {"seq": 1}, "$.seq"),
        ("agent.text.delta", {"session_id": None}, "$.session_id"),
        ("session.history", {"seq": 1}, "$.seq"),
        ("session.history", {"session_id": None}, "$.session_id"),
        ("x-interlock.heartbeat", {"seq": 1}, "$.seq"),
        ("x-interlock.interaction.resolved", {"session_id": None}, "$.session_id"),
    ],
)
def test_the_envelope_obeys_the_class_of_its_frame(name: str, changes: dict[str, Any], path: str) -> None:
    payload = sample(FRAMES[name].payload)
    assert refusal(envelope(name, payload, **changes), Direction.C).path == path


@pytest.mark.req("E-1")
def test_link_frames_need_no_session() -> None:
    payload = sample(FRAMES["x-interlock.heartbeat"].payload)
    assert decode(envelope("x-interlock.heartbeat", payload, session_id=None), Direction.C).session_id is None


@pytest.mark.req("E-1", "E-2")
@pytest.mark.parametrize("name", ["agent.text.sung", "x-acme.weather", "x-interlock.tomorrow", "moon.phase"])
@pytest.mark.parametrize("sender", [Direction.C, Direction.M])
def test_an_unknown_type_is_kept_unchanged(name: str, sender: Direction) -> None:
    frame = decode(envelope(name, {"deep": [1, {"er": None}]}, metadata={"a": 1}), sender)
    assert frame.type == name
    assert isinstance(frame.payload, msgspec.Raw)
    assert msgspec.json.decode(frame.payload) == {"deep": [1, {"er": None}]}
    assert decode(encode(frame), sender) == frame
    assert frame_class(name) is Class.DURABLE


@pytest.mark.req("E-1")
def test_unknown_fields_are_ignored() -> None:
    raw = envelope("agent.text.done", {"turn_id": "t", "block_id": "b", "text": "x", "colour": "red"}, version=2)
    assert decode(raw, Direction.C).payload.text == "x"


@pytest.mark.req("E-1")
@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (b"", "$"), (b"{", "$"), (b"null", "$"), (b"[]", "$"), (b"\xff", "$"), (b'"text"', "$"),
        (b"{}", "$.type"), (b'{"type":"agent.text.done"}', "$.payload"), (b"[" * 100_000, "$"),
        (b'{"type":"agent.text.done","payload":' + b"[" * 100_000, "$"), (b'{"type":"\\ud800","payload":{}}', "$"),
    ],
)
def test_a_malformed_envelope_is_refused_in_one_sentence(raw: bytes, path: str) -> None:
    error = refusal(raw, Direction.C)
    assert error.path.startswith(path)
    assert error.wire is None
    assert "\n" not in str(error)


@pytest.mark.req("E-1")
@pytest.mark.parametrize(
    "broken", [{"payload": None}, {"type": 7}, {"metadata": 7}, {"timestamp": []}, {"message_id": {}}]
)
def test_of_a_broken_envelope_session_and_number_are_saved_for_the_refusal(broken: dict[str, Any]) -> None:
    with pytest.raises(InvalidFrame) as caught:
        decode_wire(envelope("agent.text.done", **{"payload": {}, "seq": 9, **broken}))
    assert caught.value.path == "$." + next(iter(broken))
    assert caught.value.wire is not None
    assert (caught.value.wire.session_id, caught.value.wire.seq) == ("s1", 9)


@pytest.mark.req("E-1", "L-2")
def test_ids_have_a_maximum_length() -> None:
    longest = "i" * MAX_ID_CHARS
    asked = {"invocation_id": longest, "turn_id": "t", "tool_name": "sh", "input": {}}
    assert decode(envelope("tool.invoke.request", asked, message_id=longest), Direction.C).message_id == longest
    error = refusal(envelope("tool.invoke.request", {**asked, "invocation_id": longest + "i"}), Direction.C)
    assert error.path == "$.payload.invocation_id"
    error = refusal(envelope("tool.invoke.request", asked, message_id=longest + "i"), Direction.C)
    assert error.path == "$.message_id"
    assert error.wire is not None
    assert (error.wire.message_id, error.wire.seq) == ("", 1)  # It is refused by its number.
    error = refusal(envelope("tool.invoke.request", asked, session_id=longest + "i"), Direction.C)
    assert (error.path, error.wire) == ("$.session_id", None)


@pytest.mark.req("E-1")
@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_only_refused(raw: bytes) -> None:
    with contextlib.suppress(InvalidFrame):
        decode(raw, Direction.C)


@pytest.mark.req("L-2")
def test_a_frame_at_the_limit_is_encoded_and_one_byte_more_is_not() -> None:
    row = FRAMES["agent.text.done"]

    def frame(chars: int) -> Frame:
        return Frame(type=row.name, message_id="m", session_id="s", seq=1, timestamp="",
                     payload=row.payload(turn_id="t", block_id="b", text="x" * chars))  # type: ignore[call-arg]

    room = MAX_FRAME_BYTES - len(encode(frame(0)))
    assert len(encode(frame(room))) == MAX_FRAME_BYTES
    with pytest.raises(InvalidFrame) as caught:
        encode(frame(room + 1))
    assert caught.value.code is Code.FRAME_TOO_LARGE


@pytest.mark.req("E-5", "L-2")
def test_a_history_may_fill_a_message_alone() -> None:
    payload = sample(FRAMES["session.history"].payload) | {"frames": [{"pad": "x" * MAX_FRAME_BYTES}]}
    history = decode(envelope("session.history", payload), Direction.C)
    assert len(encode(history)) > MAX_FRAME_BYTES


@pytest.mark.req("E-1", "W-2")
def test_a_wrong_field_before_a_json_error_is_refused_without_a_failure() -> None:
    with pytest.raises(InvalidFrame) as caught:
        decode_wire(b'{"type":"a","session_id":"s","seq":1,"timestamp":{},"payload":{"x":"\\ud800"}}')
    assert caught.value.wire is None


UNREAD = [
    ("tool.invoke.request", {"invocation_id": "i", "turn_id": sample(TurnId), "tool_name": "sh"}, "input"),
    ("agent.interaction.request", {"interaction_id": "i", "interaction_type": "PERMISSION", "title": "t"}, "context"),
    ("x-vendor.odd", {}, "any"),
]
"""Payloads with a member that is passed on as it came."""


@pytest.mark.req("E-1", "L-2")
@pytest.mark.parametrize(("name", "payload", "member"), UNREAD)
@pytest.mark.parametrize("value", [
    b'"\xff"', b"1e400", b"9" * 5_000, b"[" * 200 + b"]" * 200, b'{"a":' * 200 + b"1" + b"}" * 200])
def test_an_unreadable_relayed_frame_is_refused_by_its_number(
    name: str, payload: Any, member: str, value: bytes
) -> None:
    unread = {"tool_name": "sh", "input": "@"} if member == "context" else "@"
    raw = envelope(name, {**payload, member: unread}).replace(b'"@"', value)
    refused = refusal(raw, Direction.C)
    assert refused.wire is not None
    assert (refused.wire.session_id, refused.wire.seq) == ("s1", 1)


@pytest.mark.req("L-2")
@pytest.mark.parametrize("value", [b'"\xff"', b"[" * MAX_FRAME_DEPTH + b"]" * MAX_FRAME_DEPTH])
def test_a_frame_that_its_receiver_would_refuse_is_not_encoded(value: bytes) -> None:
    with pytest.raises(InvalidFrame):
        encode(Frame(type="x-vendor.odd", payload=msgspec.Raw(value), message_id="m1", timestamp="",
                     session_id="s1", seq=1))


@pytest.mark.req("L-2", "D-2")
def test_a_history_carries_frames_of_the_maximum_depth() -> None:
    deep = msgspec.Raw(b"[" * 127 + b"]" * 127)
    frame = encode(Frame(type="x-vendor.odd", payload=deep, message_id="m1", timestamp="", session_id="s1", seq=1))
    payload = sample(FRAMES["session.history"].payload)
    raw = envelope("session.history", {**payload, "frames": ["@"]}).replace(b'"@"', frame)
    (nested,) = decode(raw, Direction.C).payload.frames
    assert decode(bytes(nested), Direction.C).type == "x-vendor.odd"


# --- several frames in one message ---
RAW_FRAMES = st.lists(st.binary(min_size=1, max_size=40).map(lambda raw: raw.replace(b"\n", b" ")), max_size=40)


@pytest.mark.req("L-2")
@given(frames=RAW_FRAMES, limit=st.integers(1, 100))
def test_joined_frames_are_split_again_and_messages_stay_within_the_limit(
    frames: list[bytes], limit: int
) -> None:
    messages = list(join(frames, limit))
    assert [frame for message in messages for frame in split(message)] == frames
    assert all(len(message) <= limit or len(split(message)) == 1 for message in messages)


@pytest.mark.req("L-2")
def test_a_message_is_as_full_as_it_can_be() -> None:
    half = b"x" * (MAX_MESSAGE_BYTES // 2)
    assert [len(message) for message in join([half[1:], half, half])] == [MAX_MESSAGE_BYTES, len(half)]
    assert list(join([])) == []


@pytest.mark.req("L-2")
def test_a_line_end_after_the_last_frame_is_not_a_frame() -> None:
    assert split(b"{}\n") == [b"{}"]
    assert split(b"{}\n\n{}") == [b"{}", b"", b"{}"]
