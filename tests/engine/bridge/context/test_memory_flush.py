"""The silent turn before a compaction (Z-5): once a cycle, never asking a person, left out of what people read."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engine.gateway_context import SETTINGS, WINDOW, ContextTable
from interlock.command.policy.policy import Rule, RuleSet
from interlock.protocol import payloads as p
from interlock.session.context.compaction_plan import Flush, thresholds
from interlock.session.transcript.render import markdown

pytestmark = [pytest.mark.anyio, pytest.mark.req("Z-5")]
FLUSHING = msgspec.structs.replace(SETTINGS, memory_flush=Flush(soft_threshold_tokens=500))
LIMITS = thresholds(FLUSHING, WINDOW)


async def near(table: ContextTable, used: int = LIMITS.flush + 1) -> None:
    """A conversation whose last turn reported a context past the soft threshold."""
    await table.run_turns(4)
    await table.ask("one more")
    await table.answer("yes", used=used)


def flushes(table: ContextTable) -> list[p.PromptRequest]:
    return [frame.payload for frame in table.wire.sent
            if frame.type == "control.prompt.request" and frame.payload.origin == "flush"]


async def tool(table: ContextTable, name: str, kind: str, given: dict[str, Any], invocation: str = "w1") -> str:
    """The agent requests a tool in its turn; the response."""
    turn_id = f"t{table.turns}"
    await table.send(table.session_id, "tool.invoke.request", p.ToolRequest(
        invocation_id=invocation, turn_id=turn_id, tool_name=name, input=msgspec.Raw(msgspec.json.encode(given)),
        title=name), kind=kind)
    await table.send(table.session_id, "agent.interaction.request", p.InteractionRequest(
        interaction_id="x-" + invocation, interaction_type="PERMISSION", title=name,
        context=p.InteractionContext(tool_name=name, invocation_id=invocation)))
    decision: str = table.wire.last("control.interaction.response").payload.decision
    await table.resolved(table.session_id, "allowed" if decision == "allow" else "denied", invocation)
    await table.result(table.session_id, "done", "ok" if decision == "allow" else "denied", invocation)
    return decision


async def test_past_the_soft_threshold_one_silent_turn_is_requested() -> None:
    table = ContextTable(FLUSHING)
    await near(table, LIMITS.flush)
    assert flushes(table) == []
    await table.ask("again")
    await table.answer("yes", used=LIMITS.flush + 1)
    (flush,) = flushes(table)
    assert flush.silent is True
    assert "memory/2027-01-15.md" in (flush.text or "")
    assert "NO_REPLY" in (flush.text or "")
    assert "NO_REPLY" in (flush.system_append or "")
    entry = await table.entry()
    assert (entry.memory_flush_at, entry.memory_flush_compaction_count) == (table.clock.at_ms, 0)
    await table.answer("NO_REPLY", used=LIMITS.flush + 2)
    await table.ask("next")
    await table.answer("yes", used=LIMITS.flush + 3)
    assert len(flushes(table)) == 1
    assert table.requests() == 0


async def test_the_flush_comes_before_the_compaction_and_once_in_each_cycle() -> None:
    table = ContextTable(FLUSHING)
    await near(table, LIMITS.compaction + 1)
    assert len(flushes(table)) == 1
    assert table.requests() == 0
    await table.answer("NO_REPLY", used=LIMITS.compaction + 10)
    assert table.requests() == 1
    await table.report("so far")
    await table.ask("next")
    await table.answer("yes", used=LIMITS.flush + 1)
    assert len(flushes(table)) == 2
    assert (await table.entry()).memory_flush_compaction_count == 1


async def test_a_flush_runs_before_waiting_commands() -> None:
    table = ContextTable(FLUSHING)
    await table.run_turns(4)
    await table.ask("one more")
    waits = await table.ask("and then this")
    await table.answer("yes", used=LIMITS.flush + 1)
    assert len(flushes(table)) == 1
    assert await table.state(waits) == "queued"
    await table.answer("NO_REPLY")
    assert await table.state(waits) == "dispatched"


@pytest.mark.parametrize(("name", "kind", "given", "decision"), [
    ("write", "edit", {"path": "memory/2027-01-15.md", "content": "x"}, "allow"),
    ("write", "edit", {"path": "src/main.py", "content": "x"}, "deny"),
    ("write", "edit", {"path": "memory/../src/main.py", "content": "x"}, "deny"),
    ("shell", "execute", {"command": "cat > memory/x.md"}, "deny"),
    ("read", "read", {"path": "README.md"}, "deny"),
])
async def test_a_flush_may_write_only_memory_and_asks_no_person(
    name: str, kind: str, given: dict[str, Any], decision: str
) -> None:
    asks_always = RuleSet([Rule(name="ask for all", effect="ask", door="tool", tool="nothing-of-the-kind")])
    table = ContextTable(FLUSHING, policy=asks_always)
    await near(table)
    await table.begin_turn()
    assert await tool(table, name, kind, given) == decision
    assert await table.ledger.approvals("default", None, None, 10) == []
    await table.finish("NO_REPLY")


async def test_a_flush_is_denied_if_a_rule_asks_for_everything() -> None:
    asks = RuleSet([Rule(name="ask for all edits", effect="ask", door="tool", kind="edit")])
    table = ContextTable(FLUSHING, policy=asks)
    await near(table)
    await table.begin_turn()
    assert await tool(table, "write", "edit", {"path": "memory/a.md", "content": "x"}) == "deny"
    assert await table.ledger.approvals("default", None, None, 10) == []


async def test_its_entries_are_marked_and_omitted_from_peoples_views() -> None:
    table = ContextTable(FLUSHING)
    await near(table)
    await table.begin_turn()
    await tool(table, "write", "edit", {"path": "memory/2027-01-15.md", "content": "secret thought"})
    await table.finish("NO_REPLY all written down")
    marked = [one for one in await table.entries("message") if one.get("origin") == "flush"]
    assert [one["message"]["role"] for one in marked] == ["user", "assistant", "toolResult", "assistant"]
    desk = table.engine.transcripts
    record = await table.ledger.session(table.session_id)
    assert desk is not None
    assert record is not None
    read = markdown(await desk.tree(record))
    assert "one more" in read
    assert "secret thought" not in read
    assert "written down" not in read
    assert any("secret thought" in str(message) for message in await table.messages()), "the model knows what it did"


@pytest.mark.req("I-2")
async def test_a_flush_changes_no_timer() -> None:
    table = ContextTable(FLUSHING)
    await near(table)
    before = await table.entry()
    table.clock.advance(60_000)
    await table.answer("NO_REPLY")
    after = await table.entry()
    assert (after.last_interaction_at, after.session_started_at) == (
        before.last_interaction_at, before.session_started_at)


@pytest.mark.parametrize("how", ["ro", "never asks", "switched off", "own context"])
async def test_a_flush_is_skipped_if_it_cannot_write_or_cannot_be_held(how: str) -> None:
    table = ContextTable(FLUSHING if how != "switched off" else SETTINGS)
    await table.run_turns(2)
    lane = (await table.lane(table.session_id)).lane
    if how == "ro":
        lane.state.workspace_access = "ro"
    elif how == "never asks":
        lane.state.permission = "never"
    elif how == "own context":
        lane.state.context.owner = "agent"
    await near(table)
    assert flushes(table) == []


async def test_a_failed_flush_is_not_retried_in_its_cycle_and_compaction_follows() -> None:
    table = ContextTable(FLUSHING)
    await near(table, LIMITS.compaction + 1)
    await table.answer("broken", stop_reason="error")
    await table.ask("next")
    await table.answer("yes", used=LIMITS.compaction + 20)
    assert len(flushes(table)) == 1
    assert table.requests() == 1
