"""At the runner's next start: what its last run left open is closed, and no text that was seen is lost (D-6)."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from interlock.protocol import payloads as p
from runner.stage import stage

pytestmark = pytest.mark.anyio


@pytest.mark.req("D-6", "D-7")
async def test_a_restart_closes_open_blocks_and_tools(tmp_path: Path) -> None:
    async with stage(tmp_path) as before:
        await before.open("bad")
        await before.prompt("text:so open-tool ask:made.txt")
        await before.next("agent.interaction.request")
        late = await before.store("control.prompt.request", p.PromptRequest(
            prompt_id="late", input_type="text", origin="user", text="x"))
        await before.outflow.flushed()
        # What the outbox holds at this instant is all that a killed runner leaves.
        outbox, machine = copy.deepcopy((before.outbox, before.machine))
        await before.cancel()
        await before.next("session.usage")
    async with stage(tmp_path, outbox=outbox, machine=machine) as after:
        kinds = after.durable()
        assert kinds[:3] == ["tool.invoke.result", "tool.invoke.result", "x-interlock.interaction.resolved"]
        assert after.all("x-interlock.interaction.resolved")[0].payload.outcome == "void"
        assert kinds.index("session.turn.end") + 1 == kinds.index("session.usage")
        assert kinds[-1] == "session.closed"
        errors = [f.payload for f in after.all("agent.error", "session.error")]
        assert {e.error_code for e in errors} == {"RUNNER_RESTARTED"}
        assert machine.phase == "closed"
        assert late.message_id in [f.metadata.get("in_reply_to") for f in after.all("session.error")]


@pytest.mark.req("D-6")
async def test_shown_text_survives_a_restart(tmp_path: Path) -> None:
    async with stage(tmp_path) as before:
        await before.open("bad")
        await before.prompt("think:hm text:seen wait")
        await before.next("agent.text.delta")
        await before.outflow.flushed()
        outbox, machine = copy.deepcopy((before.outbox, before.machine))
    async with stage(tmp_path, outbox=outbox, machine=machine) as after:
        done = after.all("agent.text.done")
        assert [(f.payload.text, f.metadata) for f in done] == [("seen", {"partial": True})]
        assert after.all("session.usage")[0].metadata == {"estimated": True}
        await after.sessions.recover()
        assert after.durable().count("session.turn.end") == 1


@pytest.mark.req("D-7")
async def test_an_open_that_was_interrupted_by_a_kill_is_answered(tmp_path: Path) -> None:
    async with stage(tmp_path) as before:
        opened = await before.store("control.session.open", p.SessionOpen(
            session_id=before.session_id, agent_id="bad", workspace="", workspace_access="rw"))
        outbox = copy.deepcopy(before.outbox)
    async with stage(tmp_path, outbox=outbox) as after:
        error, closed = after.all("session.error", "session.closed")
        assert (error.payload.error_code, error.payload.fatal) == ("RUNNER_RESTARTED", True)
        assert error.metadata["in_reply_to"] == opened.message_id
        assert closed.payload.reason == "the runner was restarted"
