"""The builtin agent's context is the transcript (B-1): what is sent, what is stored, and what replaces it when it is
too long (Z-2, Z-4)."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.builtin.conversations import long_conversation, turn
from agents.builtin.test_agent import allowed, errors, opened, results
from agents.builtin_stage import builtin
from agents.transcribed import Transcribed, plain
from interlock.agents.builtin.cache import Cache, ContextEntry, ContextUnknown
from interlock.model_stand_in import AFTER_TOOL, ModelServer
from interlock.model_stand_in.answers import OUTPUT_TOKENS
from interlock.protocol import payloads as p
from interlock.protocol.envelope import Frame
from interlock.session.context.compaction_plan import CompactionSettings, plan
from interlock.session.context.compaction_plan import Path as EntryPath
from interlock.session.context.provider_context import cleaned
from interlock.session.transcript.entries import UserEntry
from interlock.session.transfers import File, chunks
from lazily import lazily
from runner.stage import Stage, stage

builtin_turn = lazily("interlock.agents.builtin.turn")

pytestmark = [pytest.mark.anyio, pytest.mark.req("B-1")]


def asked(server: ModelServer) -> str:
    return msgspec.json.encode(server.recording.all()[-1].body).decode()


async def test_a_new_opening_continues_with_the_context_of_the_gateway(
    model_server: ModelServer, tmp_path: Path
) -> None:
    async with stage(tmp_path, {"own": builtin(model_server)}) as scene:
        await opened(scene)
        kept = Transcribed(scene)
        await turn(kept, "first [[say:one]]")
        leaf = kept.all_entries()[-1]["id"]
        await turn(kept, "\n\nsecond [[call:list {}]]")
        await turn(kept, "\n\nthird [[say:three]]", base=leaf)
        assert [message["role"] for message in model_server.recording.turns()[-1].body["messages"]] == [
            "user", "assistant", "user", "assistant", "user", "assistant", "user"]
        await scene.send("control.session.close", p.SessionClose(reason="enough"))
        await opened(scene, resume=True)
        assert errors(scene) == []
        await turn(kept, "\n\nfourth [[say:four]]")
        outcome = asked(model_server)
        assert [word in outcome for word in ("first", "one", "(empty)", AFTER_TOOL, "third", "three")] == [True] * 6


async def test_a_context_that_does_not_continue_the_stored_one_is_sent_whole(
    model_server: ModelServer, tmp_path: Path
) -> None:
    async with stage(tmp_path, {"own": builtin(model_server)}) as scene:
        await opened(scene)
        kept = Transcribed(scene)
        await turn(kept, "first [[say:one]]")
        entry = kept.all_entries()[-1]["id"]
        await scene.prompt("second", context={"base": entry, "entries": [], "leaf": entry})
        refused = (await scene.next("session.error")).payload
        assert (refused.error_code, refused.fatal, entry in refused.message) == ("SESSION_NOT_FOUND", False, True)
        assert len(scene.all("session.turn.start")) == 1
        assert await turn(kept, "\n\nthird [[say:three]]") == "end_turn"


async def test_a_branch_replaces_the_former_conversation(model_server: ModelServer, tmp_path: Path) -> None:
    async with stage(tmp_path, {"own": builtin(model_server)}) as scene:
        await opened(scene)
        kept = Transcribed(scene)
        await turn(kept, "first [[say:one]]")
        base = kept.all_entries()[-1]["id"]
        await turn(kept, "\n\nwrong [[say:way]]")
        await scene.prompt("\n\nright [[say:way]]", context={"base": base, "entries": [], "leaf": base})
        await scene.next("session.usage")
        assert "wrong" not in asked(model_server)
        assert "first" in asked(model_server)


async def test_a_context_larger_than_a_frame_is_sent_as_a_file(model_server: ModelServer, tmp_path: Path) -> None:
    async with stage(tmp_path, {"own": builtin(model_server)}) as scene:
        await opened(scene)
        kept = Transcribed(scene)
        kept.append(UserEntry(content="long ago " + "x" * 900_000, timestamp=1))
        data = msgspec.json.encode(kept.context())
        for chunk in chunks("t-1", File("context.json", "application/json", data, "context")):
            await scene.send("agent.file.transfer", chunk)
        named = {"transfer_id": "t-1", "media_type": "application/json", "sha256": hashlib.sha256(data).hexdigest()}
        assert await allowed(scene, "\n\nnow [[say:yes]]", context=named) == "end_turn"
        assert "long ago" in asked(model_server)
        # It is forgotten with the prompt's beginning, and one that never came is named.
        await scene.prompt("again", context=named)
        assert "was not sent" in (await scene.next("session.error")).payload.message


def test_a_cache_accepts_only_the_entries_that_follow() -> None:
    sent = {"base": None, "entries": [{"id": "a", "message": {}}, {"id": "b", "message": {}}], "leaf": "b"}
    cache = Cache().following(sent)
    assert cache.leaf == "b"
    assert cache.following({"base": "a", "entries": [{"id": "c", "message": {}}], "leaf": "c"}).entries == (
        ContextEntry("a", {}), ContextEntry("c", {}))
    assert cache.following({"base": None, "entries": [], "leaf": None}) == Cache()
    for wrong in ({"base": "z", "entries": [], "leaf": "z"}, {"base": "a", "entries": [], "leaf": "b"}, {"entries": 1}):
        with pytest.raises(ContextUnknown):
            cache.following(wrong)


WORDS = st.lists(st.sampled_from([
    "[[say:Well, ]]", "[[think:hm]]", "[[call:list {}]]", '[[call:read {"path":"no"}]]', "[[call:fly {}]]",
    "[[tool:echo hi; exit 2]]", '[[call:write {"path":"a","content":"b"}]]', "[[call:shell nothing]]", "[[many:2]]",
    "[[tool:seq 1 20000]]"]), min_size=1, max_size=4, unique=True)


@pytest.mark.parametrize("form", ["anthropic", "chat"])
async def test_the_transcript_yields_the_context_that_the_agent_had(
    model_server: ModelServer, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[builtin_turn.AgentTurn] = []
    run = builtin_turn.AgentTurn.run

    async def noted(turn: builtin_turn.AgentTurn, *given: Any) -> Any:
        turns.append(turn)
        return await run(turn, *given)

    monkeypatch.setattr(builtin_turn.AgentTurn, "run", noted)
    async with stage(tmp_path, {"own": builtin(model_server, form)}) as scene:
        await opened(scene)
        kept = Transcribed(scene)
        examples: list[list[str]] = []

        @settings(max_examples=8, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
        @given(WORDS)
        def collect(words: list[str]) -> None:
            examples.append(words)

        collect()
        for words in examples:
            assert await turn(kept, "\n\n" + " ".join(words)) == "end_turn", errors(scene)
            had = [*turns[-1].history, *turns[-1].live]
            assert plain(cleaned(kept.messages, form)) == plain(cleaned(had, form))


# --- compaction ---
def planned(kept: Transcribed, keep: int = 1_500) -> tuple[dict[str, Any], Any]:
    made = plan(EntryPath.of_tree(kept.tree), CompactionSettings(keep_recent_tokens=keep), 200_000)
    return {**msgspec.to_builtins(made), "entries": len(made.entry_ids), "context": kept.context()}, made


@pytest.fixture(params=["anthropic", "responses"])
def form(request: pytest.FixtureRequest) -> str:
    return request.param


async def overflowed(scene: Stage) -> Frame:
    while (outcome := await scene.next("agent.error", "session.turn.end")).type == "agent.error":
        if outcome.payload.error_code == "CONTEXT_OVERFLOW":
            return outcome
    raise AssertionError(errors(scene))


@pytest.mark.req("Z-2", "W-2", "P-7")
async def test_an_overflow_in_mid_turn_is_compacted_and_no_tool_is_repeated(
    model_server: ModelServer, form: str, tmp_path: Path
) -> None:
    async with stage(tmp_path, {"own": builtin(model_server, form)}) as scene:
        await opened(scene)
        kept = Transcribed(scene)
        long_conversation(kept, 8)
        # The call fits, and with its result the request is too long.
        size = await request_size(model_server, kept)
        await kept.prompt(f"\n\nnow [[tool:echo once >> ran; seq 1 300]] [[room:{size + 700}]]")
        await scene.answer(await scene.next("agent.interaction.request"), "allow")
        outcome = await overflowed(scene)
        assert (outcome.payload.severity, outcome.payload.turn_id) == (
            "warning", scene.all("session.turn.start")[-1].payload.turn_id)
        given_plan, made = planned(kept, 2_300)  # Cut before a question: a turn that is split is summed up twice.
        assert kept.all_entries()[-1]["message"]["role"] == "toolResult"
        asked_for = await scene.send("control.session.compact", p.SessionCompact(request_id="r-1", plan=given_plan))
        report = await scene.next("session.compacted")
        assert report.metadata["in_reply_to"] == asked_for.message_id
        assert report.payload.covers == p.Covers(made.first_kept, len(made.entry_ids))
        assert (await scene.next("session.turn.end")).payload.stop_reason == "end_turn", errors(scene)
        await scene.next("session.usage")
        assert scene.text() == f"ok{AFTER_TOOL}"
        assert (tmp_path / "ran").read_text() == "once\n"
        assert "Test session" in asked(model_server)
        assert "question 0" not in asked(model_server)
        assert len(scene.all("tool.invoke.request")) == 1
        states = [f.payload.state for f in scene.all("agent.state.changed")]
        assert states[-3:] == ["compacting", "running", "idle"]
        # The summary's tokens are the turn's as well (P-7): it was asked three times, and got three answers.
        owed = scene.all("session.usage")[-1].payload
        assert (owed.turn_id, owed.token_usage.output_tokens) == (outcome.payload.turn_id, 3 * OUTPUT_TOKENS)


async def request_size(server: ModelServer, kept: Transcribed) -> int:
    """Characters of a request with the conversation so far."""
    await turn(kept, "\n\nwarm up [[say:ok]]")
    return server.recording.turns()[-1].asked.size


@pytest.mark.req("Z-2", "W-2")
async def test_an_overflow_without_remedy_ends_the_turn_with_its_own_error(
    model_server: ModelServer, tmp_path: Path
) -> None:
    async with stage(tmp_path, {"own": builtin(model_server)}) as scene:
        await opened(scene)
        await scene.prompt("now [[overflow]]")
        outcome = await overflowed(scene)
        await scene.send("session.error", p.SessionError(
            error_code="COMPACTION_FAILED", message="nothing to compact", fatal=False),
            {"in_reply_to": outcome.message_id})
        assert (await scene.next("session.turn.end")).payload.stop_reason == "error"
        assert errors(scene)[-1][:2] == ("error", "CONTEXT_OVERFLOW")
        await scene.next("session.usage")
        # Once: the second overflow of a turn is its end.
        kept = Transcribed(scene)
        long_conversation(kept)
        await kept.prompt("\n\nagain [[overflow]]")
        await overflowed(scene)
        await scene.send("control.session.compact", p.SessionCompact(request_id="r-1", plan=planned(kept)[0]))
        assert (await scene.next("session.turn.end")).payload.stop_reason == "error"
        assert len(scene.all("session.compacted")) == 1
        await scene.next("session.usage")
        # A cancel is handled while the gateway plans.
        await scene.prompt("\n\nagain [[overflow]]")
        await overflowed(scene)
        await scene.cancel()
        assert (await scene.next("session.turn.end")).payload.stop_reason == "cancelled"


@pytest.mark.req("Z-7")
async def test_old_results_are_pruned_for_the_request_only(model_server: ModelServer, tmp_path: Path) -> None:
    (tmp_path / "big.txt").write_text("\n".join("word " * 200 for _ in range(48)))
    async with stage(tmp_path, {"own": builtin(model_server, context_window=40_000)}) as scene:
        await opened(scene)
        kept = Transcribed(scene)
        for number in range(5):
            await turn(kept, f'\n\nread {number} [[call:read {{"path":"big.txt"}}]]')
        assert "Tool result trimmed" in asked(model_server) or "Old tool result content cleared" in asked(model_server)
        assert all(len(output) > 40_000 for _, output in results(scene))


@pytest.mark.req("Z-5")
async def test_a_silent_turn_adds_to_the_transcript(model_server: ModelServer, tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory/2026-11-21.md").write_text("kept\n")
    async with stage(tmp_path, {"own": builtin(model_server)}) as scene:
        await opened(scene)
        await allowed(scene, '[[call:write {"path":"memory/2026-11-21.md","content":"new\\n"}]]', silent=True)
        assert (tmp_path / "memory/2026-11-21.md").read_text() == "kept\nnew\n"
        await allowed(scene, '\n\n[[call:write {"path":"memory/2026-11-21.md","content":"all\\n"}]]')
        assert (tmp_path / "memory/2026-11-21.md").read_text() == "all\n"
