"""Integers that JSON writes as floats: read as integers at exactly that place, and all other bytes stay (P-2)."""

from __future__ import annotations

import msgspec
import pytest

from interlock.protocol.frames import Direction, InvalidFrame, decode
from interlock.protocol.integers import LARGEST_EXACT, MAX_REWRITTEN, decode_whole, whole
from protocol.seed_frames import framed


@pytest.mark.parametrize(("value", "integer"), [
    (0, 0), (-7, -7), (1.0, 1), (-0.0, 0), (float(LARGEST_EXACT), LARGEST_EXACT), (2**63, 2**63),
    (1.5, None), (float(LARGEST_EXACT) * 2, None), (float("inf"), None), (float("nan"), None),
    (True, None), ("1", None), (None, None), ([], None),
])
def test_a_number_without_a_fraction_is_an_integer(value: object, integer: int | None) -> None:
    found = whole(value)
    assert (type(found), found) == (type(integer), integer)


class Inner(msgspec.Struct):
    count: int
    exact: msgspec.Raw = msgspec.Raw(b"null")


class Outer(msgspec.Struct):
    items: list[Inner] = []
    by_name: dict[str, int] = {}
    pair: tuple[int, float] = (0, 0.0)


def read(text: str) -> Outer:
    return decode_whole(msgspec.json.Decoder(Outer).decode, text.encode())


def test_each_place_of_a_list_and_of_a_mapping_is_found() -> None:
    found = read('{"items": [{"count": 1}, {"count": 2.0}], "by_name": {"a": 3e0, "b": 4, "c": 5.0}, "pair": [6.0, 7]}')
    assert [one.count for one in found.items] == [1, 2]
    assert found.by_name == {"a": 3, "b": 4, "c": 5}
    assert found.pair == (6, 7.0)


def test_bytes_beside_the_rewritten_number_are_unchanged() -> None:
    [item] = read('{"items": [{"count": 1.0, "exact": { "n" : 1.0, "e":"\\u00e9" }}]}').items
    assert bytes(item.exact) == b'{ "n" : 1.0, "e":"\\u00e9" }'


@pytest.mark.parametrize("text", [
    '{"items": [{"count": 1.5}]}', '{"by_name": {"a": 1.0, "b": 1e300}}', '{"items": [{"count": "1.0"}]}',
    '{"items": [{"count": null}]}', '{"pair": [1.0]}',
])
def test_a_value_that_is_not_an_integer_is_still_refused(text: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        read(text)


def test_truncated_json_raises_as_before() -> None:
    with pytest.raises(msgspec.DecodeError):
        read('{"items": [{"count": 1.0}')


@pytest.mark.req("W-1", "E-3")
def test_an_integral_float_numbers_a_frame() -> None:
    raw = framed("session.error", {"error_code": "X", "message": "m", "fatal": True})
    assert decode(raw.replace(b'"seq": 1', b'"seq": 1.0'), Direction.C).seq == 1


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
