"""Whether the gateway can do its work: its ledger is probed seldom, once at a time, and a silent one means not
ready."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from interlock.backends.memory.clock import ManualClock
from interlock.gateway.rest import readiness
from interlock.gateway.rest.readiness import PROBE_MS, Ready
from interlock.ports.ledger import LedgerError

pytestmark = [pytest.mark.anyio, pytest.mark.req("N-3")]


class Parts:
    """A gateway as it is asked, and how often its ledger was written to."""

    def __init__(self, state: Path) -> None:
        self.clock, self.written, self.up = ManualClock(), 0, True
        self.fails: Exception | None = None
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.gauge: list[bool] = []
        self.stalled: dict[str, str] = {}
        self.front: Any = SimpleNamespace(
            clock=self.clock, facts=SimpleNamespace(state_dir=str(state)), cluster=None,
            signing=SimpleNamespace(stalled=self.stalled),
            metrics=SimpleNamespace(ready=SimpleNamespace(set=self.gauge.append)),
            desk=SimpleNamespace(ledger=self, engine_status=lambda: SimpleNamespace(up=self.up),
                                 drains=SimpleNamespace(of=lambda _tenant: [])))
        self.ready = Ready(self.front)

    async def commit(self, _batch: Any) -> None:
        self.written += 1
        await self.go_on.wait()
        if self.fails is not None:
            raise self.fails


async def test_all_dependencies_must_be_available(tmp_path: Path) -> None:
    parts = Parts(tmp_path)
    assert (await parts.ready.look()).ok
    parts.up = False
    assert not (await parts.ready.look()).ok
    parts.up = True
    parts.stalled["t1"] = "full"
    look = await parts.ready.look()
    assert (look.ok, look.audit, look.ledger) == (False, "refuses", "writes")
    assert parts.gauge == [True, False, False]


async def test_the_ledger_is_probed_at_most_once_a_second(tmp_path: Path) -> None:
    parts = Parts(tmp_path)
    await parts.ready.look()
    await parts.ready.look()
    assert parts.written == 1
    parts.clock.advance(PROBE_MS)
    parts.fails = LedgerError("no disk")
    assert (await parts.ready.look()).ledger == "refuses"
    assert parts.written == 2


async def test_a_hanging_ledger_is_not_ready_and_collects_no_writes(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "PROBE_TIMEOUT_S", 0.01)
    parts = Parts(tmp_path)
    parts.go_on.clear()
    for _ in range(3):
        assert (await parts.ready.look()).ledger == "refuses"
        parts.clock.advance(PROBE_MS)
    assert parts.written == 1
    parts.go_on.set()
    monkeypatch.setattr(readiness, "PROBE_TIMEOUT_S", 30.0)
    assert (await parts.ready.look()).ledger == "writes"


async def test_a_full_disk_is_reported_before_the_ledger_is_probed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "ROOM_BYTES", 2**62)
    parts = Parts(tmp_path)

    assert (await parts.ready.look()).ledger == "refuses"
    assert parts.written == 0
