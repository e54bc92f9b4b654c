"""Progress of a command: each change of stage is sent once, and is durable (S-5)."""

from __future__ import annotations

import json

import msgspec
import pytest

from engine.conversation import Table, turn_uuid
from engine.within import Within
from interlock.engine.bridge.commands.progress import take_transient
from interlock.engine.bridge.inputs.gateway import ClockTicked
from interlock.protocol import payloads as p
from interlock.protocol.envelope import Frame
from interlock.protocol.frames import encode
from interlock.protocol.identifiers import command_stream
from interlock.protocol.resources import Target

pytestmark = pytest.mark.anyio


async def delta(table: Table, session_id: str, turn_id: str = "t1") -> None:
    frame = Frame(type="agent.text.delta", message_id="d", session_id=session_id, timestamp="",
                  payload=p.TextDelta(turn_id=turn_uuid(turn_id), block_id="b1", offset=0, text="h"))
    await (await table.lane(session_id)).call(Within(lambda lane: take_transient(lane, frame, encode(frame))))


async def stages_of(table: Table, command_id: str) -> list[tuple[str, float | None]]:
    events = [json.loads(event.body)
              for event in await table.ledger.events("default", command_stream(command_id), 0, 100)]
    return [(event["stage"], event.get("percent")) for event in events if event["event"] == "progress"]


async def begun(table: Table) -> tuple[str, str]:
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    return command.id, session_id


async def second_passes(table: Table, session_id: str) -> None:
    table.clock.advance(1_000)
    await (await table.lane(session_id)).call(ClockTicked())


@pytest.mark.req("S-5")
async def test_the_chat_stage_begins_with_the_first_text_and_not_with_its_end() -> None:
    table = Table()
    command_id, session_id = await begun(table)
    await delta(table, session_id, "of another turn")
    assert await stages_of(table, command_id) == []
    await delta(table, session_id)
    await delta(table, session_id)
    assert await stages_of(table, command_id) == [("chat", None)]


@pytest.mark.req("S-5")
async def test_fast_stages_are_reported_once_a_second_and_the_last_by_a_timer() -> None:
    table = Table()
    command_id, session_id = await begun(table)
    for number, kind in enumerate(("execute", "read", "execute", "search")):
        await table.send(session_id, "tool.invoke.request", p.ToolRequest(
            invocation_id=f"i{number}", turn_id="t1", tool_name="x", input=msgspec.Raw(b"{}")), kind=kind)
        table.clock.advance(10)
    assert await stages_of(table, command_id) == [("tool", None)]
    shell = await table.lane(session_id)
    assert shell.lane.deadline_ms() == table.clock.now_ms() - 40 + 1_000
    await second_passes(table, session_id)
    assert await stages_of(table, command_id) == [("tool", None), ("retrieval", None)]
    await second_passes(table, session_id)
    assert len(await stages_of(table, command_id)) == 2
    await delta(table, session_id)
    await table.ended(session_id)
    await second_passes(table, session_id)
    assert (await stages_of(table, command_id))[2:] == [("chat", None)], "what was said before its end stays the last"


@pytest.mark.req("S-5")
async def test_each_change_of_stage_is_reported_once() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    for block in ("b1", "b2"):
        await table.send(session_id, "agent.text.done", p.TextDone(turn_id="t1", block_id=block, text="hi"))
    table.clock.advance(1_000)
    for invocation, kind in (("i1", "execute"), ("i2", "execute"), ("i3", "read"), ("i4", "search")):
        await table.send(session_id, "tool.invoke.request", p.ToolRequest(
            invocation_id=invocation, turn_id="t1", tool_name="x", input=msgspec.Raw(b"{}")), kind=kind)
        await table.result(session_id, invocation=invocation)
        table.clock.advance(1_000)
    await table.send(session_id, "agent.text.done", p.TextDone(turn_id="t1", block_id="b3", text="done"))
    await table.ended(session_id)
    assert [stage for stage, _ in await stages_of(table, command.id)] == ["chat", "tool", "retrieval", "chat"]


@pytest.mark.req("S-5")
async def test_an_agents_figure_is_reported_once_a_second_and_with_every_stage() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)

    async def at(ms: int, percent: float) -> None:
        table.clock.advance(ms)
        await table.send(session_id, "x-interlock.progress", p.Progress(turn_id="t1", percent=percent))

    async def text(block: str) -> None:
        await table.send(session_id, "agent.text.done", p.TextDone(turn_id="t1", block_id=block, text="hi"))

    await at(0, 10)  # No stage is known yet: the first one carries it.
    await text("b1")
    await at(999, 20)  # Within the second.
    await at(1, 30)
    await at(5_000, 30)  # Nothing has changed.
    await at(0, 40)
    await at(10, 500)
    await at(10, 50)
    table.clock.advance(980)
    await table.asked(session_id)  # A new stage, with what is known.
    await table.ended(session_id, turn_id="t1")
    again = await table.execute(target=Target(session_id=session_id))
    await table.started(session_id, "t2")
    await table.send(session_id, "agent.text.done", p.TextDone(turn_id="t2", block_id="b9", text="hi"))

    assert await stages_of(table, command.id) == [("chat", 10), ("chat", 30), ("chat", 40), ("tool", 50)]
    assert await stages_of(table, again.id) == [("chat", None)]  # Of the new turn nothing is known.
