"""An agent that owns its context reports its compactions, and the transcript stores them (Z-4, T-6)."""

from __future__ import annotations

from typing import Any

import pytest

from engine.conversation import OWNER, Table, remember
from interlock.backends.memory.transcripts import MemoryTranscripts
from interlock.engine.bridge.context.compaction import COMPACT_TIMEOUT_MS
from interlock.engine.bridge.inputs.gateway import ClockTicked
from interlock.protocol import payloads as p
from interlock.protocol.envelope import DPS_VERSION
from interlock.protocol.resources import Target
from interlock.session.context.context import context
from interlock.session.transcript.doctor import examine
from interlock.session.transcript.tree import Tree

pytestmark = [pytest.mark.anyio, pytest.mark.req("Z-4", "T-6")]


async def report_compaction(
    table: Table, session_id: str, trigger: Any, summary: str = "what I did", **metadata: Any
) -> None:
    await table.send(session_id, "session.compacted", p.Compacted(
        summary=summary, previous_token_count=9_000, current_token_count=800,
        preserved_elements={"files_modified": ["a.py"]}, trigger=trigger), **metadata)


async def tree_of(table: Table, session_id: str) -> Tree:
    record, desk = await table.ledger.session(session_id), table.engine.transcripts
    assert record is not None
    assert desk is not None
    return await desk.tree(record)


async def turn(table: Table, text: str, session_id: str | None = None, compacts: str | None = None) -> str:
    """One turn, in which the agent may compact by itself."""
    target = Target(session_id=session_id) if session_id else Target(agent_id="shell")
    command = await table.execute(text, target=target)
    own: str = command.target.session_id
    await table.send(own, "session.capabilities", p.Capabilities(dps_version=DPS_VERSION, features={
        "adapter_type": "process", "permission": "asks", "context_compaction": True}))
    await table.started(own)
    if compacts is not None:
        await report_compaction(table, own, "auto", compacts)
    await table.send(own, "agent.text.done", p.TextDone(turn_id="t1", block_id=f"b{text}", text=f"re: {text}"))
    await table.ended(own)
    return own


def context_of(tree: Tree) -> list[str]:
    return [message.get("summary") or (message["content"] if isinstance(message["content"], str)
                                       else message["content"][0]["text"]) for message in context(tree).messages]


async def test_a_compaction_in_a_turn_keeps_the_whole_turn() -> None:
    table = Table(transcripts=MemoryTranscripts())
    session_id = await turn(table, "one")
    await turn(table, "two", session_id, compacts="one, in short")
    tree = await tree_of(table, session_id)
    assert context_of(tree) == ["one, in short", "two", "re: two"]
    (compaction,) = [tree.entry(at) for at, node in enumerate(tree.nodes) if node.type == "compaction"]
    assert compaction["details"] == {"readFiles": [], "modifiedFiles": ["a.py"], "by": "agent"}
    assert compaction["tokensBefore"] == 9_000
    assert "control.session.compact" not in table.wire.types(), "our planner never runs"


async def test_a_compaction_between_turns_keeps_from_the_next_turns_first_entry() -> None:
    table = Table(transcripts=MemoryTranscripts())
    session_id = await turn(table, "one")
    await report_compaction(table, session_id, "manual")
    await turn(table, "two", session_id)
    tree = await tree_of(table, session_id)
    assert context_of(tree) == ["what I did", "two", "re: two"]
    (compaction,) = [tree.entry(at) for at, node in enumerate(tree.nodes) if node.type == "compaction"]
    assert tree.at[compaction["firstKeptEntryId"]] > tree.at[compaction["id"]]
    assert '"two"' in tree.lines[tree.at[compaction["firstKeptEntryId"]]].decode()


async def test_the_first_entry_of_the_next_turn_is_known_after_a_restart() -> None:
    table = Table(transcripts=MemoryTranscripts())
    session_id = await turn(table, "one")
    await report_compaction(table, session_id, "manual")
    table.begin()
    await table.reattach(session_id, 99)
    await turn(table, "two", session_id)
    tree = await tree_of(table, session_id)
    (compaction,) = [tree.entry(at) for at, node in enumerate(tree.nodes) if node.type == "compaction"]
    assert '"two"' in tree.lines[tree.at[compaction["firstKeptEntryId"]]].decode()


async def test_a_requested_compaction_is_stored_counted_and_reported() -> None:
    table = Table(transcripts=MemoryTranscripts())
    session_id = await turn(table, "one")
    asked = await table.engine.sessions.compact(OWNER, session_id, None, remember)
    await report_compaction(table, session_id, "requested", in_reply_to="not this one")
    assert (await table.lane(session_id)).lane.state.compacting == asked.message_id
    await report_compaction(table, session_id, "requested", in_reply_to=asked.message_id)
    state = (await table.lane(session_id)).lane.state
    assert (state.compacting, state.entry.compaction_count, state.context_tokens) == (None, 1, 800)
    assert (await table.actions()).count("compact") == 2
    found = examine(b"\n".join([b'{"type":"session","version":3,"id":"S","timestamp":"","cwd":"/"}',
                                *(await tree_of(table, session_id)).lines]) + b"\n")
    assert [finding for finding in found.findings if "kept" in finding.kind] == []


async def test_an_unanswered_compaction_lets_the_session_continue() -> None:
    table = Table(transcripts=MemoryTranscripts())
    session_id = await turn(table, "one")
    await table.engine.sessions.compact(OWNER, session_id, None, remember)
    command = await table.execute("two", target=Target(session_id=session_id))
    assert await table.state(command.id) == "queued"
    table.clock.advance(COMPACT_TIMEOUT_MS)
    await (await table.lane(session_id)).call(ClockTicked())
    assert await table.state(command.id) == "dispatched"


async def test_a_compaction_without_a_summary_is_reported_and_keeps_the_context() -> None:
    table = Table(transcripts=MemoryTranscripts())
    session_id = await turn(table, "one")
    await report_compaction(table, session_id, "auto", summary=" ")
    assert context_of(await tree_of(table, session_id)) == ["one", "re: one"]
    assert (await table.lane(session_id)).lane.state.entry.compaction_count == 1
