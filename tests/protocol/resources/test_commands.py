"""A command's body (C-0, racp section 1): its fields, those set by the gateway, those that stay bytes (P-2)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.protocol.resources.commands import (
    COMMON_FIELDS,
    Command,
    CommandBody,
    ContentPart,
    ExecutePayload,
    NodeBuffer,
    Target,
)

BODY = {"type": "execute", "target": {"agent_id": "shell"}}
PAYLOAD = {"messages": [{"role": "user", "content": [{"contentType": "text", "value": "hi"}]}]}


def body(**fields: Any) -> CommandBody:
    return msgspec.json.decode(msgspec.json.encode({**BODY, **fields}), type=CommandBody)


@pytest.mark.req("C-0")
def test_a_minimal_body_has_the_default_priority_and_waits() -> None:
    short = body()
    assert (short.priority, short.on_busy, short.close_session, short.approval) == (0, "enqueue", False, None)
    assert short.payload is msgspec.UNSET
    assert all(getattr(short, name) is msgspec.UNSET for name in COMMON_FIELDS)


@pytest.mark.req("C-0")
def test_common_fields_are_kept_as_bytes_for_the_response_that_names_them() -> None:
    common = {"id": "cmd", "created_at": 7, "tenant_id": None, "actor": {"any": ["thing"]}}
    assert tuple(common) == COMMON_FIELDS
    sent = body(**common)
    assert {name: msgspec.json.decode(getattr(sent, name)) for name in COMMON_FIELDS} == common
    assert body(tenant_id="x").actor is msgspec.UNSET


@pytest.mark.req("P-2")
def test_a_payload_stays_the_bytes_of_its_digest() -> None:
    raw = b'{"type":"execute","target":{},"payload":{ "b":1.0,"a":"\\u00e9" }}'
    assert bytes(msgspec.json.decode(raw, type=CommandBody).payload) == b'{ "b":1.0,"a":"\\u00e9" }'


@pytest.mark.req("C-0")
@pytest.mark.parametrize("wrong", [
    {"type": "run"}, {"target": None}, {"target": {"agent": "x"}}, {"priority": 101}, {"priority": -101},
    {"priority": "high"}, {"timeout_ms": 0}, {"approval": {"required": -1}}, {"approval": {"quorum": 1}},
    {"on_busy": "wait"}, {"close_session": "yes"}, {"state": "queued"},
])
def test_a_malformed_body_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        body(**wrong)


@pytest.mark.parametrize("wrong", [
    {}, {"messages": [{"role": "assistant", "content": []}]}, {"messages": [{"role": "user"}]}, {"messages": "hi"},
    {**PAYLOAD, "mode": ""}, {**PAYLOAD, "mode": "x" * 201}, {**PAYLOAD, "model": ""}, {**PAYLOAD, "temperature": 1},
    {"messages": [{"role": "user", "content": [{"contentType": "html", "value": ""}]}]},
])
def test_a_malformed_payload_is_refused(wrong: dict[str, Any]) -> None:
    assert msgspec.convert(PAYLOAD, ExecutePayload).messages[0].content == [ContentPart(contentType="text", value="hi")]
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, ExecutePayload)


@pytest.mark.parametrize("data", [[256], [-1], ["a"], "abc"])
def test_nodes_buffer_is_a_list_of_bytes(data: Any) -> None:
    assert bytes(msgspec.convert({"type": "Buffer", "data": [0, 255]}, NodeBuffer).data) == b"\x00\xff"
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"type": "Buffer", "data": data}, NodeBuffer)


@pytest.mark.req("C-0")
def test_a_command_shows_its_priority_even_if_it_is_0() -> None:
    command = Command(id="c", created_at="t", updated_at="t", tenant_id="d", actor=msgspec.UNSET,  # type: ignore[arg-type]
                      type="execute", target=Target(agent_id="shell"), state="queued", timeout_ms=1)
    shown = msgspec.to_builtins(command)
    assert shown["priority"] == 0
    assert shown["target"] == {"agent_id": "shell"}
    assert "attempt" not in shown
