"""What an adapter writes with, by itself: what the calls of a subagent carry."""

from __future__ import annotations

import secrets

import pytest

from interlock.ports.outbox import OutboxWrite, Piece
from interlock.protocol.envelope import Frame
from interlock.runner.asking import Interactions, Presence
from interlock.runner.journal import Journal
from interlock.runner.scribe import TurnScribe
from interlock.runner.state import SessionState, TurnState
from runner.stage import NOW_MS, PATIENT, StillClock

pytestmark = pytest.mark.anyio


class Kept:
    """A flow whose outbox is a list of frames."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []

    async def emit(self, *writes: OutboxWrite) -> None:
        self.frames += [write for write in writes if isinstance(write, Frame)]

    async def emit_delta(self, frame: Frame, piece: Piece) -> None:
        self.frames.append(frame)

    async def flushed(self) -> None:
        return


@pytest.mark.req("A-7")
async def test_a_subagents_frames_tell_through_whom_they_came() -> None:
    kept = Kept()
    journal = Journal("s-1", SessionState(), kept, StillClock(), secrets.token_bytes)
    turn = TurnState(journal.new_uuid(), "p-1", NOW_MS)
    scribe = TurnScribe(journal, turn, Interactions(journal, Presence(), PATIENT))
    await scribe.tool_request("t1", "Task", b'{"subagent_type": "Explore", "prompt": "look"}')
    await scribe.tool_request("t2", "Agent", b'{"prompt": "look deeper"}', parent_invocation_id="t1")
    await scribe.tool_request("t3", "Grep", b"[]", parent_invocation_id="t2", kind="search")
    await scribe.tool_output("t3", "stdout", "a.py")
    await scribe.tool_result("t3", "ok", "text", None)
    await scribe.tool_request("t4", "Grep", b"{}", parent_invocation_id="unknown")
    await scribe.tool_result("t1", "ok", "agent_result", "found")
    explore = {"agent_id": "Explore", "invocation_id": "t1"}
    deeper = [explore, {"agent_id": "Agent", "invocation_id": "t2"}]
    told = [(f.type.rpartition(".")[2], f.payload.invocation_id, f.metadata) for f in kept.frames]
    assert told == [
        ("request", "t1", {}),
        ("request", "t2", {"delegation_chain": [explore]}),
        ("request", "t3", {"delegation_chain": deeper, "kind": "search"}),
        ("stream", "t3", {"delegation_chain": deeper}),
        ("result", "t3", {"delegation_chain": deeper}),
        ("request", "t4", {}),
        ("result", "t1", {}),
    ]
