"""Heartbeats of runners, sent from gateway to gateway: what changed, and whose heartbeat came (L-5, S-2)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.engine.cluster.heartbeats import (
    AGENTS_A_NOTE,
    ASK_EVERY_MS,
    HeartbeatNote,
    NoteReceiver,
    OthersBeats,
    OwnBeats,
)
from interlock.engine.presence import Present, RunnerPresence, facts_of
from interlock.ports.leases import RunnerLocation
from interlock.protocol import payloads as p
from interlock.protocol.envelope import DPS_VERSION
from interlock.protocol.records import RunnerRecord

pytestmark = [pytest.mark.anyio, pytest.mark.req("L-5", "L-6", "C-4")]


class Pair:
    """A gateway with runners, and another that receives their heartbeats."""

    def __init__(self) -> None:
        self.notes: list[bytes] = []
        self.asked: list[str] = []
        self.now_ms = 1_000
        self.passed_ms = 0
        self.own = OwnBeats(lambda: "i_a", self.notes.append, lambda: self.now_ms)
        self.presence = RunnerPresence()
        self.others = OthersBeats(NoteReceiver(self.presence.unchanged_elsewhere, self.presence.changed_elsewhere),
                                  self.asked.append, lambda: self.passed_ms)

    def attach(self, runner_id: str, link_id: str = "l1") -> None:
        record = RunnerRecord(runner_id=runner_id, tenant_id="t1", token_sha256="", device_name="box", created_ms=0,
                              last_seen_ms=0)
        hello = p.Hello(versions=[DPS_VERSION], runner_id=runner_id, boot_id="b", agents=[], sessions=[], roots=[])
        present = Present(record, hello, 0)
        self.presence.learn_one(RunnerLocation(runner_id, "t1", "i_a", link_id, facts_of(present)))

    def beat(self, runner_id: str, state: Any = "idle", link_id: str = "l1") -> None:
        self.own.add(runner_id, link_id, [p.LiveAgent(session_id="s1", agent_id="shell", state=state)])

    def deliver(self) -> HeartbeatNote:
        self.own.flush()
        body = self.notes[-1]
        self.others.receive(body)
        return msgspec.msgpack.decode(body, type=HeartbeatNote)

    def known(self, runner_id: str) -> tuple[int, list[str]]:
        present = self.presence.get(runner_id)
        assert present is not None
        return present.last_seen_ms, [agent.state for agent in present.live.values()]


@pytest.fixture
async def pair() -> Pair:
    made = Pair()
    for runner_id in ("r1", "r2"):
        made.attach(runner_id)
    return made


async def test_an_unchanged_heartbeat_is_sent_as_the_runners_name_only(pair: Pair) -> None:
    pair.beat("r1")
    pair.beat("r2")
    first = pair.deliver()
    assert [one.runner_id for one in first.changed] == ["r1", "r2"]
    assert pair.known("r1") == (1_000, ["idle"])
    pair.now_ms = 16_000
    pair.beat("r1")
    pair.beat("r2", "running")
    second = pair.deliver()
    assert (second.unchanged, [one.runner_id for one in second.changed]) == (["r1"], ["r2"])
    assert (pair.known("r1"), pair.known("r2")) == ((16_000, ["idle"]), (16_000, ["running"]))
    assert pair.asked == []


async def test_without_a_heartbeat_nothing_is_sent(pair: Pair) -> None:
    pair.own.flush()
    assert pair.notes == []


async def test_a_gateway_that_missed_a_note_requests_and_gets_everything(pair: Pair) -> None:
    pair.beat("r1")
    pair.deliver()
    pair.beat("r1", "running")
    pair.own.flush()
    pair.beat("r1", "running")
    pair.deliver()
    assert pair.known("r1") == (1_000, ["idle"]), "the change was in the note that was lost"
    assert pair.asked == ["i_a"]
    pair.own.send_all_in_full()
    pair.beat("r1", "running")
    pair.deliver()
    assert pair.known("r1") == (1_000, ["running"])


async def test_a_gateway_that_learns_of_a_link_late_requests_its_heartbeats(pair: Pair) -> None:
    pair.beat("r3")
    pair.deliver()
    assert pair.asked == ["i_a"], "nothing is known of it"
    pair.attach("r3")
    pair.beat("r3")
    pair.deliver()
    assert pair.asked == ["i_a"], "not every second"
    pair.passed_ms = ASK_EVERY_MS
    pair.beat("r3")
    pair.deliver()
    assert pair.asked == ["i_a", "i_a"]
    pair.own.send_all_in_full()
    pair.beat("r3")
    pair.passed_ms = 2 * ASK_EVERY_MS
    pair.deliver()
    assert pair.known("r3") == (1_000, ["idle"])
    assert len(pair.asked) == 2


async def test_a_heartbeat_of_a_replaced_link_is_ignored(pair: Pair) -> None:
    pair.beat("r1")
    pair.deliver()
    pair.attach("r1", "l2")
    pair.now_ms = 2_000
    pair.beat("r1", "running")
    pair.deliver()
    assert pair.known("r1") == (0, [])
    pair.own.drop_link("r1", "l1")
    pair.own.flush()
    assert len(pair.notes) == 2


async def test_many_heartbeats_are_sent_before_the_second_ends(pair: Pair) -> None:
    for at in range(AGENTS_A_NOTE // 2):
        pair.own.add(f"r{at}", "l1", [p.LiveAgent(session_id="s1", agent_id="shell", state="idle")])
    assert len(pair.notes) == 1
    assert len(pair.notes[0]) < 1_000_000

