"""Progress of a command: each change of stage is told once, and is durable (S-5)."""

from __future__ import annotations

import json

import msgspec
import pytest

from engine.conversation import Table
from interlock.protocol import payloads as p
from interlock.protocol.identifiers import command_stream

pytestmark = pytest.mark.anyio


@pytest.mark.req("S-5")
async def test_each_change_of_stage_is_told_once() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    for block in ("b1", "b2"):
        await table.say(session_id, "agent.text.done", p.TextDone(turn_id="t1", block_id=block, text="hi"))
    for invocation, kind in (("i1", "execute"), ("i2", "execute"), ("i3", "read"), ("i4", "search")):
        await table.say(session_id, "tool.invoke.request", p.ToolRequest(
            invocation_id=invocation, turn_id="t1", tool_name="x", input=msgspec.Raw(b"{}")), kind=kind)
        await table.result(session_id, invocation=invocation)
    await table.say(session_id, "agent.text.done", p.TextDone(turn_id="t1", block_id="b3", text="done"))
    await table.ended(session_id)
    events = [json.loads(event.body) for event in await table.ledger.events(command_stream(command.id), 0, 100)]
    assert [event["stage"] for event in events if event["event"] == "progress"] == ["chat", "tool", "retrieval", "chat"]
