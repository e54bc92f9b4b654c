"""Compaction by the built-in agent: a plan is summed up by the model, and an incomplete summary is discarded (Z-4)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from agents.builtin.conversations import long_conversation, turn
from agents.builtin.test_agent import opened
from agents.builtin_stage import builtin
from agents.transcribed import Transcribed
from interlock.model_stand_in import ModelServer
from interlock.protocol import payloads as p
from interlock.session.context.compaction_plan import CompactionSettings, plan
from interlock.session.context.compaction_plan import Path as EntryPath
from runner.stage import stage

pytestmark = [pytest.mark.anyio, pytest.mark.req("B-1")]


def asked(server: ModelServer) -> str:
    return msgspec.json.encode(server.recording.all()[-1].body).decode()


def planned(kept: Transcribed, keep: int = 1_500) -> tuple[dict[str, Any], Any]:
    made = plan(EntryPath.of_tree(kept.tree), CompactionSettings(keep_recent_tokens=keep), 200_000)
    return {**msgspec.to_builtins(made), "entries": len(made.entry_ids), "context": kept.context()}, made


@pytest.fixture(params=["anthropic", "responses"])
def form(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.mark.req("Z-4", "T-6", "P-7")
async def test_the_model_summarizes_a_plan(model_server: ModelServer, form: str, tmp_path: Path) -> None:
    async with stage(tmp_path, {"own": builtin(model_server, form)}) as scene:
        await opened(scene)
        kept = Transcribed(scene)
        long_conversation(kept)
        given_plan, made = planned(kept)
        request = p.SessionCompact(request_id="r-1", instructions="keep the numbers", plan=given_plan)
        frame = await scene.send("control.session.compact", request)
        report = await scene.next("session.compacted", "session.error")
        assert report.type == "session.compacted", report.payload
        assert report.metadata["in_reply_to"] == frame.message_id
        compacted: p.Compacted = report.payload
        assert (compacted.request_id, compacted.trigger) == ("r-1", "requested")
        assert compacted.covers == p.Covers(made.first_kept, len(made.entry_ids))
        assert compacted.summary == "Test session"
        assert compacted.current_token_count < compacted.previous_token_count
        # What it took is reported after it, and is not a turn's (P-7).
        took: p.Usage = (await scene.next("session.usage")).payload
        assert (took.turn_id, took.context_window.used) == (None, None)
        assert took.token_usage.input_tokens > 0
        assert took.token_usage.output_tokens > 0
        sent = asked(model_server)
        assert "question 0" in sent
        assert "keep the numbers" in sent
        assert "question 5" not in sent
        assert model_server.recording.turns() == []  # It asks with no tools, and not as a turn.


@pytest.mark.req("Z-3", "Z-4")
async def test_the_head_of_a_split_turn_is_summarized_separately_and_files_are_kept(
    model_server: ModelServer, tmp_path: Path
) -> None:
    async with stage(tmp_path, {"own": builtin(model_server)}) as scene:
        await opened(scene)
        kept = Transcribed(scene)
        long_conversation(kept, 4)
        given_plan, made = planned(kept)
        cut = kept.all_entries().index(next(one for one in kept.all_entries() if one["id"] == made.first_kept))
        head = [one["id"] for one in kept.all_entries()[1:cut]]
        given_plan |= {"turn_head": head, "read_files": ["a.py"], "modified_files": ["b.py"],
                       "previous_summary": "What was long ago."}
        await scene.send("control.session.compact", p.SessionCompact(request_id="r-1", plan=given_plan))
        compacted: p.Compacted = (await scene.next("session.compacted")).payload
        assert compacted.summary.count("Test session") == 2
        assert "Beginning of the turn" in compacted.summary
        summary = compacted.summary
        assert summary.endswith("<read-files>\na.py\n</read-files>\n\n<modified-files>\nb.py\n</modified-files>")
        assert compacted.preserved_elements == {"files_modified": ["b.py"]}
        # A hook's own summary is taken as it is, and no model is asked.
        await scene.send("control.session.compact",
                         p.SessionCompact(request_id="r-2", plan={**given_plan, "summary": "Mine."}))
        assert (await scene.next("session.compacted")).payload.summary == "Mine."
        assert len(model_server.recording.all()) == 2
        first, second = (msgspec.json.encode(one.body).decode() for one in model_server.recording.all())
        assert "What was long ago." in first
        assert "What was long ago." not in second


@pytest.mark.req("Z-4")
@pytest.mark.parametrize("form", ["anthropic", "chat", "responses", "gemini"])
@pytest.mark.parametrize(("word", "why"), [("length", "cut at"), ("ends", "without reporting that it was complete")])
async def test_a_partial_summary_is_rejected(
    model_server: ModelServer, form: str, word: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.agents.builtin.model_request.MAX_TRIES", 1)
    async with stage(tmp_path, {"own": builtin(model_server, form)}) as scene:
        await opened(scene)
        kept = Transcribed(scene)
        long_conversation(kept)
        given_plan, _ = planned(kept)
        await scene.send("control.session.compact", p.SessionCompact(
            request_id="r-1", instructions=f"[[summary:{word}]]", plan=given_plan))
        refused = await scene.next("session.compacted", "session.error")
        assert refused.type == "session.error", refused.payload
        assert why in refused.payload.message


@pytest.mark.req("Z-4")
@pytest.mark.parametrize("wrong", [{"first_kept": "nowhere0"}, {"entries": 99}, {"entry_ids": 7}])
async def test_a_plan_that_does_not_match_the_context_is_refused(
    model_server: ModelServer, wrong: dict[str, Any], tmp_path: Path
) -> None:
    async with stage(tmp_path, {"own": builtin(model_server)}) as scene:
        await opened(scene)
        kept = Transcribed(scene)
        long_conversation(kept)
        given_plan = planned(kept)[0] | wrong
        await scene.send("control.session.compact", p.SessionCompact(request_id="r-1", plan=given_plan))
        refused = (await scene.next("session.error")).payload
        assert (refused.error_code, refused.fatal) == ("COMPACTION_FAILED", False)
        assert model_server.recording.all() == []
        assert await turn(kept, "\n\nstill [[say:here]]") == "end_turn"
