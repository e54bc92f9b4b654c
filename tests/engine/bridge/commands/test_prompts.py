"""Valid payloads of an execute (racp section 1): each form as the agent receives it, each error with its place."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

from engine.conversation import OWNER, Table, remember
from engine.messages import BYTES, DATA, KINDS, MEDIA_TYPES, binary, buffer, message, text, whole
from interlock.command.policy.policy import Rule, RuleSet
from interlock.engine.bridge.commands.prompts import first_line_of_entries
from interlock.protocol.limits import MAX_COMMAND_BINARY_BYTES, MAX_INLINE_BINARY_BYTES
from interlock.protocol.problems import Problem
from interlock.protocol.resources import CommandBody, Target
from interlock.session.transfers import content_of, restored

pytestmark = [pytest.mark.anyio, pytest.mark.req("C-0")]


async def execute(table: Table, payload: Any, **fields: Any) -> Any:
    raw = payload if isinstance(payload, bytes) else msgspec.json.encode(payload)
    body = CommandBody(type="execute", target=Target(agent_id="shell"), payload=msgspec.Raw(raw), **fields)
    return await table.engine.submit(OWNER, body, remember)


async def given(table: Table, *messages: dict[str, Any]) -> list[dict[str, Any]]:
    """The blocks that the agent receives for these messages, with their files put in again."""
    await execute(table, {"messages": list(messages)})
    transfers = [frame.payload for frame in table.wire.sent if frame.type == "agent.file.transfer"]
    blocks = content_of(table.wire.last("control.prompt.request").payload) or []
    return [restored(block, [one for one in transfers if one.transfer_id == block["transfer_id"]])
            if "transfer_id" in block else block for block in blocks]


# --- accepted payloads ---
async def test_text_of_all_messages_is_one_prompt() -> None:
    table = Table()
    await execute(table, {"messages": [message(text("one"), text("two")), message(text("three"))]})
    prompt = table.wire.last("control.prompt.request").payload
    assert (prompt.input_type, prompt.text) == ("text", "one\ntwo\nthree")


@pytest.mark.parametrize("kind", KINDS)
async def test_bytes_reach_the_agent_in_each_input_form(kind: str) -> None:
    for part, media_type in ((whole(kind), MEDIA_TYPES[kind]), (binary(kind), "application/octet-stream"),
                             (buffer(kind), "application/octet-stream")):
        words, block = await given(Table(), message(text("see"), part))
        assert words == {"type": "text", "text": "see"}
        assert (block["type"], block["media_type"]) == (kind, media_type)
        assert base64.b64decode(block["data"]) == BYTES


async def test_bytes_up_to_both_limits_are_accepted() -> None:
    most = b"x" * MAX_INLINE_BINARY_BYTES
    parts = [binary("file", most)] * (MAX_COMMAND_BINARY_BYTES // len(most))
    assert (await execute(Table(), {"messages": [message(*parts)]})).state == "queued"


# --- what is not ---
HUGE = b"x" * (MAX_INLINE_BINARY_BYTES + 1)
FULL = b"x" * MAX_INLINE_BINARY_BYTES
WRONG: dict[str, tuple[Any, str]] = {
    "no payload that can be read": (b'{"messages": [', "/payload"),
    "no messages at all": ({"tools": []}, "/payload"),
    "no message": ({"messages": []}, "/payload/messages"),
    "no content": ({"messages": [message(text("a")), message()]}, "/payload/messages/1/content"),
    "no word": ({"messages": [message(text(" ")), message(text("\n"))]}, "/payload/messages"),
    **{f"the role {role}": ({"messages": [message(text("a")), {**message(text("b")), "role": role}]},
                            "/payload/messages/1/role") for role in ("system", "assistant", "tool", "User")},
    "no role": ({"messages": [{"content": [text("a")]}]}, "/payload/messages/0"),
    "a field of nobody's": ({"messages": [message(text("a"), colour="red")]}, "/payload/messages/0"),
    "a kind of nobody's": ({"messages": [message({"contentType": "smell", "value": "a"})]},
                           "/payload/messages/0/content/0/contentType"),
    "text that is none": ({"messages": [message({"contentType": "text", "value": 1})]},
                          "/payload/messages/0/content/0/value"),
    "an image that is text": ({"messages": [message(text("a"), {"contentType": "image", "value": DATA})]},
                              "/payload/messages/0/content/1/value"),
    "another encoding": ({"messages": [message({"contentType": "image", "value": {"encoding": "hex", "data": "00"}})]},
                         "/payload/messages/0/content/0/value/encoding"),
    "no base64": ({"messages": [message({"contentType": "image", "value": {"encoding": "base64", "data": "é=="}})]},
                  "/payload/messages/0/content/0/value/data"),
    "base64 cut off": ({"messages": [message({"contentType": "file", "value": {"encoding": "base64", "data": "AAE"}})]},
                       "/payload/messages/0/content/0/value/data"),
    "another digest": ({"messages": [message(binary("file", sha256="0" * 64))]},
                       "/payload/messages/0/content/0/value/sha256"),
    "no Buffer": ({"messages": [message({"contentType": "file", "value": {"type": "Blob", "data": []}})]},
                  "/payload/messages/0/content/0/value/type"),
    "a Buffer with a number that is not a byte": (
        {"messages": [message({"contentType": "file", "value": {"type": "Buffer", "data": [1, 256]}})]},
        "/payload/messages/0/content/0/value/data/1"),
    "a part too large": ({"messages": [message(binary("file", HUGE))]}, "/payload/messages/0/content/0/value"),
    "a Buffer too large": ({"messages": [message(buffer("file", HUGE))]}, "/payload/messages/0/content/0/value"),
    "too much together": ({"messages": [message(*[binary("file", FULL)] * 8), message(binary("file", b"x"))]},
                          "/payload/messages"),
    "a tool that is not a name": ({"messages": [message(text("a"))], "tools": ["shell", 7]}, "/payload/tools/1"),
}


@pytest.mark.parametrize("fault", WRONG)
async def test_a_malformed_payload_is_refused_with_its_place_and_stores_nothing(fault: str) -> None:
    payload, pointer = WRONG[fault]
    table = Table()
    with pytest.raises(Problem) as refused:
        await execute(table, payload)
    assert refused.value.code == "InvalidPayload"
    assert [place.pointer for place in refused.value.errors] == [pointer]
    assert await table.actions() == []
    assert table.wire.sent == []


async def test_an_execute_without_a_payload_names_the_missing_field() -> None:
    with pytest.raises(Problem, match="/payload: an execute needs a payload") as refused:
        await Table().engine.submit(OWNER, CommandBody(type="execute", target=Target(agent_id="shell")), remember)
    assert [place.pointer for place in refused.value.errors] == ["/payload"]


# --- tools that a command names, and its time ---
@pytest.mark.req("P-1", "H-9")
@pytest.mark.parametrize(("rules", "answer"), [
    ([], "held"),
    ([Rule(name="anything", effect="allow", tool="shell")], "allow"),
    ([Rule(name="never", effect="deny", tool="shell")], "deny"),
    ([Rule(name="two", effect="ask", tool="shell", required=2)], "held"),
    ([Rule(name="mine", effect="ask", tool="shell")], "held"),
    ([Rule(name="another", effect="deny", tool="browser")], "held"),
])
async def test_a_tool_named_by_its_command_is_decided_like_any_other(rules: list[Rule], answer: str) -> None:
    table = Table(RuleSet(rules))
    command = await execute(table, {"messages": [message(text("a"))], "tools": ["shell"]})
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    await table.asked(session_id)
    if answer == "held":
        assert table.wire.types()[-1] == "x-interlock.interaction.held"
    else:
        assert table.wire.last("control.interaction.response").payload.decision == answer


@pytest.mark.req("P-1", "H-9")
async def test_a_tool_not_named_by_its_command_is_denied_despite_allow_rules() -> None:
    table = Table(RuleSet([Rule(name="anything", effect="allow", tool="shell")]))
    command = await execute(table, {"messages": [message(text("a"))], "tools": ["browser"]})
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    await table.asked(session_id)
    answer = table.wire.last("control.interaction.response").payload
    assert (answer.decision, answer.message) == ("deny", "The command names the tools that it may use.")


@pytest.mark.req("C-1")
async def test_a_command_without_a_timeout_gets_the_configs_and_sends_it_to_the_runner() -> None:
    table = Table(timeout_ms=1_234)
    for asked_ms, timeout_ms in ((None, 1_234), (99, 99)):
        command = await execute(table, {"messages": [message(text("a"))]}, timeout_ms=asked_ms)
        assert command.timeout_ms == timeout_ms
        assert table.wire.last("control.prompt.request").payload.timeout_ms == timeout_ms


@pytest.mark.req("Y-8", "X-2")
@pytest.mark.parametrize(("entries", "title"), [
    ([{"type": "message", "message": {"role": "user", "content": "list\n  the bananas"}}], "list"),
    ([{"type": "custom", "message": "?"}, {"type": "message", "message": {"role": "assistant", "content": "hello"}},
      {"type": "message", "message": {"role": "user", "content": [{"type": "image", "data": ""}]}},
      {"type": "message", "message": {"role": "user", "content": [{"type": "text", "text": " \n" + "x" * 90}]}}],
     "x" * 79 + "…"),
    ([{"type": "message", "message": {"role": "user", "content": None}}, {"type": "message"}], ""), ([], "")])
async def test_a_transcript_is_named_after_a_persons_first_text(entries: list[Any], title: str) -> None:
    assert first_line_of_entries(msgspec.json.encode(entry) for entry in entries) == title
