"""Presence of runners: attaching, detaching, heartbeats, and their list (L-5, L-6)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engine.conversation import Table, Wire
from interlock.engine.presence import FACT_CHARS, Links, Present, RunnerPresence, facts_of
from interlock.ports.leases import RunnerLocation
from interlock.ports.ledger import Put, WriteBatch
from interlock.protocol import payloads as p
from interlock.protocol.envelope import DPS_VERSION
from interlock.protocol.records import RunnerRecord

pytestmark = pytest.mark.anyio

RECORD = RunnerRecord(runner_id="r1", tenant_id="default", token_sha256="", device_name="box", created_ms=0,
                      last_seen_ms=1_000)


def hello(*agents: str, **changes: Any) -> p.Hello:
    offers = [p.AgentOffer(agent_id=name, adapter="acp", adapter_type="process", permission="asks",
                           context_owner="agent") for name in agents]
    hello_frame = p.Hello(versions=[DPS_VERSION], runner_id="r1", boot_id="b", agents=offers, sessions=[], roots=["/w"])
    return msgspec.structs.replace(hello_frame, **changes)


def live(state: Any, session_id: str = "s1") -> p.RunnerHeartbeat:
    return p.RunnerHeartbeat(agents=[p.LiveAgent(session_id=session_id, agent_id="shell", state=state)])


@pytest.mark.req("L-6")
def test_a_runner_that_never_connected_is_listed_as_offline() -> None:
    node = RunnerPresence().node(RECORD)
    assert (node.node_id, node.device_name, node.status, node.active_sessions_count) == ("r1", "box", "offline", 0)
    assert node.last_seen == "1970-01-01T00:00:01.000Z"
    assert set(node.config_versions) == {"limits", "capabilities"}


@pytest.mark.req("Y-10")
@pytest.mark.parametrize(("paired", "of_host", "shown"), [("box", "renamed", "box"), ("", "desk", "desk")])
def test_a_runner_keeps_the_name_that_it_was_paired_with(paired: str, of_host: str, shown: str) -> None:
    presence, record = RunnerPresence(), msgspec.structs.replace(RECORD, device_name=paired)
    presence.arrive(Present(record, hello("shell", device_name=of_host), 2_000))
    assert presence.node(record).device_name == shown


@pytest.mark.req("L-6", "L-5")
def test_a_runners_state_follows_its_link_and_heartbeats() -> None:
    presence, wire = RunnerPresence(), Wire()
    present = presence.arrive(Present(RECORD, hello("shell", device_name="desk"), 2_000))
    assert presence.node(RECORD).status == "offline", "it is not attached before its lanes are"
    assert presence.link_of("r1") is None
    present.connect(wire)
    assert presence.node(RECORD).status == "online"
    for state, shown in (("idle", "online"), ("running", "busy"), ("waiting_approval", "busy"), ("paused", "busy"),
                         ("terminated", "online")):
        presence.take_heartbeat("r1", live(state), 3_000)
        node = presence.node(RECORD)
        assert (node.status, node.active_sessions_count, node.last_seen) == (shown, 1, "1970-01-01T00:00:03.000Z")
    assert (node.device_name, node.capabilities, node.roots) == ("box", ["acp"], ["/w"])
    assert presence.detach("r1", wire, 4_000)
    node = presence.node(RECORD)
    assert (node.status, node.active_sessions_count, node.last_seen) == ("offline", 0, "1970-01-01T00:00:04.000Z")


@pytest.mark.req("L-5")
def test_a_heartbeat_replaces_the_commands_of_the_one_before() -> None:
    presence = RunnerPresence()
    present = presence.arrive(Present(RECORD, hello("shell"), 0))
    presence.take_heartbeat("r1", live("running", "s1"), 0)
    presence.take_heartbeat("r1", live("running", "s2"), 0)
    assert set(present.live) == {"s2"}
    presence.take_heartbeat("nobody", live("running"), 0)
    assert presence.get("nobody") is None


@pytest.mark.req("L-5")
def test_the_end_of_an_older_link_does_not_remove_the_newer_one() -> None:
    presence, older, newer = RunnerPresence(), Wire(), Wire()
    presence.arrive(Present(RECORD, hello("shell"), 0)).connect(older)
    presence.arrive(Present(RECORD, hello("shell"), 0)).connect(newer)
    assert older.failed == "the same runner opened a newer link"
    assert not presence.detach("r1", older, 0)
    assert presence.link_of("r1") is newer
    assert presence.detach("r1", newer, 0)
    assert presence.link_of("r1") is None


@pytest.mark.req("C-4")
def test_a_runner_is_here_from_its_hello_to_the_end_of_its_link() -> None:
    presence, wire = RunnerPresence(), Wire()
    assert not presence.is_here("r1")
    present = presence.arrive(Present(RECORD, hello("shell"), 0))
    present.arrives()
    assert presence.is_here("r1")
    present.connect(wire)
    present.arrived()
    assert presence.is_here("r1")
    assert presence.detach("r1", wire, 0)
    assert not presence.is_here("r1")


@pytest.mark.req("C-4", "C-7")
def test_a_late_report_of_another_gateway_about_a_runner_is_applied() -> None:
    def row(number: int, link_id: str) -> RunnerLocation:
        return RunnerLocation("r1", "default", "i_2", link_id,
                              facts_of(Present(RECORD, hello("shell", link_number=number), 0)))

    presence = RunnerPresence()
    presence.arrive(Present(RECORD, hello("shell", link_number=5), 0)).connect(wire := Wire())
    assert not presence.learn_one(row(4, "older"))
    assert presence.learn(Links([row(4, "older")], {"i_1", "i_2"}, "i_1", whole=True)) == []
    assert presence.get("r1") is not None
    assert presence.link_of("r1") is wire
    assert presence.learn_one(row(6, "newer"))
    assert presence.learn(Links([row(6, "newer")], {"i_1", "i_2"}, "i_1", whole=False)) == ["r1"], "it is to be closed"
    assert presence.detach("r1", wire, 0)
    assert not presence.learn_one(row(5, "older"))
    assert presence.learn_one(row(0, "of a program that does not number"))


@pytest.mark.req("C-0", "K-1")
def test_only_attached_runners_of_the_tenant_offer_an_agent() -> None:
    presence = RunnerPresence()
    present = presence.arrive(Present(RECORD, hello("shell", "claude"), 0))
    assert presence.offering("shell", "default") == []
    present.connect(Wire())
    assert presence.offering("claude", "default") == [present]
    assert presence.offering("codex", "default") == []
    assert presence.offering("shell", "other") == []
    assert present.offer("codex") is None


@pytest.mark.req("L-6", "L-3")
async def test_a_revoked_runner_is_not_listed() -> None:
    table = Table()
    await table.ledger.commit(WriteBatch([Put(table.record)]))
    assert [node.node_id for node in await table.engine.nodes("default")] == ["local"]
    assert await table.engine.nodes("other") == []
    await table.ledger.commit(WriteBatch([Put(msgspec.structs.replace(table.record, revoked=True))]))
    assert await table.engine.nodes("default") == []


@pytest.mark.req("C-4", "L-6")
def test_runners_of_a_dead_gateway_are_offline_with_unchanged_rows() -> None:
    def offline(runner_id: str) -> bool:
        present = presence.get(runner_id)
        return presence.away("shell", "default", runner_id) == [present]

    def row(runner_id: str, instance_id: str, link_id: str = "l1") -> RunnerLocation:
        return RunnerLocation(runner_id, "default", instance_id, link_id, facts_of(Present(RECORD, hello("shell"), 0)))

    presence, all_of_them = RunnerPresence(), {"i_1", "i_2", "i_3"}
    assert presence.learn(Links([row("r1", "i_2"), row("r2", "i_3")], all_of_them, "i_1", whole=True)) == []
    presence.learn(Links([], {"i_1", "i_3"}, "i_1", whole=False))
    assert offline("r1")
    assert not offline("r2")
    presence.learn(Links([row("r2", "", "an older one")], all_of_them, "i_1", whole=False))
    assert not offline("r2"), "the end of an older link changes nothing"
    presence.learn(Links([row("r2", "")], all_of_them, "i_1", whole=False))
    assert offline("r2")
    presence.learn_one(row("r3", "i_2"))
    presence.learn(Links([], all_of_them, "i_1", whole=True))
    assert offline("r3"), "a row that is not there any more"


@pytest.mark.req("C-4", "L-6")
def test_a_runner_that_moved_gateways_has_its_last_seen_time_and_new_gateway() -> None:
    presence, wire = RunnerPresence(), Wire()
    before = Present(RECORD, hello("shell"), 1_000)
    before.live["s"] = p.LiveAgent(session_id="s", agent_id="shell", state="idle")
    facts = facts_of(before)
    presence.learn_one(RunnerLocation("r1", "default", "i_2", "l1", facts))
    presence.left_elsewhere("r1", "an older one", 8_000)
    assert presence.away("shell", "default") == []
    presence.left_elsewhere("r1", "l1", 9_000)
    [away] = presence.away("shell", "default")
    assert (away.last_seen_ms, away.live) == (9_000, {})
    arriving = presence.arrive(Present(RECORD, hello("shell"), 10_000))
    arriving.arrives()
    presence.learn_one(RunnerLocation("r1", "default", "i_2", "l1", facts))
    presence.left_elsewhere("r1", "l1", 11_000)
    arriving.connect(wire)
    assert presence.link_of("r1") is wire, "what another gateway reports late takes no arriving runner away"
    assert presence.detach("r1", wire, 12_000)
    assert presence.get("r1") is arriving, "it was here last"


@pytest.mark.req("L-3", "L-6")
def test_a_process_that_returns_after_another_one_contests_its_token() -> None:
    presence = RunnerPresence()
    for at_ms, boot_id in ((1_000, "a"), (2_000, "a"), (3_000, "b"), (4_000, "b"), (5_000, "c"), (6_000, "d")):
        presence.arrive(Present(RECORD, hello("shell", boot_id=boot_id), at_ms))
        assert presence.node(RECORD).contested_at is None, "a process that is restarted is another one"
    for at_ms, boot_id in ((7_000, "c"), (8_000, "d"), (9_000, "d"), (10_000, "e")):
        presence.arrive(Present(RECORD, hello("shell", boot_id=boot_id), at_ms))
    assert presence.node(RECORD).contested_at == "1970-01-01T00:00:08.000Z"


@pytest.mark.req("J-14")
def test_a_runner_reports_its_version_and_its_heartbeat_outbox_and_clock() -> None:
    presence, wire = RunnerPresence(), Wire()
    hello_frame = msgspec.structs.replace(hello("shell"), software="interlock 9.9.9", system="Linux " + "x" * 1_000)
    present = presence.arrive(Present(RECORD, hello_frame, 2_000))
    present.connect(wire)
    node = presence.node(RECORD)
    assert (node.software, len(node.system or ""), node.outbox_bytes) == ("interlock 9.9.9", FACT_CHARS, None)
    presence.take_heartbeat("r1", msgspec.structs.replace(live("idle"), outbox_bytes=70), 3_000,
                            "1970-01-01T00:00:02.500Z")
    assert (presence.node(RECORD).outbox_bytes, presence.node(RECORD).clock_offset_ms) == (70, -500)
    presence.take_heartbeat("r1", live("idle"), 4_000, "at noon")
    assert (presence.node(RECORD).outbox_bytes, presence.node(RECORD).clock_offset_ms) == (None, -500)
    assert presence.detach("r1", wire, 5_000)
    assert presence.node(RECORD).clock_offset_ms is None
