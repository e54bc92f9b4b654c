"""The gateway compacts a conversation whose context it owns: what starts it, what it summarises, what it drops
(Z-4)."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engine.conversation import OWNER, ManualClock, remember
from engine.gateway_context import LONG, SETTINGS, WINDOW, Room
from engine.within import Within
from interlock.agents.builtin.cache import Cache
from interlock.backends.jsonl.transcripts import JsonlTranscripts
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


async def full(room: Room) -> None:
    """A conversation past its threshold, whose agent was asked for a summary."""
    await room.talk(9)
    assert room.requests() == 1


async def shown(room: Room) -> Session:
    """The session as surfaces show it."""
    record = await room.ledger.session(room.session_id)
    assert record is not None
    return room.engine.sessions.shown(record)


# --- what starts it ---
@pytest.mark.req("Z-2", "T-1")
async def test_a_good_turn_past_the_threshold_starts_it_and_prompts_wait_meanwhile() -> None:
    room = Room()
    await full(room)
    waits = await room.ask("next")
    assert await room.state(waits) == "queued"
    record = await room.ledger.session(room.session_id)
    assert record is not None
    assert record.state == "compacting"
    before = await room.messages()
    await room.report("what was said")
    assert await room.state(waits) == "dispatched"
    (compaction,) = await room.entries("compaction")
    plan = room.asked_for().payload.plan
    assert (compaction["summary"], compaction["firstKeptEntryId"]) == ("what was said", plan["first_kept"])
    assert compaction["details"]["by"] == "gateway"
    after = await room.messages()
    assert after[0]["summary"] == "what was said"
    assert after[1:-1] == before[-(len(after) - 2):], "what is kept is the end of what was there"
    assert len(before) == plan["entries"] + len(after) - 2


@pytest.mark.req("Z-2")
@pytest.mark.parametrize(("used", "expected"), [(LIMIT, 0), (LIMIT + 1, 1)])
async def test_the_threshold_is_the_window_without_the_reserve(used: int, expected: int) -> None:
    room = Room()
    await room.talk(3)
    await room.ask("one more")
    await room.answer("yes", used=used)
    assert room.requests() == expected


@pytest.mark.req("Z-2")
@pytest.mark.parametrize("stop_reason", ["error", "cancelled"])
async def test_only_a_good_turn_is_followed_by_a_look(stop_reason: str) -> None:
    room = Room()
    await room.talk(3)
    await room.ask("one more")
    await room.answer("yes", used=WINDOW, stop_reason=stop_reason)
    assert room.requests() == 0


@pytest.mark.req("Z-2")
async def test_switched_off_it_never_starts_by_itself_and_still_when_asked_for() -> None:
    room = Room(msgspec.structs.replace(SETTINGS, enabled=False))
    await room.talk(12)
    assert room.requests() == 0
    await room.engine.sessions.compact(OWNER, room.session_id, "keep the plan", remember)
    assert room.asked_for().payload.instructions == "keep the plan"


@pytest.mark.req("Z-2")
async def test_a_context_that_is_refused_in_mid_turn_is_compacted_in_it() -> None:
    room = Room(window=100_000)
    await room.talk(6)
    command = await room.ask("and this")
    await room.begin_turn()
    told = await room.send(room.session_id, "agent.error", p.AgentError(
        severity="warning", error_code="CONTEXT_OVERFLOW", message="prompt is too long", turn_id=f"t{room.turns}"))
    await room.settled()
    plan = room.asked_for().payload.plan
    assert plan["entries"] > 0
    await room.report("shorter")
    await room.finish("done")
    assert await room.state(command) == "succeeded"
    (compaction,) = await room.entries("compaction")
    messages = await room.messages()
    assert messages[0]["summary"] == "shorter"
    assert messages[-1]["content"][0]["text"] == "done"
    assert [one["content"] for one in messages if one["role"] == "user"].count("and this") == 1
    assert compaction["details"]["by"] == "gateway"
    assert told.message_id not in [frame.metadata.get("in_reply_to") for frame in room.wire.sent]


@pytest.mark.req("Z-2")
async def test_where_nothing_can_be_made_smaller_the_agent_hears_it_at_once() -> None:
    room = Room(window=100_000)
    await room.ask("first of all")
    await room.begin_turn()
    told = await room.send(room.session_id, "agent.error", p.AgentError(
        severity="warning", error_code="CONTEXT_OVERFLOW", message="prompt is too long", turn_id="t1"))
    await room.settled()
    answer = room.wire.last("session.error")
    assert answer.metadata["in_reply_to"] == told.message_id
    assert answer.payload.error_code == "COMPACTION_FAILED"
    assert room.requests() == 0


# --- the report ---
@pytest.mark.req("Z-4")
@pytest.mark.parametrize(("changes", "reason"), [
    ({"summary": ""}, "empty"), ({"summary": " \n…"}, "empty"),
    ({"summary": "x" * (MAX_SUMMARY_CHARS + 1)}, "characters"),
    ({"summary": LONG * 20}, "nothing would be won"), ({"request_id": "other"}, "name its request"),
    ({"request_id": None}, "name its request"), ({"covers": None}, "cover what was planned"),
    ({"covers": p.Covers("ffffffff", 1)}, "cover what was planned"), ({"trigger": "auto"}, "name its request"),
])
async def test_a_report_that_does_not_fit_appends_nothing_and_says_why(changes: dict[str, Any], reason: str) -> None:
    room = Room()
    await full(room)
    before = await room.messages()
    await room.report(**changes)
    assert await room.entries("compaction") == []
    assert await room.messages() == before
    (notice,) = await room.notices("CompactionFailed")
    assert reason in notice
    assert room.wire.last("session.error").payload.error_code == "COMPACTION_FAILED", "the agent is told, too"
    assert (await room.entry()).compaction_count == 0
    waits = await room.ask("the session goes on")
    assert await room.state(waits) == "dispatched"


@pytest.mark.req("Z-4")
async def test_a_report_of_something_else_is_dropped_and_the_request_stands() -> None:
    room = Room()
    await full(room)
    await room.report(in_reply_to="some-other-message")
    assert await room.entries("compaction") == []
    await room.report("the real one")
    assert [one["summary"] for one in await room.entries("compaction")] == ["the real one"]
    await room.report("and again")
    assert len(await room.entries("compaction")) == 1


@pytest.mark.req("Z-4")
async def test_a_leaf_that_moved_drops_the_report_and_a_notice_does_not_move_it() -> None:
    room = Room()
    await full(room)
    shell = await room.lane(room.session_id)

    def notice(lane: Any) -> None:
        lane.notice(Notice(code="Detached", message="the link is down"))

    await shell.call(Within(notice))
    await room.report("in spite of the notice")
    assert len(await room.entries("compaction")) == 1
    again = Room()
    await full(again)

    def said(lane: Any) -> None:
        lane.transcribe([UserEntry(content="another program went on", timestamp=1)])

    await (await again.lane(again.session_id)).call(Within(said))
    await again.report("too late")
    assert await again.entries("compaction") == []
    assert "went on" in (await again.notices("CompactionFailed"))[0]


@pytest.mark.req("Z-4")
async def test_an_agent_that_never_answers_has_failed() -> None:
    room = Room()
    await full(room)
    room.clock.advance(COMPACT_TIMEOUT_MS)
    await (await room.lane(room.session_id)).call(ClockTicked())
    assert "did not answer" in (await room.notices("CompactionFailed"))[0]
    waits = await room.ask("the session goes on")
    assert await room.state(waits) == "dispatched"
    await room.report("after all")
    assert await room.entries("compaction") == []


@pytest.mark.req("Z-4", "T-6")
async def test_entry_counters_and_audit_are_one_transaction() -> None:
    room = Room()
    await full(room)
    await room.report("so far")
    entry = await room.entry()
    assert entry.compaction_count == 1
    done = [one["meta"] for one in await room.audits("compact") if one["meta"].get("op") == "done"]
    assert [(one["cause"], one["by"]) for one in done] == [("threshold", "gateway")]
    record = await room.ledger.session(room.session_id)
    assert record is not None
    assert record.usage["context_tokens"] == done[0]["tokens_after"] < done[0]["tokens_before"]


@pytest.mark.req("Z-4", "V-1")
@pytest.mark.parametrize("used", [1_200, 3_900, None])
async def test_a_compaction_shows_two_sizes_of_one_measure(used: int | None) -> None:
    """The agent's count may be half or twice of the estimate: beside it a compaction would seem to add tokens."""
    room = Room(SETTINGS, window=100_000)
    await room.ask("question")
    await room.answer(LONG * 5, used=1_000)
    await room.ask("another")
    await room.answer(LONG, used=used)
    told = await shown(room)
    assert told.context_estimated == (used is None)
    await room.engine.sessions.compact(OWNER, room.session_id, None, remember)
    await room.report("so far")
    (notice,) = await room.notices("Compacted")
    found = re.search(r": about ([\d,]+) tokens before, about ([\d,]+) now\.$", notice)
    assert found is not None, notice
    before, after = (int(figure.replace(",", "")) for figure in found.groups())
    assert before == (used or before)
    assert 0 < after < before
    told = await shown(room)
    assert (told.context_tokens, told.context_estimated, told.compactions) == (after, True, 1)
    assert told.context_window == 100_000


@pytest.mark.req("V-1", "T-6")
async def test_what_nobody_asked_for_is_told_with_the_next_command() -> None:
    room = Room()
    await full(room)
    await room.report("so far")
    assert await room.notices("AutoCompacted") == []
    command = await room.ask("next")
    (notice,) = await room.notices("AutoCompacted")
    assert "🧹 Auto-compaction complete (1 in this session)" in notice
    record = await room.ledger.command(command, "default")
    assert record is not None
    assert [one.code for one in record.command.notices] == ["AutoCompacted"]
    await room.answer("fine")
    await room.ask("and on")
    assert len(await room.notices("AutoCompacted")) == 1


@pytest.mark.req("Z-4")
async def test_a_request_under_way_outlives_the_gateway() -> None:
    room = Room()
    await full(room)
    asked = room.asked_for()
    room.begin()
    await room.engine.start()
    await room.reattach(room.session_id, asked.seq or 0)
    room.wire.sent.append(asked)
    await room.report("after the restart")
    assert [one["summary"] for one in await room.entries("compaction")] == ["after the restart"]
    await room.engine.stop()


# --- several in a row ---
@pytest.mark.req("Z-3", "Z-4")
async def test_the_second_one_begins_where_the_first_kept_from() -> None:
    room = Room()
    await full(room)
    first = room.asked_for().payload.plan
    await room.report("one")
    while room.requests() == 1:
        await room.talk(1)
    second = room.asked_for().payload.plan
    assert second["entry_ids"][0] == first["first_kept"]
    assert second["previous_summary"] == "one"
    assert not set(first["entry_ids"]) & set(second["entry_ids"])
    await room.report("two")
    assert (await room.messages())[0]["summary"] == "two"
    assert (await room.entry()).compaction_count == 2


@pytest.mark.req("Z-4", "C-8")
async def test_after_three_failures_a_person_is_asked_and_nothing_is_tried_until_they_answer() -> None:
    room = Room()
    await full(room)
    for failure in range(3):
        await room.refuse(f"no {failure}")
        if failure < 2:
            await room.talk(1, "short")
            assert room.requests() == failure + 2
    (question,) = [one.approval for one in await room.ledger.approvals("default", "pending", None, 10)]
    assert question.kind == "question"
    assert "no 2" in question.title
    await room.talk(1, "short")
    assert room.requests() == 3
    await room.engine.answer(OWNER, question.id, "keep the names", remember)
    await room.settled()
    assert room.requests() == 4
    assert room.asked_for().payload.instructions == "keep the names"
    await room.report("with names")
    assert len(await room.entries("compaction")) == 1


@pytest.mark.req("Z-4", "C-8")
@pytest.mark.parametrize("how", ["declined", "expired"])
async def test_a_person_who_leaves_it_is_obeyed_until_somebody_compacts(how: str) -> None:
    room = Room()
    await full(room)
    for _ in range(2):
        await room.refuse()
        await room.talk(1, "short")
    await room.refuse()
    (question,) = [one.approval for one in await room.ledger.approvals("default", "pending", None, 10)]
    if how == "declined":
        await room.engine.answer(OWNER, question.id, None, remember)
    else:
        room.clock.advance(room.limits.approval_ttl_ms)
        await (await room.lane(room.session_id)).call(ClockTicked())
    await room.talk(2, "short")
    assert room.requests() == 3
    await room.engine.sessions.compact(OWNER, room.session_id, None, remember)
    await room.report("by hand")
    await room.talk(9)
    assert room.requests() == 5, "and then by itself again"


# --- asked for ---
@pytest.mark.req("V-2", "Z-4")
async def test_a_person_compacts_and_the_request_is_seen_before_it_is_said() -> None:
    room = Room()
    await room.talk(4)
    asked = await room.engine.sessions.compact(OWNER, room.session_id, "the names", remember)
    (event,) = await room.ledger.events("default", session_stream(room.session_id), asked.n - 1, 1)
    assert asked.message_id.encode() in event.body
    with pytest.raises(Problem, match="at work"):
        await room.engine.sessions.compact(OWNER, room.session_id, None, remember)
    await room.report("short")
    done = [one for one in await room.audits("compact") if one["meta"].get("op") == "done"]
    assert done[0]["who"]["id"] == "user:owner"
    assert "Compaction complete (1 in this session)" in (await room.notices("Compacted"))[0]


@pytest.mark.req("V-2")
async def test_what_is_short_is_not_compacted_and_that_is_said() -> None:
    room = Room()
    await room.talk(1, "short")
    with pytest.raises(Problem, match="nothing to compact"):
        await room.engine.sessions.compact(OWNER, room.session_id, None, remember)
    assert room.requests() == 0
    waits = await room.ask("the session goes on")
    assert await room.state(waits) == "dispatched"


# --- what the agent is sent ---
@pytest.mark.req("Z-4")
async def test_a_prompt_brings_what_the_agent_lacks_and_ends_before_itself() -> None:
    room = Room(window=100_000)
    await room.talk(2, "short")
    await room.ask("third")
    sent = [frame.payload.context for frame in room.wire.sent if frame.type == "control.prompt.request"]
    assert sent[0] == {"base": None, "entries": [], "leaf": None}
    said = [[entry["message"].get("content") for entry in context["entries"]] for context in sent]
    assert [len(one) for one in said] == [0, 2, 2]
    assert said[1][0] == "question 0"
    assert said[2][0] == "question 1"
    assert sent[2]["base"] == sent[1]["leaf"]


@pytest.mark.req("Z-4")
async def test_after_a_compaction_and_an_opening_all_of_it_is_sent() -> None:
    room = Room()
    await full(room)
    await room.report("so far")
    await room.ask("next")
    context = room.wire.last("control.prompt.request").payload.context
    assert context["base"] is None
    assert [entry["message"] for entry in context["entries"]] == (await room.messages())[:-1]
    await room.answer("fine")
    await room.send(room.session_id, "session.closed", p.SessionClosed(reason="idle"))
    await room.ask("and on")
    context = room.wire.last("control.prompt.request").payload.context
    assert context["base"] is None
    assert len(context["entries"]) == len(await room.messages()) - 1


@pytest.mark.req("E-5", "Z-4")
async def test_a_context_too_large_for_a_frame_goes_before_it_as_a_file() -> None:
    room = Room(window=10_000_000)
    await room.talk(3, LONG * 60)
    await room.ask("next")
    room.wire.sent[:] = [frame for frame in room.wire.sent if frame.type != "control.session.open"]
    await room.answer("fine")
    await room.send(room.session_id, "session.closed", p.SessionClosed(reason="idle"))
    await room.ask("and on")
    named = room.wire.last("control.prompt.request").payload.context
    assert set(named) == {"transfer_id", "media_type", "sha256"}
    parts = [frame.payload for frame in room.wire.sent if frame.type == "agent.file.transfer"]
    assert {part.purpose for part in parts} == {"context"}
    assert len(parts) > 1


@pytest.mark.req("Z-7")
async def test_what_the_config_says_of_pruning_goes_with_the_context() -> None:
    room = Room(window=100_000)
    await room.talk(1, "short")
    assert "pruning" not in room.wire.last("control.prompt.request").payload.context
    rules = room.limits.compaction._replace(pruning=PruningSettings(soft_trim_ratio=0.1))
    room.engine.configure(room.policy, room.limits._replace(compaction=rules))
    await room.ask("next")
    context = room.wire.last("control.prompt.request").payload.context
    assert Cache().following({**context, "base": None}).pruning == PruningSettings(soft_trim_ratio=0.1)


@pytest.mark.req("Z-2")
async def test_a_session_that_closes_while_it_is_looked_at_is_not_asked_for_anything() -> None:
    room = Room()
    await room.talk(8)
    await room.ask("and now")
    await room.begin_turn()
    lane = (await room.lane(room.session_id)).lane

    def ended_and_closed(_: Any) -> None:
        lane.state.context.due = "threshold"
        dropped(lane)

    await (await room.lane(room.session_id)).call(Within(ended_and_closed))
    await room.settled()
    assert room.requests() == 0


@pytest.mark.req("Z-2", "T-1")
async def test_a_gateway_that_dies_before_it_has_looked_leaves_no_prompt_waiting() -> None:
    room = Room()
    await room.talk(8)
    await room.ask("the last before")
    room.engine.lanes.on_context = Signal()
    await room.answer(LONG)
    assert (await room.lane(room.session_id)).lane.state.context.due == "look"
    room.begin()
    await room.engine.start()
    await room.reattach(room.session_id, 99)
    await room.settled()
    command = await room.ask("after")
    if room.requests():
        await room.report("so far")
    assert await room.state(command) == "dispatched"
    await room.engine.stop()


@pytest.mark.req("Z-2")
@pytest.mark.parametrize("why", ["switched off", "already"])
async def test_an_overflow_that_nothing_is_done_about_is_answered_at_once(why: str) -> None:
    settings = SETTINGS if why == "already" else msgspec.structs.replace(SETTINGS, enabled=False)
    room = Room(settings, window=100_000)
    await room.talk(6)
    await room.ask("and this")
    await room.begin_turn()
    frames: list[Any] = []
    for _ in range(2):
        frames.append(await room.send(room.session_id, "agent.error", p.AgentError(
            severity="warning", error_code="CONTEXT_OVERFLOW", message="too long", turn_id=f"t{room.turns}")))
        await room.settled()
    assert room.wire.last("session.error").metadata["in_reply_to"] == frames[-1].message_id
    assert room.requests() == (1 if why == "already" else 0)


@pytest.mark.req("Z-2", "C-5")
async def test_nothing_is_compacted_by_itself_where_nothing_new_may_start() -> None:
    room = Room()
    await room.talk(8)
    await room.ask("the last before")
    conditions = room.engine.lanes.conditions
    room.engine.lanes.conditions = lambda state, inputs: conditions(state, inputs)._replace(draining=True)
    await room.answer(LONG)
    assert room.requests() == 0
    assert (await room.lane(room.session_id)).lane.state.context.due == ""


@pytest.mark.req("V-2")
async def test_who_asks_on_the_heels_of_a_turn_is_not_told_to_come_back() -> None:
    room = Room(window=100_000, settings=msgspec.structs.replace(SETTINGS, keep_recent_tokens=500))
    await room.talk(6)
    await room.ask("the last")
    await room.begin_turn()
    compactor = room.engine.compactor
    assert compactor is not None
    settled, compactor.settled = compactor.settled, _at_once
    await room.finish("yes")
    compactor.settled = settled
    assert (await room.lane(room.session_id)).lane.state.context.due == "look"
    asked = await room.engine.sessions.compact(OWNER, room.session_id, None, remember)
    assert room.asked_for().message_id == asked.message_id


async def _at_once() -> None:
    return


# --- the file itself ---
@pytest.mark.req("X-3", "X-4")
async def test_a_transcript_that_cannot_be_read_cancels_what_waits_for_it_by_name(tmp_path: Path) -> None:
    """Commands were left queued until they expired, and no one was told why."""
    room = Room(transcripts=JsonlTranscripts(tmp_path, ManualClock()))
    await room.talk(1)
    file = tmp_path / "agents" / "shell" / "sessions" / f"{room.session_id}.jsonl"
    kept = file.rename(file.with_suffix(".kept"))
    os.mkfifo(file)
    commands = [await room.ask(text) for text in ("and now", "and then")]
    for command_id in commands:
        record = await room.ledger.command(command_id, "default")
        assert record is not None
        assert record.command.state == "canceled"
        assert record.command.error is not None
        assert (record.command.error.code, str(file) in record.command.error.message) == ("Unavailable", True)
        assert "it is a FIFO, and no regular file" in record.command.error.message
    file.unlink()
    kept.rename(file)
    await room.ask("once more")
    await room.answer("yes")
    assert [one["content"] for one in await room.messages() if one["role"] == "user"] == ["question 0", "once more"]
    await room.engine.stop()


@pytest.mark.req("X-3")
async def test_a_machine_that_is_short_of_descriptors_makes_commands_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    room = Room()
    await room.talk(1)
    transcripts = room.engine.lanes.transcripts
    trunk = transcripts.trunk

    async def short(*_: str) -> Tree:
        raise OSError(errno.EMFILE, "Too many open files", "/state/x.jsonl")

    monkeypatch.setattr(transcripts, "trunk", short)
    waits = await room.ask("and now")
    assert await room.state(waits) == "queued"
    monkeypatch.setattr(transcripts, "trunk", trunk)


@pytest.mark.req("X-1", "X-3")
async def test_what_another_program_wrote_meanwhile_is_in_context_and_on_the_path(tmp_path: Path) -> None:
    room = Room(transcripts=JsonlTranscripts(tmp_path, ManualClock()))
    await room.talk(1, "one")
    file = tmp_path / "agents" / "shell" / "sessions" / f"{room.session_id}.jsonl"
    last = msgspec.json.decode(file.read_bytes().splitlines()[-1])["id"]
    theirs = {"type": "message", "id": "feedface", "parentId": last, "timestamp": "2026-01-01T00:00:00.000Z",
              "message": {"role": "user", "content": "from pi", "timestamp": 1}}
    with file.open("ab") as pi:
        pi.write(msgspec.json.encode(theirs) + b"\n")
    await room.ask("and now")
    sent = room.wire.last("control.prompt.request").payload.context
    assert "from pi" in str(sent)
    await room.answer("two")
    assert [one["content"] for one in await room.messages() if one["role"] == "user"] == [
        "question 0", "from pi", "and now"]
    await room.engine.stop()
