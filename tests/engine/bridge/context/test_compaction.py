"""The gateway compacts a conversation whose context it owns: its triggers, the entries it summarises and drops
(Z-4)."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engine.conversation import OWNER, remember
from engine.gateway_context import LONG, SETTINGS, WINDOW, ContextTable
from engine.within import Within
from interlock.agents.builtin.cache import Cache
from interlock.backends.jsonl.transcripts import JsonlTranscripts
from interlock.backends.memory.clock import ManualClock
from interlock.engine.bridge.context.compaction import COMPACT_TIMEOUT_MS, dropped
from interlock.engine.bridge.inputs.gateway import ClockTicked
from interlock.ports.signals import Signal
from interlock.protocol import payloads as p
from interlock.protocol.identifiers import session_stream
from interlock.protocol.limits import MAX_SUMMARY_CHARS
from interlock.protocol.problems import Problem
from interlock.protocol.resources import Notice, Session
from interlock.session.context.compaction_plan import thresholds
from interlock.session.context.tool_result_limits import PruningSettings
from interlock.session.transcript.entries import UserEntry
from interlock.session.transcript.tree import Tree

pytestmark = pytest.mark.anyio
LIMIT = thresholds(SETTINGS, WINDOW).compaction


async def full(table: ContextTable) -> None:
    """A conversation past its threshold, whose agent was asked for a summary."""
    await table.run_turns(9)
    assert table.requests() == 1


async def shown(table: ContextTable) -> Session:
    """The session as surfaces show it."""
    record = await table.ledger.session(table.session_id)
    assert record is not None
    return table.engine.sessions.shown(record)


# --- what starts it ---
@pytest.mark.req("Z-2", "T-1")
async def test_a_successful_turn_past_the_threshold_starts_a_compaction() -> None:
    table = ContextTable()
    await full(table)
    waits = await table.ask("next")
    assert await table.state(waits) == "queued"
    record = await table.ledger.session(table.session_id)
    assert record is not None
    assert record.state == "compacting"
    before = await table.messages()
    await table.report("what was said")
    assert await table.state(waits) == "dispatched"
    (compaction,) = await table.entries("compaction")
    plan = table.asked_for().payload.plan
    assert (compaction["summary"], compaction["firstKeptEntryId"]) == ("what was said", plan["first_kept"])
    assert compaction["details"]["by"] == "gateway"
    after = await table.messages()
    assert after[0]["summary"] == "what was said"
    assert after[1:-1] == before[-(len(after) - 2):], "what is kept is the end of what was there"
    assert len(before) == plan["entries"] + len(after) - 2


@pytest.mark.req("Z-2")
@pytest.mark.parametrize(("used", "expected"), [(LIMIT, 0), (LIMIT + 1, 1)])
async def test_the_threshold_is_the_window_without_the_reserve(used: int, expected: int) -> None:
    table = ContextTable()
    await table.run_turns(3)
    await table.ask("one more")
    await table.answer("yes", used=used)
    assert table.requests() == expected


@pytest.mark.req("Z-2")
@pytest.mark.parametrize("stop_reason", ["error", "cancelled"])
async def test_only_a_successful_turn_is_followed_by_a_check(stop_reason: str) -> None:
    table = ContextTable()
    await table.run_turns(3)
    await table.ask("one more")
    await table.answer("yes", used=WINDOW, stop_reason=stop_reason)
    assert table.requests() == 0


@pytest.mark.req("Z-2")
async def test_a_disabled_compaction_starts_only_on_request() -> None:
    table = ContextTable(msgspec.structs.replace(SETTINGS, enabled=False))
    await table.run_turns(12)
    assert table.requests() == 0
    await table.engine.sessions.compact(OWNER, table.session_id, "keep the plan", remember)
    assert table.asked_for().payload.instructions == "keep the plan"


@pytest.mark.req("Z-2")
async def test_a_context_refused_in_mid_turn_is_compacted_within_the_turn() -> None:
    table = ContextTable(window=100_000)
    await table.run_turns(6)
    command = await table.ask("and this")
    await table.begin_turn()
    frame = await table.send(table.session_id, "agent.error", p.AgentError(
        severity="warning", error_code="CONTEXT_OVERFLOW", message="prompt is too long", turn_id=f"t{table.turns}"))
    await table.settled()
    plan = table.asked_for().payload.plan
    assert plan["entries"] > 0
    await table.report("shorter")
    await table.finish("done")
    assert await table.state(command) == "succeeded"
    (compaction,) = await table.entries("compaction")
    messages = await table.messages()
    assert messages[0]["summary"] == "shorter"
    assert messages[-1]["content"][0]["text"] == "done"
    assert [one["content"] for one in messages if one["role"] == "user"].count("and this") == 1
    assert compaction["details"]["by"] == "gateway"
    assert frame.message_id not in [frame.metadata.get("in_reply_to") for frame in table.wire.sent]


@pytest.mark.req("Z-2")
async def test_an_agent_is_answered_immediately_if_nothing_can_be_compacted() -> None:
    table = ContextTable(window=100_000)
    await table.ask("first of all")
    await table.begin_turn()
    frame = await table.send(table.session_id, "agent.error", p.AgentError(
        severity="warning", error_code="CONTEXT_OVERFLOW", message="prompt is too long", turn_id="t1"))
    await table.settled()
    answer = table.wire.last("session.error")
    assert answer.metadata["in_reply_to"] == frame.message_id
    assert answer.payload.error_code == "COMPACTION_FAILED"
    assert table.requests() == 0


# --- the report ---
@pytest.mark.req("Z-4")
@pytest.mark.parametrize(("changes", "reason"), [
    ({"summary": ""}, "empty"), ({"summary": " \n…"}, "empty"),
    ({"summary": "x" * (MAX_SUMMARY_CHARS + 1)}, "characters"),
    ({"summary": LONG * 20}, "nothing would be won"), ({"request_id": "other"}, "name its request"),
    ({"request_id": None}, "name its request"), ({"covers": None}, "cover what was planned"),
    ({"covers": p.Covers("ffffffff", 1)}, "cover what was planned"), ({"trigger": "auto"}, "name its request"),
])
async def test_an_invalid_report_appends_nothing_and_has_a_reason(changes: dict[str, Any], reason: str) -> None:
    table = ContextTable()
    await full(table)
    before = await table.messages()
    await table.report(**changes)
    assert await table.entries("compaction") == []
    assert await table.messages() == before
    (notice,) = await table.notices("CompactionFailed")
    assert reason in notice
    assert table.wire.last("session.error").payload.error_code == "COMPACTION_FAILED", "the agent is informed, too"
    assert (await table.entry()).compaction_count == 0
    waits = await table.ask("the session continues")
    assert await table.state(waits) == "dispatched"


@pytest.mark.req("Z-4")
async def test_a_report_of_another_request_is_dropped_and_the_request_stays_open() -> None:
    table = ContextTable()
    await full(table)
    await table.report(in_reply_to="some-other-message")
    assert await table.entries("compaction") == []
    await table.report("the real one")
    assert [one["summary"] for one in await table.entries("compaction")] == ["the real one"]
    await table.report("and again")
    assert len(await table.entries("compaction")) == 1


@pytest.mark.req("Z-4")
async def test_a_moved_leaf_drops_the_report_and_a_notice_does_not_move_it() -> None:
    table = ContextTable()
    await full(table)
    shell = await table.lane(table.session_id)

    def notice(lane: Any) -> None:
        lane.notice(Notice(code="Detached", message="the link is down"))

    await shell.call(Within(notice))
    await table.report("in spite of the notice")
    assert len(await table.entries("compaction")) == 1
    again = ContextTable()
    await full(again)

    def write_elsewhere(lane: Any) -> None:
        lane.transcribe([UserEntry(content="another program went on", timestamp=1)])

    await (await again.lane(again.session_id)).call(Within(write_elsewhere))
    await again.report("too late")
    assert await again.entries("compaction") == []
    assert "went on" in (await again.notices("CompactionFailed"))[0]


@pytest.mark.req("Z-4")
async def test_a_compaction_without_an_answer_has_failed() -> None:
    table = ContextTable()
    await full(table)
    table.clock.advance(COMPACT_TIMEOUT_MS)
    await (await table.lane(table.session_id)).call(ClockTicked())
    assert "did not answer" in (await table.notices("CompactionFailed"))[0]
    waits = await table.ask("the session continues")
    assert await table.state(waits) == "dispatched"
    await table.report("after all")
    assert await table.entries("compaction") == []


@pytest.mark.req("Z-4", "T-6")
async def test_entry_counters_and_audit_are_one_transaction() -> None:
    table = ContextTable()
    await full(table)
    await table.report("so far")
    entry = await table.entry()
    assert entry.compaction_count == 1
    done = [one["meta"] for one in await table.audits("compact") if one["meta"].get("op") == "done"]
    assert [(one["cause"], one["by"]) for one in done] == [("threshold", "gateway")]
    record = await table.ledger.session(table.session_id)
    assert record is not None
    assert record.usage["context_tokens"] == done[0]["tokens_after"] < done[0]["tokens_before"]


@pytest.mark.req("Z-4", "V-1")
@pytest.mark.parametrize("used", [1_200, 3_900, None])
async def test_a_compaction_shows_two_sizes_of_one_measure(used: int | None) -> None:
    """The agent's count may be half or twice of the estimate: beside it a compaction would seem to add tokens."""
    table = ContextTable(SETTINGS, window=100_000)
    await table.ask("question")
    await table.answer(LONG * 5, used=1_000)
    await table.ask("another")
    await table.answer(LONG, used=used)
    view = await shown(table)
    assert view.context_estimated == (used is None)
    await table.engine.sessions.compact(OWNER, table.session_id, None, remember)
    await table.report("so far")
    (notice,) = await table.notices("Compacted")
    found = re.search(r": about ([\d,]+) tokens before, about ([\d,]+) now\.$", notice)
    assert found is not None, notice
    before, after = (int(figure.replace(",", "")) for figure in found.groups())
    assert before == (used or before)
    assert 0 < after < before
    view = await shown(table)
    assert (view.context_tokens, view.context_estimated, view.compactions) == (after, True, 1)
    assert view.context_window == 100_000


@pytest.mark.req("V-1", "T-6")
async def test_an_automatic_compaction_is_reported_with_the_next_command() -> None:
    table = ContextTable()
    await full(table)
    await table.report("so far")
    assert await table.notices("AutoCompacted") == []
    command = await table.ask("next")
    (notice,) = await table.notices("AutoCompacted")
    assert "🧹 Auto-compaction complete (1 in this session)" in notice
    record = await table.ledger.command(command, "default")
    assert record is not None
    assert [one.code for one in record.command.notices] == ["AutoCompacted"]
    await table.answer("fine")
    await table.ask("and on")
    assert len(await table.notices("AutoCompacted")) == 1


@pytest.mark.req("Z-4")
async def test_an_open_request_survives_a_restart_of_the_gateway() -> None:
    table = ContextTable()
    await full(table)
    asked = table.asked_for()
    table.begin()
    await table.engine.start()
    await table.reattach(table.session_id, asked.seq or 0)
    table.wire.sent.append(asked)
    await table.report("after the restart")
    assert [one["summary"] for one in await table.entries("compaction")] == ["after the restart"]
    await table.engine.stop()


# --- several in a row ---
@pytest.mark.req("Z-3", "Z-4")
async def test_the_second_compaction_begins_at_the_first_kept_entry() -> None:
    table = ContextTable()
    await full(table)
    first = table.asked_for().payload.plan
    await table.report("one")
    while table.requests() == 1:
        await table.run_turns(1)
    second = table.asked_for().payload.plan
    assert second["entry_ids"][0] == first["first_kept"]
    assert second["previous_summary"] == "one"
    assert not set(first["entry_ids"]) & set(second["entry_ids"])
    await table.report("two")
    assert (await table.messages())[0]["summary"] == "two"
    assert (await table.entry()).compaction_count == 2


@pytest.mark.req("Z-4", "C-8")
async def test_after_three_failures_compaction_waits_for_a_persons_answer() -> None:
    table = ContextTable()
    await full(table)
    for failure in range(3):
        await table.refuse(f"no {failure}")
        if failure < 2:
            await table.run_turns(1, "short")
            assert table.requests() == failure + 2
    (question,) = [one.approval for one in await table.ledger.approvals("default", "pending", None, 10)]
    assert question.kind == "question"
    assert "no 2" in question.title
    await table.run_turns(1, "short")
    assert table.requests() == 3
    await table.engine.answer(OWNER, question.id, "keep the names", remember)
    await table.settled()
    assert table.requests() == 4
    assert table.asked_for().payload.instructions == "keep the names"
    await table.report("with names")
    assert len(await table.entries("compaction")) == 1


@pytest.mark.req("Z-4", "C-8")
@pytest.mark.parametrize("how", ["declined", "expired"])
async def test_a_persons_denial_holds_until_a_manual_compaction(how: str) -> None:
    table = ContextTable()
    await full(table)
    for _ in range(2):
        await table.refuse()
        await table.run_turns(1, "short")
    await table.refuse()
    (question,) = [one.approval for one in await table.ledger.approvals("default", "pending", None, 10)]
    if how == "declined":
        await table.engine.answer(OWNER, question.id, None, remember)
    else:
        table.clock.advance(table.limits.approval_ttl_ms)
        await (await table.lane(table.session_id)).call(ClockTicked())
    await table.run_turns(2, "short")
    assert table.requests() == 3
    await table.engine.sessions.compact(OWNER, table.session_id, None, remember)
    await table.report("by hand")
    await table.run_turns(9)
    assert table.requests() == 5, "and then by itself again"


# --- asked for ---
@pytest.mark.req("V-2", "Z-4")
async def test_a_manual_compaction_is_requested_before_it_is_reported() -> None:
    table = ContextTable()
    await table.run_turns(4)
    asked = await table.engine.sessions.compact(OWNER, table.session_id, "the names", remember)
    (event,) = await table.ledger.events("default", session_stream(table.session_id), asked.n - 1, 1)
    assert asked.message_id.encode() in event.body
    with pytest.raises(Problem, match="at work"):
        await table.engine.sessions.compact(OWNER, table.session_id, None, remember)
    await table.report("short")
    done = [one for one in await table.audits("compact") if one["meta"].get("op") == "done"]
    assert done[0]["who"]["id"] == "user:owner"
    assert "Compaction complete (1 in this session)" in (await table.notices("Compacted"))[0]


@pytest.mark.req("V-2")
async def test_a_short_context_is_not_compacted_with_a_reason() -> None:
    table = ContextTable()
    await table.run_turns(1, "short")
    with pytest.raises(Problem, match="nothing to compact"):
        await table.engine.sessions.compact(OWNER, table.session_id, None, remember)
    assert table.requests() == 0
    waits = await table.ask("the session continues")
    assert await table.state(waits) == "dispatched"


# --- what the agent is sent ---
@pytest.mark.req("Z-4")
async def test_a_prompt_carries_the_missing_context_up_to_itself() -> None:
    table = ContextTable(window=100_000)
    await table.run_turns(2, "short")
    await table.ask("third")
    sent = [frame.payload.context for frame in table.wire.sent if frame.type == "control.prompt.request"]
    assert sent[0] == {"base": None, "entries": [], "leaf": None}
    write_elsewhere = [[entry["message"].get("content") for entry in context["entries"]] for context in sent]
    assert [len(one) for one in write_elsewhere] == [0, 2, 2]
    assert write_elsewhere[1][0] == "question 0"
    assert write_elsewhere[2][0] == "question 1"
    assert sent[2]["base"] == sent[1]["leaf"]


@pytest.mark.req("Z-4")
async def test_after_a_compaction_and_an_opening_all_of_it_is_sent() -> None:
    table = ContextTable()
    await full(table)
    await table.report("so far")
    await table.ask("next")
    context = table.wire.last("control.prompt.request").payload.context
    assert context["base"] is None
    assert [entry["message"] for entry in context["entries"]] == (await table.messages())[:-1]
    await table.answer("fine")
    await table.send(table.session_id, "session.closed", p.SessionClosed(reason="idle"))
    await table.ask("and on")
    context = table.wire.last("control.prompt.request").payload.context
    assert context["base"] is None
    assert len(context["entries"]) == len(await table.messages()) - 1


@pytest.mark.req("E-5", "Z-4")
async def test_a_context_too_large_for_a_frame_is_sent_before_it_as_a_file() -> None:
    table = ContextTable(window=10_000_000)
    await table.run_turns(3, LONG * 60)
    await table.ask("next")
    table.wire.sent[:] = [frame for frame in table.wire.sent if frame.type != "control.session.open"]
    await table.answer("fine")
    await table.send(table.session_id, "session.closed", p.SessionClosed(reason="idle"))
    await table.ask("and on")
    named = table.wire.last("control.prompt.request").payload.context
    assert set(named) == {"transfer_id", "media_type", "sha256"}
    parts = [frame.payload for frame in table.wire.sent if frame.type == "agent.file.transfer"]
    assert {part.purpose for part in parts} == {"context"}
    assert len(parts) > 1


@pytest.mark.req("Z-7")
async def test_the_configs_pruning_limits_are_sent_with_the_context() -> None:
    table = ContextTable(window=100_000)
    await table.run_turns(1, "short")
    assert "pruning" not in table.wire.last("control.prompt.request").payload.context
    rules = table.limits.compaction._replace(pruning=PruningSettings(soft_trim_ratio=0.1))
    table.engine.configure(table.policy, table.limits._replace(compaction=rules))
    await table.ask("next")
    context = table.wire.last("control.prompt.request").payload.context
    assert Cache().following({**context, "base": None}).pruning == PruningSettings(soft_trim_ratio=0.1)


@pytest.mark.req("Z-2")
async def test_a_session_that_closes_during_the_check_gets_no_request() -> None:
    table = ContextTable()
    await table.run_turns(8)
    await table.ask("and now")
    await table.begin_turn()
    lane = (await table.lane(table.session_id)).lane

    def ended_and_closed(_: Any) -> None:
        lane.state.context.due = "threshold"
        dropped(lane)

    await (await table.lane(table.session_id)).call(Within(ended_and_closed))
    await table.settled()
    assert table.requests() == 0


@pytest.mark.req("Z-2", "T-1")
async def test_a_gateway_killed_before_the_check_leaves_no_prompt_waiting() -> None:
    table = ContextTable()
    await table.run_turns(8)
    await table.ask("the last before")
    table.engine.lanes.on_context = Signal()
    await table.answer(LONG)
    assert (await table.lane(table.session_id)).lane.state.context.due == "look"
    table.begin()
    await table.engine.start()
    await table.reattach(table.session_id, 99)
    await table.settled()
    command = await table.ask("after")
    if table.requests():
        await table.report("so far")
    assert await table.state(command) == "dispatched"
    await table.engine.stop()


@pytest.mark.req("Z-2")
@pytest.mark.parametrize("why", ["switched off", "already"])
async def test_an_overflow_that_cannot_be_compacted_is_answered_immediately(why: str) -> None:
    settings = SETTINGS if why == "already" else msgspec.structs.replace(SETTINGS, enabled=False)
    table = ContextTable(settings, window=100_000)
    await table.run_turns(6)
    await table.ask("and this")
    await table.begin_turn()
    frames: list[Any] = []
    for _ in range(2):
        frames.append(await table.send(table.session_id, "agent.error", p.AgentError(
            severity="warning", error_code="CONTEXT_OVERFLOW", message="too long", turn_id=f"t{table.turns}")))
        await table.settled()
    assert table.wire.last("session.error").metadata["in_reply_to"] == frames[-1].message_id
    assert table.requests() == (1 if why == "already" else 0)


@pytest.mark.req("Z-2", "C-5")
async def test_a_drained_session_is_not_compacted_automatically() -> None:
    table = ContextTable()
    await table.run_turns(8)
    await table.ask("the last before")
    conditions = table.engine.lanes.conditions
    table.engine.lanes.conditions = lambda state, inputs: conditions(state, inputs)._replace(draining=True)
    await table.answer(LONG)
    assert table.requests() == 0
    assert (await table.lane(table.session_id)).lane.state.context.due == ""


@pytest.mark.req("V-2")
async def test_a_request_directly_after_a_turn_is_not_refused() -> None:
    table = ContextTable(window=100_000, settings=msgspec.structs.replace(SETTINGS, keep_recent_tokens=500))
    await table.run_turns(6)
    await table.ask("the last")
    await table.begin_turn()
    compactor = table.engine.compactor
    assert compactor is not None
    settled, compactor.settled = compactor.settled, _at_once
    await table.finish("yes")
    compactor.settled = settled
    assert (await table.lane(table.session_id)).lane.state.context.due == "look"
    asked = await table.engine.sessions.compact(OWNER, table.session_id, None, remember)
    assert table.asked_for().message_id == asked.message_id


async def _at_once() -> None:
    return


# --- the file itself ---
@pytest.mark.req("X-3", "X-4")
async def test_an_unreadable_transcript_cancels_waiting_commands_with_its_name(tmp_path: Path) -> None:
    """Commands were left queued until they expired, without a reported reason."""
    table = ContextTable(transcripts=JsonlTranscripts(tmp_path, ManualClock()))
    await table.run_turns(1)
    file = tmp_path / "agents" / "shell" / "sessions" / f"{table.session_id}.jsonl"
    kept = file.rename(file.with_suffix(".kept"))
    os.mkfifo(file)
    commands = [await table.ask(text) for text in ("and now", "and then")]
    for command_id in commands:
        record = await table.ledger.command(command_id, "default")
        assert record is not None
        assert record.command.state == "canceled"
        assert record.command.error is not None
        assert (record.command.error.code, str(file) in record.command.error.message) == ("Unavailable", True)
        assert "it is a FIFO, and no regular file" in record.command.error.message
    file.unlink()
    kept.rename(file)
    await table.ask("once more")
    await table.answer("yes")
    assert [one["content"] for one in await table.messages() if one["role"] == "user"] == ["question 0", "once more"]
    await table.engine.stop()


@pytest.mark.req("X-3")
async def test_a_machine_that_is_short_of_descriptors_makes_commands_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    table = ContextTable()
    await table.run_turns(1)
    transcripts = table.engine.lanes.transcripts
    trunk = transcripts.trunk

    async def short(*_: str) -> Tree:
        raise OSError(errno.EMFILE, "Too many open files", "/state/x.jsonl")

    monkeypatch.setattr(transcripts, "trunk", short)
    waits = await table.ask("and now")
    assert await table.state(waits) == "queued"
    monkeypatch.setattr(transcripts, "trunk", trunk)


@pytest.mark.req("X-1", "X-3")
async def test_entries_written_by_another_program_are_in_context_and_on_the_path(tmp_path: Path) -> None:
    table = ContextTable(transcripts=JsonlTranscripts(tmp_path, ManualClock()))
    await table.run_turns(1, "one")
    file = tmp_path / "agents" / "shell" / "sessions" / f"{table.session_id}.jsonl"
    last = msgspec.json.decode(file.read_bytes().splitlines()[-1])["id"]
    theirs = {"type": "message", "id": "feedface", "parentId": last, "timestamp": "2026-01-01T00:00:00.000Z",
              "message": {"role": "user", "content": "from pi", "timestamp": 1}}
    with file.open("ab") as pi:
        pi.write(msgspec.json.encode(theirs) + b"\n")
    await table.ask("and now")
    sent = table.wire.last("control.prompt.request").payload.context
    assert "from pi" in str(sent)
    await table.answer("two")
    assert [one["content"] for one in await table.messages() if one["role"] == "user"] == [
        "question 0", "from pi", "and now"]
    await table.engine.stop()
