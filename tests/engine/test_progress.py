"""Progress of a command: each change of stage is told once, and is durable (S-5)."""

from __future__ import annotations

import json

import msgspec
import pytest

from engine.conversation import Table
from interlock.protocol import payloads as p
from interlock.protocol.identifiers import command_stream
from interlock.protocol.resources import Target

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


@pytest.mark.req("S-5")
async def test_a_figure_of_the_agent_is_told_once_a_second_at_most_and_with_every_stage() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)

    async def at(ms: int, percent: float) -> None:
        table.clock.advance(ms)
        await table.say(session_id, "x-interlock.progress", p.Progress(turn_id="t1", percent=percent))

    async def text(block: str) -> None:
        await table.say(session_id, "agent.text.done", p.TextDone(turn_id="t1", block_id=block, text="hi"))

    await at(0, 10)  # No stage is known yet: the first one carries it.
    await text("b1")
    await at(999, 20)  # Within the second.
    await at(1, 30)
    await at(5_000, 30)  # Nothing has changed.
    await at(0, 40)
    await at(10, 500)
    await at(10, 50)
    await table.asked(session_id)  # A new stage, at once, with what is known.
    await table.ended(session_id, turn_id="t1")
    again = await table.execute(target=Target(session_id=session_id))
    await table.started(session_id, "t2")
    await table.say(session_id, "agent.text.done", p.TextDone(turn_id="t2", block_id="b9", text="hi"))

    async def told(command_id: str) -> list[tuple[str, float | None]]:
        events = [json.loads(event.body) for event in await table.ledger.events(command_stream(command_id), 0, 100)]
        return [(event["stage"], event.get("percent")) for event in events if event["event"] == "progress"]

    assert await told(command.id) == [("chat", 10), ("chat", 30), ("chat", 40), ("tool", 50)]
    assert await told(again.id) == [("chat", None)]  # Of the new turn nothing is known.
