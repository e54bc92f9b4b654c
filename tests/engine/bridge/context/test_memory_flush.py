"""The silent turn before a compaction (Z-5): once a cycle, never asking a person, left out of what people read."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engine.gateway_context import SETTINGS, WINDOW, Room
from interlock.command.policy.policy import Rule, RuleSet
from interlock.protocol import payloads as p
from interlock.session.context.compaction_plan import Flush, thresholds
from interlock.session.transcript.render import markdown

pytestmark = [pytest.mark.anyio, pytest.mark.req("Z-5")]
FLUSHING = msgspec.structs.replace(SETTINGS, memory_flush=Flush(soft_threshold_tokens=500))
LIMITS = thresholds(FLUSHING, WINDOW)


async def near(room: Room, used: int = LIMITS.flush + 1) -> None:
    """A conversation whose last turn told that its context is past the soft threshold."""
    await room.talk(4)
    await room.ask("one more")
    await room.answer("yes", used=used)


def flushes(room: Room) -> list[p.PromptRequest]:
    return [frame.payload for frame in room.wire.sent
            if frame.type == "control.prompt.request" and frame.payload.origin == "flush"]


async def tool(room: Room, name: str, kind: str, given: dict[str, Any], invocation: str = "w1") -> str:
    """The agent asks for a tool in its turn; what it is told."""
    turn_id = f"t{room.turns}"
    await room.send(room.session_id, "tool.invoke.request", p.ToolRequest(
        invocation_id=invocation, turn_id=turn_id, tool_name=name, input=msgspec.Raw(msgspec.json.encode(given)),
        title=name), kind=kind)
    await room.send(room.session_id, "agent.interaction.request", p.InteractionRequest(
        interaction_id="x-" + invocation, interaction_type="PERMISSION", title=name,
        context=p.InteractionContext(tool_name=name, invocation_id=invocation)))
    decision: str = room.wire.last("control.interaction.response").payload.decision
    await room.resolved(room.session_id, "allowed" if decision == "allow" else "denied", invocation)
    await room.result(room.session_id, "done", "ok" if decision == "allow" else "denied", invocation)
    return decision


async def test_past_the_soft_threshold_a_silent_turn_is_asked_for_once() -> None:
    room = Room(FLUSHING)
    await near(room, LIMITS.flush)
    assert flushes(room) == []
    await room.ask("again")
    await room.answer("yes", used=LIMITS.flush + 1)
    (flush,) = flushes(room)
    assert flush.silent is True
    assert "memory/2027-01-15.md" in (flush.text or "")
    assert "NO_REPLY" in (flush.text or "")
    assert "NO_REPLY" in (flush.system_append or "")
    entry = await room.entry()
    assert (entry.memory_flush_at, entry.memory_flush_compaction_count) == (room.clock.at_ms, 0)
    await room.answer("NO_REPLY", used=LIMITS.flush + 2)
    await room.ask("next")
    await room.answer("yes", used=LIMITS.flush + 3)
    assert len(flushes(room)) == 1
    assert room.requests() == 0


async def test_the_flush_comes_before_the_compaction_and_once_in_each_cycle() -> None:
    room = Room(FLUSHING)
    await near(room, LIMITS.compaction + 1)
    assert len(flushes(room)) == 1
    assert room.requests() == 0
    await room.answer("NO_REPLY", used=LIMITS.compaction + 10)
    assert room.requests() == 1
    await room.report("so far")
    await room.ask("next")
    await room.answer("yes", used=LIMITS.flush + 1)
    assert len(flushes(room)) == 2
    assert (await room.entry()).memory_flush_compaction_count == 1


async def test_it_goes_before_what_waits() -> None:
    room = Room(FLUSHING)
    await room.talk(4)
    await room.ask("one more")
    waits = await room.ask("and then this")
    await room.answer("yes", used=LIMITS.flush + 1)
    assert len(flushes(room)) == 1
    assert await room.state(waits) == "queued"
    await room.answer("NO_REPLY")
    assert await room.state(waits) == "dispatched"


@pytest.mark.parametrize(("name", "kind", "given", "decision"), [
    ("write", "edit", {"path": "memory/2027-01-15.md", "content": "x"}, "allow"),
    ("write", "edit", {"path": "src/main.py", "content": "x"}, "deny"),
    ("write", "edit", {"path": "memory/../src/main.py", "content": "x"}, "deny"),
    ("shell", "execute", {"command": "cat > memory/x.md"}, "deny"),
    ("read", "read", {"path": "README.md"}, "deny"),
])
async def test_it_writes_memory_and_nothing_else_and_no_person_is_asked(
    name: str, kind: str, given: dict[str, Any], decision: str
) -> None:
    asks_always = RuleSet([Rule(name="ask for all", effect="ask", door="tool", tool="nothing-of-the-kind")])
    room = Room(FLUSHING, policy=asks_always)
    await near(room)
    await room.begin_turn()
    assert await tool(room, name, kind, given) == decision
    assert await room.ledger.approvals("default", None, None, 10) == []
    await room.finish("NO_REPLY")


async def test_where_a_rule_asks_for_everything_the_flush_is_denied_and_not_asked_for() -> None:
    room = Room(FLUSHING, policy=RuleSet([Rule(name="ask for all edits", effect="ask", door="tool", kind="edit")]))
    await near(room)
    await room.begin_turn()
    assert await tool(room, "write", "edit", {"path": "memory/a.md", "content": "x"}) == "deny"
    assert await room.ledger.approvals("default", None, None, 10) == []


async def test_its_entries_are_marked_and_left_out_of_what_people_read() -> None:
    room = Room(FLUSHING)
    await near(room)
    await room.begin_turn()
    await tool(room, "write", "edit", {"path": "memory/2027-01-15.md", "content": "secret thought"})
    await room.finish("NO_REPLY all written down")
    marked = [one for one in await room.entries("message") if one.get("origin") == "flush"]
    assert [one["message"]["role"] for one in marked] == ["user", "assistant", "toolResult", "assistant"]
    desk = room.engine.transcripts
    record = await room.ledger.session(room.session_id)
    assert desk is not None
    assert record is not None
    read = markdown(await desk.tree(record))
    assert "one more" in read
    assert "secret thought" not in read
    assert "written down" not in read
    assert any("secret thought" in str(message) for message in await room.messages()), "the model knows what it did"


@pytest.mark.req("I-2")
async def test_it_moves_no_clock() -> None:
    room = Room(FLUSHING)
    await near(room)
    before = await room.entry()
    room.clock.advance(60_000)
    await room.answer("NO_REPLY")
    after = await room.entry()
    assert (after.last_interaction_at, after.session_started_at) == (
        before.last_interaction_at, before.session_started_at)


@pytest.mark.parametrize("how", ["ro", "never asks", "switched off", "own context"])
async def test_it_is_skipped_where_it_could_not_write_or_would_not_be_held(how: str) -> None:
    room = Room(FLUSHING if how != "switched off" else SETTINGS)
    await room.talk(2)
    lane = (await room.lane(room.session_id)).lane
    if how == "ro":
        lane.state.workspace_access = "ro"
    elif how == "never asks":
        lane.state.permission = "never"
    elif how == "own context":
        lane.state.context.owner = "agent"
    await near(room)
    assert flushes(room) == []


async def test_a_flush_that_fails_is_not_tried_again_in_its_cycle_and_the_compaction_comes() -> None:
    room = Room(FLUSHING)
    await near(room, LIMITS.compaction + 1)
    await room.answer("broken", stop_reason="error")
    await room.ask("next")
    await room.answer("yes", used=LIMITS.compaction + 20)
    assert len(flushes(room)) == 1
    assert room.requests() == 1
