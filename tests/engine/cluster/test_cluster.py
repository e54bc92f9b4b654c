"""Several gateways on one ledger: any of them serves any request, one of them owns each session (C-4)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from datetime import UTC
from functools import partial
from typing import Any

import msgspec
import pytest

from clusters.street import CAPABILITIES, Member, Street, eventually, street
from engine.conversation import USAGE
from gateway.raw_runner import PATIENCE_S, Runner, warning
from interlock.backends.bus_local.bus import Hub, LocalBus
from interlock.backends.memory.leases import MemoryLeases
from interlock.engine.cluster import cluster
from interlock.engine.cluster.relay import StreamNote
from interlock.engine.cron import CronJob
from interlock.engine.membership import Elsewhere
from interlock.engine.viewers.stream_items import Durable, Item, TransientItem
from interlock.gateway.hooks import ConfiguredHook
from interlock.ports.bus import BusError, BusTimeout, Subscription
from interlock.ports.leases import INSTANCE_LIFE_MS
from interlock.ports.ledger import Append, Fenced, WriteBatch
from interlock.protocol import payloads as p
from interlock.protocol.codes import CloseCode
from interlock.protocol.envelope import Frame
from interlock.protocol.frames import encode
from interlock.protocol.problems import Problem
from interlock.protocol.records import SessionRecord

TURN = "7d444840-9dc0-41d5-bff0-12c3f7b6a5e1"
pytestmark = [pytest.mark.anyio, pytest.mark.req("C-4")]


@pytest.fixture
async def town() -> AsyncIterator[Street]:
    async with street() as made:
        yield made


async def settled(town: Street) -> None:
    """Wait until all messages on the bus are received and processed."""
    for _ in range(20):
        await asyncio.sleep(0)
        for member in town.members:
            await member.cluster.settled()


async def opened(runner: Runner, session_id: str, seq: int = 1) -> None:
    await runner.frame("control.prompt.request")
    runner.send("session.capabilities", CAPABILITIES, session_id=session_id, seq=seq)
    await runner.frame("session.capabilities")


async def events(town: Street, session_id: str) -> list[str]:
    return [msgspec.json.decode(event.body)["type"]
            for event in await town.ledger.events("default", f"s/{session_id}", 0, 1_000) if event.kind in ("C", "M")]


@pytest.mark.req("M-1")
async def test_a_command_submitted_to_any_gateway_runs_at_its_runners_gateway(town: Street) -> None:
    a, b, c = town.members
    async with b.attached() as runner:
        await settled(town)
        answers = [await member.execute(f"by {member.name}") for member in (a, b, c)]
        assert [answer.status for answer in answers] == [202, 202, 202]
        prompts = [(await runner.frame("control.prompt.request")).payload.text for _ in answers]
        assert prompts == ["by a", "by b", "by c"]
        for answer, member in zip(answers, (c, a, b), strict=True):
            shown = await member.ask("GET", answer.headers["location"])
            assert shown.body["id"] == answer.body["id"]
        assert len(b.engine.lanes.live()) == 3
        assert not a.engine.lanes.live()
        assert not c.engine.lanes.live()


async def test_a_gateway_that_believes_a_runner_elsewhere_is_corrected_by_the_ledger(town: Street) -> None:
    a, b, c = town.members
    async with b.attached() as runner:
        await settled(town)
        session_id = (await b.execute()).body["target"]["session_id"]
        await opened(runner, session_id)
        there = c.engine.presence.get("local")
        assert there is not None
        there.instance_id = a.cluster.instance_id
        assert (await c.execute(session_id=session_id)).status == 202, "its hint about the runner is late"
        await a.die()
        assert (await c.execute(session_id=session_id)).status == 202, "and the gateway it names has died"
        assert len((await b.ask("GET", "/v1/commands")).body["items"]) == 3


@pytest.mark.req("M-1", "M-2")
async def test_a_request_repeated_at_another_gateway_gets_the_first_response(town: Street) -> None:
    a, b, c = town.members
    async with b.attached() as runner:
        await settled(town)
        key = "the-very-same-key-0001"
        first, *others = await asyncio.gather(*(member.execute("once", key=key) for member in (a, b, c)))
        for member in (a, b, c):
            again = await member.execute("once", key=key)
            assert again.status == 202
            assert again.body["id"] == (await a.ask("GET", "/v1/commands")).body["items"][0]["id"]
        assert {answer.status for answer in (first, *others)} <= {202, 409}
        await runner.frame("control.prompt.request")
        assert len((await a.ask("GET", "/v1/commands")).body["items"]) == 1
        reused = await c.execute("something else", key=key)
        assert (reused.status, reused.body["code"]) == (422, "IdempotencyKeyReused")


@pytest.mark.req("R-2")
@pytest.mark.parametrize("begins", [False, True])
async def test_one_key_opened_at_three_gateways_at_the_same_time_is_one_session(
    town: Street, monkeypatch: pytest.MonkeyPatch, begins: bool
) -> None:
    # Reading the session beside the beginning of its lane, as on PostgreSQL, gives the others time to take the key.
    monkeypatch.setattr(MemoryLeases, "begins", begins)
    a, b, c = town.members
    async with b.attached():
        await settled(town)
        answers = await asyncio.gather(*(member.execute(session_key="agent:shell:main") for member in (a, b, c)))
        assert [answer.status for answer in answers] == [202, 202, 202]
        assert len({answer.body["target"]["session_id"] for answer in answers}) == 1


@pytest.mark.req("R-2", "R-4")
@pytest.mark.parametrize("begins", [False, True])
async def test_concurrent_messages_of_one_chat_at_three_gateways_are_all_accepted(
    town: Street, monkeypatch: pytest.MonkeyPatch, begins: bool
) -> None:
    monkeypatch.setattr(MemoryLeases, "begins", begins)
    a, b, c = town.members
    async with b.attached():
        await settled(town)
        for round_ in ("first", "second"):
            answers = await asyncio.gather(*(member.ask("POST", "/v1/inbound", {
                "channel": "telegram", "chat_type": "direct", "account_id": "bot", "sender": "kim", "text": member.name,
                "message_id": f"{round_} {member.name}"}, "") for member in (a, b, c)))
            assert [answer.status for answer in answers] == [202, 202, 202], [answer.body for answer in answers]
            assert len({answer.body["session_id"] for answer in answers}) == 1


@pytest.mark.req("R-2")
async def test_a_gateway_suspended_past_its_lease_opens_no_session_for_a_key(town: Street) -> None:
    a, b, c = town.members
    name = "default/agent:shell:main"
    async with b.attached():
        await settled(town)
        async with a.cluster.hold("default", name) as hold:
            with pytest.raises(Elsewhere) as there:
                async with c.cluster.hold("default", name):
                    pass
            assert there.value.instance_id == a.cluster.instance_id
            town.clock.advance(INSTANCE_LIFE_MS)
            await town.beat(b, c)
            async with c.cluster.hold("default", name) as newer:
                assert newer is not None
                assert hold is not None
                with pytest.raises(Fenced):
                    await town.ledger.commit(WriteBatch([Append("default", "s/x", "C", 1, b"{}")], [hold]))
                await town.ledger.commit(WriteBatch([Append("default", "s/x", "C", 1, b"{}")], [newer]))


async def test_every_gateway_lists_all_runners_and_can_choose_any(town: Street) -> None:
    a, b, c = town.members
    early = await a.execute()
    assert (early.status, early.headers["retry-after"]) == (503, "2")
    assert early.body["detail"] == "Runner local has not connected yet since this gateway started."
    async with c.attached():
        for member in (a, b, c):
            listed = (await member.ask("GET", "/v1/edge/nodes")).body["nodes"]
            assert [(node["node_id"], node["status"]) for node in listed] == [("local", "online")]
            assert (await member.ask("GET", "/v1/runners")).body["runners"][0]["status"] == "online"
        assert (await a.execute()).status == 202, "the only one online is at another gateway"
        shown = (await b.ask("GET", "/v1/sessions")).body["items"][0]
        assert shown["attached"]
    await settled(town)
    assert (await a.ask("GET", "/v1/edge/nodes")).body["nodes"][0]["status"] == "offline"
    for member in (a, b, c):
        left = await member.execute()
        assert (left.status, left.headers["retry-after"]) == (503, "2")
        assert left.body["detail"] == "Runner local, which offers agent shell, is not connected at the moment."


@pytest.mark.req("L-2", "L-4")
async def test_a_runner_that_connects_to_another_gateway_brings_its_sessions(town: Street) -> None:
    a, b, _ = town.members
    async with contextlib.AsyncExitStack() as links:
        first = await links.enter_async_context(a.attached())
        session_id = (await a.execute()).body["target"]["session_id"]
        await opened(first, session_id)
        before = a.engine.lanes.peek(session_id)
        assert before is not None
        known = p.HelloSession(session_id=session_id, last_seq_sent=1, control_seq=2, state="idle")
        second = await links.enter_async_context(b.attached(known))
        assert await first.closed() == (4410, "the same runner opened a newer link")
        second.send("agent.error", warning(), session_id=session_id, seq=2)
        await second.acked(2)
        assert (await events(town, session_id))[-1] == "agent.error"
        await settled(town)
        assert a.engine.lanes.peek(session_id) is None
        assert (await a.execute("go on", session_id=session_id)).status == 202
        assert not a.engine.lanes.live()


@pytest.mark.req("C-7", "L-5")
async def test_a_delayed_hello_does_not_move_the_runner_back(town: Street) -> None:
    a, b, _ = town.members
    async with turn(b, link_number=2) as (runner, session_id):
        await settled(town)
        command = (await a.ask("GET", "/v1/commands")).body["items"][0]
        # The following was in a's buffers from before, when the runner had nothing running.
        async with a.linked() as late:
            late.hello(p.HelloSession(session_id=session_id, last_seq_sent=1, control_seq=2, state="idle"),
                       link_number=1)
            assert (await late.closed())[0] == CloseCode.OUTDATED
        await settled(town)
        assert (await a.ask("GET", f"/v1/commands/{command['id']}")).body["state"] == "running"
        runner.send("session.turn.end", p.TurnEnd(turn_id=TURN, stop_reason="end_turn"), session_id=session_id, seq=3)
        runner.send("session.usage", msgspec.structs.replace(USAGE, turn_id=TURN), session_id=session_id, seq=4)
        await runner.acked(4)
        assert (await a.ask("GET", f"/v1/commands/{command['id']}")).body["state"] == "succeeded"


@pytest.mark.req("D-1")
async def test_an_owner_suspended_past_its_lease_writes_nothing_and_gets_a_new_id(town: Street) -> None:
    a, b, c = town.members
    async with contextlib.AsyncExitStack() as links:
        first = await links.enter_async_context(a.attached())
        command = (await a.execute()).body
        session_id = command["target"]["session_id"]
        await opened(first, session_id)
        a.bus.cut_off()  # Suspended: it neither renews nor receives, and its runner connects elsewhere.
        stale = a.engine.lanes.peek(session_id)
        assert stale is not None
        await town.fail_over(b, c)
        assert (b.engine.lanes.peek(session_id) is None) != (c.engine.lanes.peek(session_id) is None)
        first.send("agent.error", warning("from the grave"), session_id=session_id, seq=2)
        await first.closed()
        assert "agent.error" not in await events(town, session_id), "every write of the stale owner is refused"
        former = a.cluster.instance_id
        a.bus.come_back()
        await a.cluster.renewal.once()
        assert a.cluster.instance_id != former
        assert not a.engine.lanes.live()
        second = await links.enter_async_context(c.attached(
            p.HelloSession(session_id=session_id, last_seq_sent=2, control_seq=2, state="idle")))
        second.send("agent.error", warning("again"), session_id=session_id, seq=2)
        await second.acked(2)
        assert (await a.execute("and on", session_id=session_id)).status == 202


async def test_a_request_waiting_in_a_lost_lane_is_answered_by_its_new_owner(town: Street) -> None:
    a, b, c = town.members
    session_id = ""
    async with a.attached() as runner:
        session_id = (await a.execute()).body["target"]["session_id"]
        await opened(runner, session_id)
    await settled(town)
    a.bus.cut_off()
    await town.fail_over(b, c)
    owner = next(member for member in (b, c) if member.engine.lanes.peek(session_id) is not None)
    a.bus.come_back()
    assert a.engine.lanes.peek(session_id) is not None, "it does not know yet"
    answer = await a.execute("asked at the former owner", session_id=session_id)
    assert answer.status == 503 or owner.engine.lanes.peek(session_id) is not None
    assert answer.status == 202, answer.body
    commands = (await b.ask("GET", f"/v1/commands?session={session_id}")).body["items"]
    assert len(commands) == 2


@pytest.mark.req("C-4", "C-7")
async def test_timers_of_a_dead_gateways_sessions_continue_elsewhere_within_5_s(town: Street) -> None:
    a, b, c = town.members
    async with a.attached() as runner:
        command = (await a.execute()).body
        await opened(runner, command["target"]["session_id"])
        await a.die()
        assert INSTANCE_LIFE_MS < 5_000
        await town.fail_over(b, c)
        owners = [member for member in (b, c) if member.engine.lanes.peek(command["target"]["session_id"]) is not None]
        assert len(owners) == 1

        async def detached() -> bool:
            record = await town.ledger.command(command["id"], "default")
            return record is not None and record.detach_deadline_ms is not None

        await eventually(detached)
        town.clock.advance(7 * 24 * 3_600_000)

    async def ended() -> bool:
        await town.beat(b, c)
        record = await town.ledger.command(command["id"], "default")
        return record is not None and record.command.state == "failed"

    await eventually(ended)
    happened = await town.ledger.events("default", f"c/{command['id']}", 0, 100)
    assert sum(b'"failed"' in event.body for event in happened) == 1, "once in the cluster"


async def test_a_stopping_gateway_releases_everything_immediately(town: Street) -> None:
    a, b, c = town.members
    async with a.attached() as runner:
        session_id = (await a.execute()).body["target"]["session_id"]
        await opened(runner, session_id)
    await a.shut()
    town.members.remove(a)
    await town.beat(b, c)
    assert [member for member in (b, c) if member.engine.lanes.peek(session_id) is not None]


async def test_a_gateway_without_the_bus_reports_it_and_reads_again_after_reconnecting(town: Street) -> None:
    a, b, _ = town.members
    async with b.attached() as runner:
        session_id = (await b.execute()).body["target"]["session_id"]
        await opened(runner, session_id)
        await town.beat()
        a.bus.cut_off()
        asked = asyncio.create_task(a.execute("while cut off", session_id=session_id))
        drained = await b.ask("POST", "/v1/drain", {"scope": "agent", "id": "shell"})
        assert drained.status == 200
        assert a.engine.drains.of("default") == []
        a.bus.come_back()
        answer = await asyncio.wait_for(asked, PATIENCE_S)
        assert answer.status == 202, "it is asked until it answers"
        await settled(town)
        assert [drain.scope for drain in a.engine.drains.of("default")] == ["agent"]


@pytest.mark.req("C-5", "A-9", "K-1", "L-3")
async def test_a_change_at_one_gateway_is_known_at_the_others_immediately(town: Street) -> None:
    a, b, c = town.members
    async with c.attached() as runner:
        await a.ask("POST", "/v1/drain", {"scope": "gateway"})
        await settled(town)
        assert [drain.scope for drain in b.engine.drains.of("default")] == ["gateway"]
        await b.ask("POST", "/v1/undrain", {"scope": "gateway"})
        await settled(town)
        assert a.engine.drains.of("default") == []
        made = (await a.ask("POST", "/v1/keys", {"principal": {"type": "user", "id": "ann"}, "roles": ["viewer"]})).body
        mine = {"authorization": f"Bearer {made['key']}"}
        assert (await b.ask("GET", "/v1/commands", None, None, **mine)).status == 200
        assert (await a.ask("POST", f"/v1/keys/{made['key_id']}/revoke", {})).status == 200
        await settled(town)
        assert (await b.ask("GET", "/v1/commands", None, None, **mine)).status == 401
        assert (await b.ask("POST", "/v1/runners/local/revoke", {})).status == 200
        assert (await runner.closed())[0] == 4401


@pytest.mark.req("K-2")
async def test_a_ticket_opens_one_stream_at_any_gateway(town: Street) -> None:
    a, b, c = town.members
    given = (await a.ask("POST", "/v1/stream-tickets", {"path": "/v1/events"})).body["ticket"]
    spent = await asyncio.gather(*(member.front.access.tickets.spend(given, "/events") for member in (a, b, c)),
                                 return_exceptions=True)
    assert sum(isinstance(one, Problem) and one.code == "Unauthorized" for one in spent) == 2
    good = next(one for one in spent if not isinstance(one, BaseException))
    assert good[0].actor.id == "owner"
    assert isinstance((await asyncio.gather(b.front.access.tickets.spend(
        "ilt_i_0000.x", "/events"), return_exceptions=True))[0], Problem), "one of a gateway that is gone"


@pytest.mark.req("R-4")
async def test_a_hook_delivered_to_several_gateways_starts_one_command(town: Street) -> None:
    a, b, c = town.members
    town.hooks["ci"] = ConfiguredHook(name="ci", tenant_id="default", agent_id="shell", key="agent:shell:ci",
                                      auth="token",
                                      secret=b"s3cret-s3cret-s3cret", message="CI said:")
    async with b.attached():
        await settled(town)
        responses = [await member.ask("POST", "/v1/hooks/ci", {"run": 7}, authorization="Bearer s3cret-s3cret-s3cret")
                     for member in (a, b, c)]
        assert [answer.status for answer in responses] == [202, 202, 202]
        assert len({answer.body["command_id"] for answer in responses}) == 1
        refused = await a.ask("POST", "/v1/hooks/ci", {"run": 8}, authorization="Bearer another")
        assert refused.status == 401


@pytest.mark.req("R-2", "R-4")
async def test_concurrent_deliveries_of_a_hook_at_three_gateways_are_all_accepted(
    town: Street, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryLeases, "begins", True)
    town.hooks["ci"] = ConfiguredHook(name="ci", tenant_id="default", agent_id="shell", key="agent:shell:ci",
                                      auth="token",
                                      secret=b"s3cret-s3cret-s3cret", message="CI said:")
    async with town.members[1].attached():
        await settled(town)
        answers = await asyncio.gather(*(
            member.ask("POST", "/v1/hooks/ci", {"by": member.name}, authorization="Bearer s3cret-s3cret-s3cret")
            for member in town.members))
        assert [answer.status for answer in answers] == [202, 202, 202]
        assert len({answer.body["session_id"] for answer in answers}) == 1


@pytest.mark.req("R-4")
async def test_a_cron_job_of_all_gateways_runs_once_at_its_runners_gateway(town: Street) -> None:
    job = CronJob("daily", "default", "shell", "agent:shell:cron:daily", "Good morning.", "*/5 * * * *", UTC, "UTC")
    a, b, c = town.members
    for member in town.members:
        member.front.crons.configure([job])
        await member.front.crons.look()
    async with c.attached():
        await settled(town)
        town.clock.advance(5 * 60_000)
        for member in town.members:  # Only this clock can make a gateway count as dead.
            await member.cluster.renewal.once()
        async with b.attached():
            await settled(town)
            for member in (a, b, c, a, b, c):
                await member.front.crons.look()
            commands = (await a.ask("GET", "/v1/commands")).body["items"]
            assert len(commands) == 1
            assert b.engine.lanes.live()
            shown = [await member.front.crons.listing("default") for member in town.members]
            assert shown[0] == shown[1] == shown[2]
            assert (shown[0][0].command_id, shown[0][0].missed) == (commands[0]["id"], 0)


async def test_a_duty_belongs_to_one_gateway_until_its_lease_ends(town: Street) -> None:
    a, b, c = town.members
    assert [await member.cluster.leads("checkpoints") for member in (a, b, c, a)] == [True, False, False, True]
    await a.die()
    await town.fail_over(b, c)
    assert [await member.cluster.leads("checkpoints") for member in (c, b)] == [True, False]


# --- viewers ---
class Reader:
    """Reads a stream at one gateway, to a list."""

    def __init__(self, member: Member, stream: str) -> None:
        self.items: list[Item] = []
        self.task = asyncio.create_task(self._read(member, stream))

    async def _read(self, member: Member, stream: str) -> None:
        async with member.viewers.join("default", stream, 0) as viewer:
            async for burst in viewer:
                self.items += burst

    @property
    def numbers(self) -> list[int]:
        return [item.n for item in self.items if isinstance(item, Durable)]

    def text(self, block: str = "b1") -> str:
        """The text of a block that the reader received: each piece must directly follow the one before."""
        block_text = ""
        for item in self.items:
            payload: Any = item.frame.payload if isinstance(item, TransientItem) else None
            if payload is not None and payload.block_id == block:
                assert payload.offset == len(block_text), "neither doubled nor lost"
                block_text += payload.text
        return block_text


@contextlib.asynccontextmanager
async def reading(stream: str, *members: Member) -> AsyncIterator[list[Reader]]:
    readers = [Reader(member, stream) for member in members]
    try:
        yield readers
    finally:
        for reader in readers:
            reader.task.cancel()
        await asyncio.gather(*(reader.task for reader in readers), return_exceptions=True)


@contextlib.asynccontextmanager
async def turn(member: Member, **hello: Any) -> AsyncIterator[tuple[Runner, str]]:
    """A runner at a gateway, in whose session a turn runs."""
    async with member.attached(**hello) as runner:
        session_id = (await member.execute()).body["target"]["session_id"]
        prompt = (await runner.frame("control.prompt.request")).payload
        runner.send("session.capabilities", CAPABILITIES, session_id=session_id, seq=1)
        runner.send("session.turn.start", p.TurnStart(turn_id=TURN, turn_index=0), session_id=session_id, seq=2,
                    metadata={"prompt_id": prompt.prompt_id})
        await runner.acked(2)
        yield runner, session_id


def send_text(runner: Runner, session_id: str, offset: int, text: str, block: str = "b1") -> None:
    runner.send("agent.text.delta", p.TextDelta(turn_id=TURN, block_id=block, offset=offset, text=text),
                session_id=session_id)


def done(runner: Runner, session_id: str, seq: int, text: str, block: str = "b1") -> None:
    runner.send("agent.text.done", p.TextDone(turn_id=TURN, block_id=block, text=text), session_id=session_id, seq=seq)


@pytest.mark.req("S-1", "S-3", "E-4")
async def test_viewers_at_all_gateways_see_the_same_stream(town: Street) -> None:
    a, b, c = town.members
    async with turn(b) as (runner, session_id), reading(f"s/{session_id}", a, b, c) as readers:
        for at, piece in enumerate(("one ", "two ", "six ")):
            send_text(runner, session_id, 4 * at, piece)
        await eventually(lambda: _all(reader.text() == "one two six " for reader in readers))
        done(runner, session_id, 3, "one two six ")
        send_text(runner, session_id, 0, "next", "b2")
        await eventually(lambda: _all(reader.text("b2") == "next" for reader in readers))
        seen = [[item.n if isinstance(item, Durable) else item.frame.payload.text for item in reader.items]  # type: ignore[union-attr]
                for reader in readers]
        assert seen[0] == seen[1] == seen[2]
        assert readers[0].numbers == list(range(1, len(readers[0].numbers) + 1))


@pytest.mark.req("S-3", "E-4")
async def test_a_viewer_that_joins_at_another_gateway_receives_the_text_so_far(town: Street) -> None:
    a, b, _ = town.members
    async with turn(b) as (runner, session_id):
        send_text(runner, session_id, 0, "so far ")
        await eventually(lambda: _all([b.viewers.so_far(f"s/{session_id}")[1] != []]))
        polled = await a.ask("GET", f"/v1/sessions/{session_id}/frames")
        assert polled.body["events"][-1]["frame"]["payload"]["text"] == "so far "
        async with reading(f"s/{session_id}", a) as (reader,):
            await eventually(lambda: _all([reader.text() == "so far "]))
            send_text(runner, session_id, 7, "and on")
            await eventually(lambda: _all([reader.text() == "so far and on"]))


@pytest.mark.req("S-3", "E-4")
async def test_lost_bus_messages_delay_a_viewer_and_lose_nothing(town: Street) -> None:
    a, b, _ = town.members
    async with turn(b) as (runner, session_id), reading(f"s/{session_id}", a) as (reader,):
        send_text(runner, session_id, 0, "heard ")
        await eventually(lambda: _all([reader.text() == "heard "]))
        a.bus.cut_off()
        send_text(runner, session_id, 6, "lost ")
        runner.send("agent.error", warning(), session_id=session_id, seq=3)
        await runner.acked(3)
        await settled(town)
        before = reader.numbers[-1]
        assert before < await town.ledger.head("default", f"s/{session_id}")
        await a.cluster.relay.look()
        await eventually(lambda: _all([reader.numbers[-1] > before]))
        assert reader.text() == "heard "
        a.bus.come_back()
        await eventually(lambda: _all([reader.text() == "heard lost "]))
        send_text(runner, session_id, 11, "heard")
        await eventually(lambda: _all([reader.text() == "heard lost heard"]))
        assert reader.numbers == list(range(1, len(reader.numbers) + 1))


@pytest.mark.req("S-1", "S-3")
async def test_a_new_owner_sends_viewers_the_frames_they_missed(town: Street) -> None:
    a, b, _ = town.members
    async with turn(b) as (runner, session_id), reading(f"s/{session_id}", a) as (reader,):
        await eventually(lambda: _all([len(reader.numbers) > 1]))
        a.bus.cut_off()
        runner.send("session.turn.end", p.TurnEnd(turn_id=TURN, stop_reason="end_turn"), session_id=session_id, seq=3)
        runner.send("session.usage", USAGE, session_id=session_id, seq=4)
        await runner.acked(4)
        before, head = reader.numbers[-1], await town.ledger.head("default", f"s/{session_id}")
        assert before < head
        await b.die()
        await town.fail_over(a)
        assert await a.engine.lanes.lane(session_id) is not None, "it has no clock, so it is read when it is asked for"
        assert await town.ledger.head("default", f"s/{session_id}") == head, "and nothing new happens in it"
        await a.cluster.relay.look()
        await eventually(lambda: _all([reader.numbers == list(range(1, head + 1))]))


@pytest.mark.req("S-3", "E-4")
async def test_late_text_is_not_sent_after_the_end_of_its_block(town: Street) -> None:
    a, b, _ = town.members
    async with turn(b) as (runner, session_id), reading(f"s/{session_id}", a) as (reader,):
        stream = f"s/{session_id}"
        before = await town.ledger.head("default", stream)
        await eventually(lambda: _all([reader.numbers[-1:] == [before]]))
        send_text(runner, session_id, 0, "said")
        await eventually(lambda: _all([reader.text() == "said"]))
        done(runner, session_id, 3, "said")
        await eventually(lambda: _all([reader.numbers[-1:] == [before + 1]]))
        owner = b.engine.lanes.peek(session_id)
        assert owner is not None
        late = encode(Frame(type="agent.text.delta", message_id="late", session_id=session_id, timestamp="",
                            payload=p.TextDelta(turn_id=TURN, block_id="b1", offset=0, text="said")))
        note = StreamNote(b.cluster.instance_id, owner.epoch, [before, late])
        b.bus.publish(b.cluster.subject(f"stream.{stream}"), msgspec.msgpack.encode(note))
        send_text(runner, session_id, 0, "next", "b2")
        await eventually(lambda: _all([reader.text("b2") == "next"]))
        assert reader.text() == "said"
        assert isinstance(reader.items[-1], TransientItem)
        assert reader.items[-1].frame.payload.block_id == "b2"


@pytest.mark.req("S-3", "E-4")
async def test_a_gap_in_the_text_is_filled_by_its_writer(town: Street) -> None:
    a, b, _ = town.members
    async with turn(b) as (runner, session_id), reading(f"s/{session_id}", a) as (reader,):
        send_text(runner, session_id, 0, "one ")
        await eventually(lambda: _all([reader.text() == "one "]))
        b.bus.cut_off()
        send_text(runner, session_id, 4, "two ")
        await eventually(lambda: _all([b"two" in b"".join(b.viewers.so_far(f"s/{session_id}")[1])]))
        await settled(town)
        b.bus.come_back()
        send_text(runner, session_id, 8, "three")
        await eventually(lambda: _all([reader.text() == "one two three"]))


async def _all(conditions: Any) -> bool:
    return all(conditions)


@pytest.mark.req("S-1")
async def test_the_tenants_feed_is_written_by_all_gateways_and_complete_at_each(town: Street) -> None:
    a, b, c = town.members
    async with a.attached(), reading("t/default", a, b, c) as readers:
        await settled(town)
        for member in (c, b, a, c):
            await member.execute()
        async with contextlib.AsyncExitStack() as elsewhere:
            session = (await a.ask("GET", "/v1/sessions")).body["items"][0]["session_id"]
            await elsewhere.enter_async_context(b.attached(
                p.HelloSession(session_id=session, last_seq_sent=0, control_seq=0, state="idle")))
            await b.execute()
            await c.execute()
            head = await town.ledger.head("default", "t/default")
            await eventually(lambda: _all(reader.numbers == list(range(1, head + 1)) for reader in readers))


async def test_a_request_to_a_dying_gateway_waits_no_longer_than_its_lease(
    town: Street, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster, "STILL_THERE_S", 0.01)
    a, b, _ = town.members
    received = asyncio.Event()

    async def never(_body: bytes) -> bytes:
        received.set()
        return await asyncio.get_running_loop().create_future()

    serving = await b.bus.serve(a.cluster.subject(f"gateway.{b.cluster.instance_id}.slow"), never)
    asking = asyncio.create_task(a.cluster.ask(b.cluster.instance_id, "slow", b"", 60_000))
    await asyncio.wait_for(received.wait(), PATIENCE_S)
    assert not asking.done()

    town.clock.advance(INSTANCE_LIFE_MS + 1)  # It renews no more.

    with pytest.raises(BusError, match="died over it"):
        await asyncio.wait_for(asking, PATIENCE_S)
    await serving.end()


async def test_a_received_answer_does_not_wait_for_the_ledger(town: Street, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the other gateway lives is read from the ledger, which may be what is slow."""
    monkeypatch.setattr(cluster, "STILL_THERE_S", 0.0)
    a, b, _ = town.members
    looks, go_on = asyncio.Event(), asyncio.Event()

    async def never() -> list[Any]:
        looks.set()
        return await asyncio.get_running_loop().create_future()

    async def slow(_body: bytes) -> bytes:
        await go_on.wait()
        return b"done"

    monkeypatch.setattr(town.leases, "instances", never)
    serving = await b.bus.serve(a.cluster.subject(f"gateway.{b.cluster.instance_id}.slow"), slow)
    asking = asyncio.create_task(a.cluster.ask(b.cluster.instance_id, "slow", b"", 60_000))
    await asyncio.wait_for(looks.wait(), PATIENCE_S)
    go_on.set()

    assert await asyncio.wait_for(asking, PATIENCE_S) == b"done"
    await serving.end()


async def test_a_request_ends_in_time_whatever_the_bus_does(town: Street, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, _ = town.members

    async def never(*_args: object) -> bytes:
        return await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(a.bus, "request", never)
    with pytest.raises(BusTimeout, match=r"did not answer within 0\.01 s"):
        await asyncio.wait_for(a.cluster.ask(b.cluster.instance_id, "slow", b"", 10), PATIENCE_S)


class LateHints(LocalBus):
    """Delivers hints only once they are released: notes of streams arrive before them, or are lost meanwhile."""

    def __init__(self, hub: Hub) -> None:
        super().__init__(hub)
        self._late: list[Callable[[], None]] | None = None
        self._loses = False

    async def subscribe(self, subject: str, responses: Callable[[bytes], None]) -> Subscription:
        def later(body: bytes) -> None:
            if self._late is None:
                responses(body)
            elif subject.endswith(".hint"):
                self._late.append(partial(responses, body))
            elif not self._loses:
                responses(body)

        return await super().subscribe(subject, later)

    def hold(self, *, lose_notes: bool) -> None:
        """Hold hints back from here on."""
        self._late, self._loses = [], lose_notes

    def let_through(self) -> None:
        """Deliver the delayed hints, and all later ones."""
        late, self._late = self._late or [], None
        for deliver_hint in late:
            deliver_hint()


@pytest.mark.req("S-1", "S-3", "C-4")
@pytest.mark.parametrize("is_closed", [True, False], ids=["its link there is closed", "its link there is half open"])
@pytest.mark.parametrize("hint", ["first", "after the note", "after a note that was lost"])
async def test_a_viewer_sees_the_frames_of_a_runner_that_moved_to_another_gateway(is_closed: bool, hint: str) -> None:
    hub = Hub()
    late = LateHints(hub)
    async with street(buses=[late, LocalBus(hub), LocalBus(hub)]) as town, contextlib.AsyncExitStack() as stack:
        a, b, _ = town.members
        former = await stack.enter_async_context(contextlib.AsyncExitStack())
        _, session_id = await former.enter_async_context(turn(a, link_number=1))
        stream = f"s/{session_id}"
        (reader,) = await stack.enter_async_context(reading(stream, a))
        if is_closed:
            await former.aclose()
        if hint != "first":
            late.hold(lose_notes="lost" in hint)
        known = p.HelloSession(session_id=session_id, last_seq_sent=2, control_seq=2, state="running")
        again = await stack.enter_async_context(b.attached(known, link_number=2))
        again.send("session.turn.end", p.TurnEnd(turn_id=TURN, stop_reason="error"), session_id=session_id, seq=3)
        again.send("session.usage", msgspec.structs.replace(USAGE, turn_id=TURN), session_id=session_id, seq=4)
        await again.acked(4)
        await settled(town)
        late.let_through()
        head = await town.ledger.head("default", stream)
        await eventually(lambda: _all([reader.numbers == list(range(1, head + 1))]))


class HeldLedger:
    """A ledger in which one operation waits until a test lets it through."""

    def __init__(self, ledger: Any, operation: str) -> None:
        self._ledger = ledger
        self._operation = operation
        self.reached, self.through = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._ledger, name)
        if name != self._operation:
            return found

        async def held(*given: Any, **named: Any) -> Any:
            self.reached.set()
            await self.through.wait()
            return await found(*given, **named)

        return held


@pytest.mark.req("D-7", "L-4")
@pytest.mark.parametrize("operation", ["commit", "stored_lanes"], ids=["dispatched where it was", "queued"])
async def test_a_command_for_a_runner_that_goes_elsewhere_meanwhile_reaches_it_there(
    town: Street, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    a, b, _ = town.members
    ledger = HeldLedger(town.ledger, operation)
    async with contextlib.AsyncExitStack() as links:
        former = await links.enter_async_context(contextlib.AsyncExitStack())
        await former.enter_async_context(a.attached(link_number=1))
        await settled(town)
        monkeypatch.setattr(a.engine.lanes, "ledger", ledger)
        giving = asyncio.create_task(a.execute("wait for me"))
        await asyncio.wait_for(ledger.reached.wait(), PATIENCE_S)
        a.bus.cut_off()  # It is not notified of where its runner goes.
        if operation == "stored_lanes":
            await former.aclose()
        runner = await links.enter_async_context(b.attached(link_number=2))
        await eventually(lambda: _all([b.engine.presence.link_of("local") is not None]))
        ledger.through.set()
        answer = await giving
        assert answer.status == 202, "no gateway knew of the session when its runner was welcomed"
        a.bus.come_back()
        await settled(town)
        await town.beat()
        assert (await runner.frame("control.prompt.request")).payload.text == "wait for me"


@pytest.mark.req("D-7", "L-4")
async def test_a_command_dispatched_by_a_gateway_that_dies_reaches_the_runner_where_it_went(
    town: Street, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lane counts its runner as attached, but what it dispatched was sent on no link that is open now."""
    a, b, _ = town.members
    ledger = HeldLedger(town.ledger, "commit")
    async with a.attached(link_number=1):
        await settled(town)
        monkeypatch.setattr(a.engine.lanes, "ledger", ledger)
        giving = asyncio.create_task(a.execute("wait for me"))
        await asyncio.wait_for(ledger.reached.wait(), PATIENCE_S)
        a.bus.cut_off()
        async with b.attached(link_number=2) as runner:
            await eventually(lambda: _all([b.engine.presence.link_of("local") is not None]))
            ledger.through.set()
            assert (await giving).status == 202
            await a.die()
            await town.fail_over(*town.members[1:])
            assert (await runner.frame("control.prompt.request")).payload.text == "wait for me"


@pytest.mark.req("J-4")
async def test_a_look_at_a_workspace_finds_the_gateway_that_its_runner_attached_to(town: Street) -> None:
    a, b, _ = town.members
    b.bus.cut_off()  # It is not notified of where the runner is.
    async with a.attached(link_number=1):
        session = SessionRecord(
            session_id="s1", tenant_id="default", agent_id="shell", runner_id="local", session_key="k", workspace="/w",
            state="idle", created_ms=0, updated_ms=0, deadline_ms=None, machine=b"{}", usage={})
        with pytest.raises(Elsewhere) as there:
            await b.engine.looks.look(session, "rw")
    assert there.value.instance_id == a.cluster.instance_id


async def idle(town: Street, member: Member) -> tuple[str, p.HelloSession]:
    """A session in a gateway's memory whose turn has ended and whose runner has left; the gateway is cut off from the
    bus, so that it is not notified that another one has the session."""
    async with turn(member, link_number=1) as (runner, session_id):
        runner.send("session.turn.end", p.TurnEnd(turn_id=TURN, stop_reason="end_turn"), session_id=session_id, seq=3)
        runner.send("session.usage", msgspec.structs.replace(USAGE, turn_id=TURN), session_id=session_id, seq=4)
        await runner.acked(4)
        runner.send("x-interlock.ack", p.Ack(session_id=session_id, seq=2))
        await settled(town)
    member.bus.cut_off()
    return session_id, p.HelloSession(session_id=session_id, last_seq_sent=4, control_seq=2, state="idle")


@pytest.mark.req("D-7", "L-4")
async def test_a_session_that_another_gateway_had_meanwhile_is_read_again_as_its_runner_returns(town: Street) -> None:
    a, b, _ = town.members
    session_id, known = await idle(town, a)
    async with b.attached(known, link_number=2) as runner:
        assert (await b.execute("go on", session_id=session_id)).status == 202
        assert (await runner.frame("control.prompt.request")).payload.text == "go on", "it is lost with the link"
    async with a.attached(known, link_number=3) as runner:
        assert (await runner.frame("control.prompt.request")).payload.text == "go on"


async def test_a_session_that_another_gateway_had_meanwhile_is_read_again_as_it_is_claimed() -> None:
    async with street(2) as town:
        a, b = town.members
        session_id, known = await idle(town, a)
        async with b.attached(known, link_number=2) as runner:
            command = (await b.execute("go on", session_id=session_id)).body
            await runner.frame("control.prompt.request")
            await b.die()
        await town.fail_over(a)
        shell = a.engine.lanes.peek(session_id)
        assert shell is not None
        assert shell.lane.state.active == command["id"]
