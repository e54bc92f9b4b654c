"""Updates of a session among a hundred and among a hundred thousand, with their view, and the list of 5,000 (N-1)."""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import msgspec

from benchmarks import REPOSITORY
from interlock.app.place import SystemClock
from interlock.app.session_views import SessionViews
from interlock.backends.sqlite.ledger import LEDGER_NAME, SqliteLedger, open_ledger
from interlock.command.policy.policy import RuleSet
from interlock.engine.bridge.lane_state import LaneState, Limits
from interlock.engine.engine import Engine
from interlock.engine.viewers.viewers import Viewers
from interlock.gateway.access.credentials import OWNER_FILE
from interlock.ports.ledger import PutSession, WriteBatch
from interlock.protocol.records import IdempotencyRecord, Principal, SessionRecord
from interlock.protocol.resources import Actor
from interlock.session.store.entry import SessionFields

FEW, MANY, LISTED = 100, 100_000, 5_000
UPDATES = 300
BATCH = 2_000
RATIO = 1.5
"""The largest ratio of the time of an update among many to that among few (N-1)."""
OWNER = Principal(tenant_id="default", actor=Actor(type="user", id="owner"), role="owner", key_id="key_1")


def measured(directory: Path, most: int = MANY) -> dict[str, Any]:
    """All figures, with at most `most` sessions: seconds, their ratio, and how much of the time the view was
    written."""
    few = asyncio.run(_updates(_made(directory / "few"), min(FEW, most)))
    many = asyncio.run(_updates(_made(directory / "many"), min(MANY, most)))
    return {"few": few, "many": many, "ratio": many["update_s"] / few["update_s"], "ratio_limit": RATIO,
            "listed": listed(_made(directory / "listed"), min(LISTED, most))}


def _made(directory: Path) -> Path:
    directory.mkdir(mode=0o700)
    return directory


async def _filled(state: Path, count: int) -> SqliteLedger:
    ledger = await open_ledger(state / LEDGER_NAME, SystemClock())
    for first in range(0, count, BATCH):
        await ledger.commit(WriteBatch([PutSession(_row(number)) for number in range(first,
                                                                                     min(first + BATCH, count))]))
    return ledger


def _row(number: int) -> SessionRecord:
    session_id = f"00000000-0000-4000-8000-{number:012d}"
    key = f"agent:shell:telegram:dm:{number}"
    entry = SessionFields(chat_type="direct", provider="telegram", display_name=f"Person {number}",
                          session_started_at=1,
                          last_interaction_at=number + 1)
    lane = LaneState(session_id=session_id, tenant_id="default", session_key=key, agent_id="shell", runner_id="local",
                     workspace="/w", created_ms=number + 1, entry=entry)
    return SessionRecord(session_id=session_id, tenant_id="default", session_key=key, agent_id="shell",
                         runner_id="local", workspace="/w", state="idle", created_ms=number + 1, updated_ms=number + 1,
                         deadline_ms=None, machine=msgspec.json.encode(lane), usage={})


async def _updates(state: Path, count: int) -> dict[str, float]:
    """Update sessions one after another while the view is kept; then write the view once, alone."""
    ledger = await _filled(state, count)
    clock = SystemClock()
    engine = Engine(ledger, Viewers(ledger), clock, os.urandom, RuleSet([]), Limits())
    views = SessionViews(state, engine, clock)
    await engine.start()
    views.start()
    spent: list[float] = []
    for number in range(UPDATES):
        session_id = f"00000000-0000-4000-8000-{number * 7919 % count:012d}"
        began = time.perf_counter()
        await engine.sessions.patch(OWNER, session_id, {"label": f"turn {number}"}, _Remember(number))
        spent.append(time.perf_counter() - began)
    await views.stop()
    began = time.perf_counter()
    alone = SessionViews(state, engine, clock)
    await alone.find()
    await alone.look()
    written_s = time.perf_counter() - began
    await engine.stop()
    await ledger.close()
    size = (state / "agents/shell/sessions/sessions.json").stat().st_size
    return {"sessions": count, "update_s": statistics.median(spent), "slowest_s": max(spent), "view_s": written_s,
            "view_bytes": size}


class _Remember:
    def __init__(self, number: int) -> None:
        self._number = number

    def __call__(self, _made: Any) -> IdempotencyRecord:
        return IdempotencyRecord(tenant_id="default", scope=f"update-{self._number}", fingerprint="", status=200,
                                 headers={}, body=b"", created_ms=0)


def listed(state: Path, count: int) -> dict[str, float]:
    """Have a gateway list `count` sessions: one page over the API, and all with `interlock sessions --json`, as a
    process."""
    with _gateway(state):
        pass  # It signs the empty audit log: a log that others began has no checkpoint, and a gateway refuses it.

    async def fill() -> None:
        await (await _filled(state, count)).close()

    asyncio.run(fill())
    with _gateway(state) as url:
        key = (state / OWNER_FILE).read_text().strip()
        with httpx2.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}) as http:
            pages: list[float] = []
            for _ in range(20):
                began = time.perf_counter()
                http.get("/v1/sessions", params={"limit": 500}).raise_for_status()
                pages.append(time.perf_counter() - began)
        began = time.perf_counter()
        done = subprocess.run([sys.executable, "-m", "interlock", "sessions", "--json", "--limit", str(count),
                               "--state", str(state)], cwd=REPOSITORY, capture_output=True, check=True)
        whole = time.perf_counter() - began
    found = len(msgspec.json.decode(done.stdout)["sessions"])
    return {"sessions": found, "page_of_500_s": statistics.median(pages), "verb_s": whole}


@contextmanager
def _gateway(state: Path) -> Generator[str]:
    """Run `interlock gateway` on a state directory; return its URL. Raises RuntimeError with its log if it ends before
    it listens."""
    with subprocess.Popen([sys.executable, "-m", "interlock", "gateway", "--state", str(state), "--port", "0"],
                          cwd=REPOSITORY, stderr=subprocess.PIPE, text=True) as gateway:
        assert gateway.stderr is not None, "with a pipe"
        log: list[str] = []
        for line in gateway.stderr:
            log.append(line)
            if "listens on" in line:
                break
        else:
            raise RuntimeError(f"the gateway ended with {gateway.wait()}:\n{''.join(log)}")
        try:
            yield log[-1].rpartition(" ")[2].strip()
        finally:
            gateway.terminate()


def lines(report: dict[str, Any]) -> list[str]:
    """The figures as lines of text."""
    shown = [f"session update among {one['sessions']}: {one['update_s'] * 1e3:.2f} ms, slowest "
             f"{one['slowest_s'] * 1e3:.1f} ms; sessions.json {one['view_bytes'] / 1e6:.1f} MB, written in "
             f"{one['view_s']:.2f} s" for one in (report["few"], report["many"])]
    listed = report["listed"]
    return [*shown, f"ratio of the two: {report['ratio']:.2f} (limit {report['ratio_limit']})",
            f"sessions --json of {listed['sessions']}: {listed['verb_s']:.2f} s; a page of 500 over the API: "
            f"{listed['page_of_500_s'] * 1e3:.0f} ms"]
