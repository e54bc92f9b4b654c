"""Frames that a buffer lost are reported once, even if a history repeats it (D-3)."""

from __future__ import annotations

import msgspec
import pytest

from engine.bridge.steps import running
from engine.conversation import Table
from engine.within import Within
from interlock.engine.bridge.link.losses import report_truncation
from interlock.protocol import payloads as p

pytestmark = pytest.mark.anyio


@pytest.mark.req("D-4", "D-3")
async def test_each_lost_frame_is_reported_once_however_often_a_history_repeats_it() -> None:
    table = Table()
    _, session_id = await running(table)
    shell = await table.lane(session_id)

    async def history(count: int, *ranges: tuple[int, int], profile: bool = True) -> None:
        status = p.BufferStatus(policy_applied="RING", truncated=count > 0, lost_frame_count=count)
        await shell.call(Within(lambda lane: report_truncation(lane, status, list(ranges), "m", profile=profile)))

    async def arrive(*seqs: int) -> None:
        for seq in seqs:
            await shell.call(Within(lambda lane, seq=seq: lane.state.reach(seq)))

    first = shell.lane.state.last_seq + 1
    await history(4, (first, first + 2), (first + 4, first + 4))
    await history(6, (first, first + 2), (first + 4, first + 6))
    await arrive(first + 3)  # The three that were lost before it are behind the session now.
    await history(3, (first + 4, first + 6))
    await history(0)
    await arrive(first + 7, first + 8)
    await history(1, (first + 9, first + 9))
    notices = [msgspec.json.decode(event.body)
               for event in await table.ledger.events("default", f"s/{session_id}", 0, 100) if event.kind == "notice"]
    assert [notice["lost_frame_count"] for notice in notices] == [4, 2, 1]
    assert shell.lane.state.lost_frames == 7
