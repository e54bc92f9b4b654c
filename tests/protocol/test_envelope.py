"""The envelope of a frame (E-1): decoded with its payload left as bytes, encoded without what is absent."""

import msgspec
import pytest

from interlock.protocol.envelope import Frame, Wire


@pytest.mark.req("E-1")
def test_a_payload_stays_its_received_bytes() -> None:
    payload = b'{ "b" : 1.0, "a":"\\u00e9", "b": 2 }'
    wire = msgspec.json.decode(b'{"type":"x-new","payload":' + payload + b',"unknown":[1]}', type=Wire)
    assert bytes(wire.payload) == payload
    assert (wire.message_id, wire.session_id, wire.seq, wire.timestamp, wire.metadata) == ("", None, None, "", {})


@pytest.mark.parametrize("raw", [b"{}", b"[]", b'{"type":1,"payload":{}}', b'{"type":"a"}',
                                 b'{"type":"a","payload":{},"metadata":[]}', b'{"type":"a","payload":{},"seq":"1"}'])
def test_a_malformed_envelope_is_refused(raw: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(raw, type=Wire)


def test_a_live_frame_carries_no_number_and_no_empty_metadata() -> None:
    live = Frame(type="agent.text.delta", payload={}, message_id="m", session_id="s", timestamp="t")
    assert msgspec.json.decode(msgspec.json.encode(live)) == {
        "type": "agent.text.delta", "payload": {}, "message_id": "m", "session_id": "s", "timestamp": "t"}


def test_two_frames_share_no_metadata() -> None:
    one, other = (Frame(type="x", payload={}, message_id="m", timestamp="t") for _ in range(2))
    one.metadata["trace"] = "1"
    assert other.metadata == {}
