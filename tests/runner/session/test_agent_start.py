"""Starting an agent: a failed start reports its reason, and the end of the runner aborts one (A-1)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from runner.stage import misbehaving, stage

pytestmark = pytest.mark.anyio


@pytest.mark.req("W-2", "A-1")
async def test_failing_opens_report_their_reason(tmp_path: Path) -> None:
    agents = {"bad": misbehaving(), "login": misbehaving("--start=session-error"), "dies": misbehaving("--start=die"),
              "old": misbehaving("--start=version")}
    async with stage(tmp_path, agents) as scene:
        for agent_id, workspace, code, word in (
            ("nobody", None, "AGENT_START_FAILED", "no agent"),
            ("login", None, "AGENT_START_FAILED", "Authentication required"),
            ("dies", None, "AGENT_START_FAILED", "exit code 3"),
            ("old", None, "AGENT_START_FAILED", "version 99"),
            ("bad", "/", "WORKSPACE_REFUSED", "outside"),
        ):
            opened = await scene.open(agent_id, workspace)
            error = await scene.next("session.error")
            assert (error.payload.error_code, error.payload.fatal) == (code, True)
            assert error.metadata["in_reply_to"] == opened.message_id
            assert word in error.payload.message
            await scene.next("session.closed")


@pytest.mark.req("A-4", "T-3")
async def test_the_runners_end_aborts_a_start(tmp_path: Path) -> None:
    async with stage(tmp_path, {"slow": misbehaving("--start=hang")}) as scene:
        opening = asyncio.create_task(scene.open("slow"))
        session = None
        while session is None or not session.starting:
            await asyncio.sleep(0)
            session = scene.sessions.all.get(scene.session_id)
        await scene.sessions.close_all("the runner is stopping")
        await opening
        assert scene.durable() == ["session.error", "session.closed"]
