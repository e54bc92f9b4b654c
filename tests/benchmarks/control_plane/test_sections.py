"""The gateway that the control plane's benchmark drives is a whole one, and its rows end with figures."""

from __future__ import annotations

import httpx2
import msgspec
import pytest

from benchmarks.control_plane.command_posts import OPENING, existing
from benchmarks.control_plane.fan_out import through_the_hub
from benchmarks.control_plane.post_process import api, stored
from benchmarks.control_plane.report import Line, table
from benchmarks.control_plane.sections import SECTIONS
from interlock.app.place import SystemClock
from interlock.backends.memory.ledger import MemoryLedger

KEY = "ilk_of_a_benchmark"


@pytest.mark.anyio
async def test_a_session_is_opened_and_gets_more_commands() -> None:
    app, _ = await api(MemoryLedger(), KEY)
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json", "Idempotency-Key": "k" * 16}
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1") as http:
        opened = await http.post("/v1/commands", content=OPENING, headers=headers)
        assert (opened.status_code, opened.json()["state"]) == (202, "queued")
        more = existing(opened.json()["target"]["session_id"])
        queued = await http.post("/v1/commands", content=more, headers={**headers, "Idempotency-Key": "l" * 16})
        assert (queued.status_code, queued.json()["state"]) == (202, "queued")
        assert msgspec.json.decode(more)["on_busy"] == "enqueue"


@pytest.mark.anyio
async def test_the_floor_stores_the_same_rows_as_a_gateway_for_a_command() -> None:
    ledger = MemoryLedger()
    app = stored(ledger, SystemClock())
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1") as http:
        answers = [await http.post("/v1/commands", content=OPENING) for _ in range(2)]
    first, second = (answer.json()["id"] for answer in answers)
    assert [answer.status_code for answer in answers] == [202, 202]
    assert [record.seq for record in await ledger.audit("default", 0, 10)] == [1, 2]
    for command_id in (first, second):
        record = await ledger.command(command_id, "default")
        assert record is not None
        assert record.command.payload_sha256 == answers[0].json()["payload_sha256"]
        assert await ledger.head("default", f"c/{command_id}") == 1
    assert await ledger.head("default", "t/default") == 2


@pytest.mark.anyio
async def test_every_viewer_of_the_hub_receives_every_event() -> None:
    assert await through_the_hub(frames=128) > 0


def test_each_figure_states_whether_it_is_within_its_limit() -> None:
    assert set(SECTIONS) == {"3", "4", "5", "6", "8", "11-audit", "11-commands", "11-sessions"}
    lines = [Line("4", "limit", 10, "/s", 1.0), Line("4", "ours", 4, "/s", 0.4, 0.3),
             Line("11", "grown", 9, "µs", 1.6, 1.5, at_most=True)]
    assert [line.met for line in lines] == [None, True, False]
    assert "| 11 | grown | 9 µs | 1.60 | ≤ 1.5: not met |" in table(lines)
