"""The hook that may cancel a compaction or supply its summary, in a session (Z-6)."""

from __future__ import annotations

import asyncio

import pytest

from engine.conversation import OWNER, remember
from engine.gateway_context import LONG, ContextTable
from interlock.ports.compaction_hook import BeforeCompact, CompactionHook, CompactionVeto, Supply
from interlock.protocol import payloads as p
from interlock.protocol.problems import Problem
from interlock.protocol.resources import Target

pytestmark = [pytest.mark.anyio, pytest.mark.req("Z-6")]


class Asked(CompactionHook):
    """Returns a given answer, and records the calls."""

    def __init__(self, answer: CompactionVeto | Supply | None) -> None:
        self.answer = answer
        self.received: list[BeforeCompact] = []

    async def before_compact(self, about: BeforeCompact) -> CompactionVeto | Supply | None:
        self.received.append(about)
        return self.answer


def room(answer: CompactionVeto | Supply | None, **fields: int) -> tuple[ContextTable, Asked]:
    made, hook = ContextTable(**fields), Asked(answer)  # type: ignore[arg-type]
    assert made.engine.compactor is not None
    made.engine.compactor.configure(hook)
    return made, hook


async def test_a_hook_without_an_answer_gets_all_details_and_allows_the_compaction() -> None:
    table, hook = room(None)
    await table.run_turns(9)
    (about,) = hook.received
    plan = table.asked_for().payload.plan
    assert (about.cause, about.first_kept, about.entries) == ("threshold", plan["first_kept"], plan["entries"])
    assert about.messages is not None
    assert [message["entry_id"] for message in about.messages] == plan["entry_ids"]
    assert about.messages[0]["content"] == "question 0"


async def test_a_cancelling_hook_keeps_the_context_and_is_called_again_next_turn() -> None:
    table, hook = room(CompactionVeto("an audit runs"))
    await table.run_turns(9)
    assert table.requests() == 0
    assert await table.entries("compaction") == []
    before = len(hook.received)
    await table.run_turns(1, "short")
    assert len(hook.received) == before + 1
    with pytest.raises(Problem, match="an audit runs"):
        await table.engine.sessions.compact(OWNER, table.session_id, None, remember)


async def test_a_hooks_summary_replaces_the_request_to_the_agent() -> None:
    table, _ = room(Supply("as the hook has it"))
    await table.run_turns(9)
    assert table.requests() == 0
    (compaction, *_) = await table.entries("compaction")
    assert (compaction["summary"], compaction["fromHook"], compaction["details"]["by"]) == (
        "as the hook has it", True, "hook")
    assert (await table.entry()).compaction_count == 1


@pytest.mark.parametrize("summary", ["", " \n", LONG * 50])
async def test_a_hooks_summary_is_checked_by_the_same_rules(summary: str) -> None:
    table, _ = room(Supply(summary))
    await table.run_turns(9)
    assert await table.entries("compaction") == []
    assert "hook's answer was not taken" in (await table.notices("CompactionFailed"))[0]
    assert (await table.entry()).compaction_count == 0


async def test_a_manual_compaction_uses_the_hooks_summary_too() -> None:
    table, hook = room(Supply("by hook"))
    await table.run_turns(4)
    asked = await table.engine.sessions.compact(OWNER, table.session_id, "the names", remember)
    assert asked.message_id == ""
    assert hook.received[-1].instructions == "the names"
    assert [one["summary"] for one in await table.entries("compaction")] == ["by hook"]


async def test_a_waiting_agent_receives_the_hooks_summary_in_mid_turn() -> None:
    table, _ = room(Supply("by hook"), window=100_000)
    await table.run_turns(6)
    await table.ask("and this")
    await table.begin_turn()
    await table.send(table.session_id, "agent.error", p.AgentError(
        severity="warning", error_code="CONTEXT_OVERFLOW", message="too long", turn_id=f"t{table.turns}"))
    await table.settled()
    assert table.asked_for().payload.plan["summary"] == "by hook"
    await table.report("by hook")
    (compaction,) = await table.entries("compaction")
    assert compaction["details"]["by"] == "hook"


async def test_a_hooks_summary_too_large_for_a_frame_keeps_the_turns_context() -> None:
    table, _ = room(Supply("가나다 " * 90_000), window=100_000)
    await table.run_turns(6)
    await table.ask("and this")
    await table.begin_turn()
    await table.send(table.session_id, "agent.error", p.AgentError(
        severity="warning", error_code="CONTEXT_OVERFLOW", message="too long", turn_id=f"t{table.turns}"))
    await table.settled()
    refused = table.wire.last("session.error").payload
    assert "the hook's answer was not taken: the summary takes" in refused.message
    assert table.requests() == 0
    assert await table.entries("compaction") == []


class Slow(CompactionHook):
    """Answers when it is released."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.may = asyncio.Event()

    async def before_compact(self, about: BeforeCompact) -> None:
        assert about.entries
        self.asked.set()
        await self.may.wait()


@pytest.mark.req("T-1", "Z-6")
async def test_prompts_wait_while_a_hook_runs() -> None:
    table, hook = ContextTable(), Slow()
    assert table.engine.compactor is not None
    await table.run_turns(7)
    table.engine.compactor.configure(hook)
    while not hook.asked.is_set():
        await table.ask("more")
        await table.begin_turn()
        finishing = asyncio.create_task(table.finish(LONG))
        asked = asyncio.create_task(hook.asked.wait())
        await asyncio.wait([finishing, asked], return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
    command = await table.execute("next", target=Target(session_id=table.session_id))
    assert await table.state(command.id) == "queued"
    record = await table.ledger.session(table.session_id)
    assert record is not None
    assert record.state == "compacting"
    with pytest.raises(Problem, match="at work"):
        await table.engine.sessions.compact(OWNER, table.session_id, None, remember)
    hook.may.set()
    await finishing
    assert table.requests() == 1
    assert await table.state(command.id) == "queued"
    await table.report("so far")
    assert await table.state(command.id) == "dispatched"
