"""The shapes of ACP that are read (A-7): tolerant of what an agent adds or leaves out, strict of what is needed."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from interlock.agents.acp import wire
from interlock.ports.agent import McpServer

pytestmark = pytest.mark.req("A-7")


@pytest.mark.parametrize(("decoder", "value"), [
    (wire.INITIALIZED, {"protocolVersion": 1, "agentCapabilities": {"promptCapabilities": {"image": True}, "x": [1]}}),
    (wire.NEW_SESSION, {"sessionId": "s", "modes": None}), (wire.LOADED_SESSION, None), (wire.PROMPTED, {}),
    (wire.TOOL_CALL, {"toolCallId": "c", "rawInput": [1], "_meta": {"a": 1}, "status": "odd"}), (wire.PLAN, {}),
    (wire.USAGE_UPDATE, {"cost": {"amount": 1, "currency": "EUR"}}), (wire.CANCEL_REQUEST, {"requestId": 1.5}),
    (wire.ELICITATION, {"mode": "url"}), (wire.PERMISSION, {"sessionId": "s", "toolCall": {"toolCallId": "c"},
    "options": []}),
])
def test_a_missing_or_new_optional_field_is_accepted(decoder: msgspec.json.Decoder[Any], value: Any) -> None:
    decoder.decode(json.dumps(value))


@pytest.mark.parametrize(("decoder", "value"), [
    (wire.INITIALIZED, {}), (wire.NEW_SESSION, {}), (wire.UPDATE, {"sessionId": "s"}), (wire.TOOL_CALL, {}),
    (wire.PERMISSION, {"sessionId": "s", "toolCall": {}}), (wire.CURRENT_MODE, {"currentModeId": None}),
    (wire.CHUNK, {"content": "text"}), (wire.CANCEL_REQUEST, {"requestId": None}), (wire.KIND, {}),
])
def test_a_missing_required_field_is_rejected(decoder: msgspec.json.Decoder[Any], value: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        decoder.decode(json.dumps(value))


@pytest.mark.req("H-1")
def test_an_input_and_its_content_keep_the_bytes_that_were_sent() -> None:
    raw = b'{"toolCall":{"rawInput":{ "b":1.0, "a":"\\u00e9" },"content":[ {"x":1} ]}}'
    asked = wire.ASKED_PERMISSION.decode(raw).tool_call
    assert (bytes(asked.raw_input), bytes(asked.content)) == (b'{ "b":1.0, "a":"\\u00e9" }', b'[ {"x":1} ]')


@pytest.mark.req("H-1")
@pytest.mark.parametrize("number", ["1e400", "9" * 5_000])
def test_an_input_with_an_oversized_number_is_refused(number: str) -> None:
    wire.tool_call(msgspec.Raw(b'{"toolCallId":"c","rawInput":{"n":1}}'))
    with pytest.raises(msgspec.DecodeError):
        wire.tool_call(msgspec.Raw(b'{"toolCallId":"c","rawInput":{"n":%s}}' % number.encode()))


@pytest.mark.parametrize(("answer", "ids"), [
    (b'{"configOptions":[{"id":"mode"},{"id":"model"}]}', ["mode", "model"]), (b"{}", []), (b"null", []), (b"", []),
    (b'{"configOptions":[{}]}', []), (b"[]", []),
])
def test_an_answer_to_a_setting_has_all_options_or_is_none(answer: bytes, ids: list[str]) -> None:
    assert [one.id for one in wire.options_in(answer)] == ids


@pytest.mark.parametrize(("content", "text"), [
    (None, ""), ([], ""), ([{"type": "content", "content": {"text": "a"}}, {"type": "content",
    "content": {"text": "b"}}], "a\nb"),
    ([{"type": "diff", "content": {"text": "a"}}, {"type": "content", "content": "a"}, {"type": "content"},
      {"type": "content", "content": {"text": 7}}], ""),
])
def test_the_text_of_a_calls_content_is_read(content: Any, text: str) -> None:
    assert wire.text_of(content) == text


@pytest.mark.req("Y-13")
def test_servers_are_written_in_acp_form() -> None:
    assert wire.mcp_servers([McpServer(name="web", url="https://x", headers={"A": "1"}),
                             McpServer(name="files", command="srv", args=["-x"], env={"K": "v"})]) == [
        {"type": "http", "name": "web", "url": "https://x", "headers": [{"name": "A", "value": "1"}]},
        {"name": "files", "command": "srv", "args": ["-x"], "env": [{"name": "K", "value": "v"}]}]
