"""A revoked token ends its link, whatever the runner sends; and no runner gets another's session."""

from __future__ import annotations

import asyncio
import hashlib
import json

import msgspec
import pytest

from gateway.raw_runner import CAPABILITIES, TOKEN, Server, warning
from interlock.ports.entities import RUNNERS
from interlock.ports.ledger import Drop, Put, WriteBatch
from interlock.protocol import payloads as p
from interlock.protocol.access import OWNER_TENANT
from interlock.protocol.codes import CloseCode
from interlock.protocol.limits import LARGEST_SEQ, LINK_JUMP
from interlock.protocol.refusals import read_outdated

pytestmark = [pytest.mark.anyio, pytest.mark.req("L-3")]


def hashed(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


async def revoke(server: Server) -> None:
    record = await server.ledger.runner("local", server.record.tenant_id)
    assert record is not None
    await server.ledger.commit(WriteBatch([Put(msgspec.structs.replace(record, revoked=True))]))


@pytest.mark.req("L-6")
async def test_a_live_link_is_closed_immediately_and_its_later_frames_ignored(server: Server) -> None:
    async with server.session() as (runner, session_id, _):
        await revoke(server)
        server.endpoint.shut_out("local", "the runner was revoked")
        runner.send("agent.error", warning(), session_id=session_id, seq=2)
        assert await asyncio.wait_for(runner.closed(), 1) == (
            CloseCode.UNAUTHORIZED, "UNAUTHORIZED: the runner was revoked")
        assert server.engine.presence.link_of("local") is None
        assert await server.kinds(session_id) == ["session.capabilities"]
    async with server.link() as again:
        assert (await again.next())["status"] == 401


@pytest.mark.req("L-5", "D-1")
async def test_frames_of_an_older_link_are_ignored_after_a_newer_one_takes_over(server: Server) -> None:
    """Frames in a delayed link's buffers arrive after the newer link attached: none of them counts."""
    async with server.session() as (old, session_id, _):
        known = p.HelloSession(session_id=session_id, last_seq_sent=1, control_seq=3, state="idle")
        async with server.attached(known) as new:
            old.send("agent.error", warning("late"), session_id=session_id, seq=2)
            old.send("x-interlock.ack", p.Ack(session_id=session_id, seq=99))
            old.send("x-interlock.heartbeat", p.RunnerHeartbeat(agents=[]))
            closed = await asyncio.wait_for(old.closed(), 1)
            assert closed == (CloseCode.REPLACED, "the same runner opened a newer link")
            new.send("agent.error", warning("in time"), session_id=session_id, seq=2)
            await new.acked(2)
            assert server.engine.presence.link_of("local") is not None
    events = await server.ledger.events("default", f"s/{session_id}", 0, 100)
    messages = [msgspec.json.decode(event.body)["payload"].get("message") for event in events if event.kind == "C"]
    assert messages == [None, "in time"]


@pytest.mark.req("L-5", "C-7")
async def test_a_late_hello_does_not_replace_a_newer_one(server: Server) -> None:
    """It was in the buffers of a link that its runner has closed: its list of sessions is out of date."""
    async with server.session() as (_, session_id, _):
        pass
    known = p.HelloSession(session_id=session_id, last_seq_sent=1, control_seq=3, state="idle")
    async with server.link() as late, server.link() as again, server.link() as new:
        assert [(await one.next())["type"] for one in (late, again, new)] == ["websocket.accept"] * 3
        new.hello(known, link_number=8)
        await new.frame("x-interlock.welcome")
        for one, number in ((late, 7), (again, 8)):
            one.hello(known, link_number=number)
            assert await one.closed() == (CloseCode.OUTDATED, "a newer link of this runner is known, number 8")
        new.send("agent.error", warning("still here"), session_id=session_id, seq=2)
        await new.acked(2)
    async with server.link() as late:
        assert (await late.next())["type"] == "websocket.accept"
        late.hello(known, link_number=6)
        assert (await late.closed())[0] == CloseCode.OUTDATED, "also when the newer one is gone"
    assert server.engine.presence.link_of("local") is None
    async with server.link() as newer:
        assert (await newer.next())["type"] == "websocket.accept"
        newer.hello(known, link_number=9)
        await newer.frame("x-interlock.welcome")


@pytest.mark.req("L-4")
@pytest.mark.parametrize("number", [-1, LARGEST_SEQ + 1])
async def test_a_control_number_above_the_maximum_is_refused(server: Server, number: int) -> None:
    async with server.link() as runner:
        assert (await runner.next())["type"] == "websocket.accept"
        runner.hello(link_number=number)
        assert await runner.closed() == (CloseCode.OPENING, "hello cannot be read: a number is out of range")


@pytest.mark.req("L-4")
async def test_the_largest_control_number_is_accepted(server: Server) -> None:
    known = p.HelloSession(session_id="s_1", last_seq_sent=LARGEST_SEQ, control_seq=0, state="idle")
    async with server.link() as runner:
        assert (await runner.next())["type"] == "websocket.accept"
        runner.hello(known, link_number=LARGEST_SEQ)
        await runner.frame("x-interlock.welcome")


@pytest.mark.req("L-5")
async def test_a_number_claimed_by_a_thief_does_not_lock_the_runner_out(server: Server) -> None:
    """The thief has the runner's token, and claims the largest number; the runner receives one that it can
    continue from, each time, and its link then replaces the thief's."""
    own = 57
    for _ in range(5):
        async with server.link() as thief, server.link() as late, server.link() as runner:
            assert [(await one.next())["type"] for one in (thief, late, runner)] == ["websocket.accept"] * 3
            thief.hello(link_number=2**53 - 1)
            await thief.frame("x-interlock.welcome")
            late.hello(link_number=own)
            code, sentence = await late.closed()
            assert code == CloseCode.OUTDATED
            newest = read_outdated(code, sentence)
            assert newest is not None
            assert own < newest <= own + LINK_JUMP
            runner.hello(link_number=newest + 1)
            await runner.frame("x-interlock.welcome")
            assert await thief.closed() == (CloseCode.REPLACED, "the same runner opened a newer link")
            own = newest + 1


@pytest.mark.req("L-5")
async def test_a_link_that_is_replaced_while_it_is_still_being_attached_gets_no_lane(server: Server) -> None:
    async with server.session() as (_, session_id, _):
        pass
    known = p.HelloSession(session_id=session_id, last_seq_sent=1, control_seq=3, state="idle")
    async with server.link() as old, server.link() as new:
        assert [(await one.next())["type"] for one in (old, new)] == ["websocket.accept"] * 2
        old.hello(known)
        new.hello(known)
        await new.frame("x-interlock.welcome")
        assert (await old.closed())[0] == CloseCode.REPLACED
        shell = await server.lane(session_id)
        present = server.engine.presence.get("local")
        assert present is not None
        if present.arriving is not None:  # Its lanes are attached before the runner is.
            await asyncio.wait_for(present.arriving.wait(), 5)
        assert shell.link is not None
        assert shell.link is server.engine.presence.link_of("local")


async def test_a_token_revoked_while_its_link_opens_is_refused(server: Server) -> None:
    async with server.link() as runner:
        assert (await runner.next())["type"] == "websocket.accept"
        await revoke(server)
        runner.hello()
        code, _ = await runner.closed()
        assert code == CloseCode.UNAUTHORIZED
    assert server.engine.presence.link_of("local") is None


async def edited(server: Server, **changes: object) -> None:
    """An intruder writes a runner's row by SQL, without an audit record."""
    row = msgspec.structs.replace(server.record, **changes)
    await server.ledger.commit(WriteBatch([Drop(RUNNERS, (row.runner_id,)), Put(row)]))


@pytest.mark.req("H-5")
@pytest.mark.parametrize("changes", [
    {"token_sha256": hashed("a stranger's")}, {"runner_id": "rnr_2", "token_sha256": hashed("a stranger's")},
], ids=["the token of a runner changed", "a runner inserted"])
async def test_a_runner_without_an_audit_record_is_refused(server: Server, changes: dict[str, str]) -> None:
    await server.engine.adopt()
    await edited(server, **changes)
    async with server.link("a stranger's") as runner:
        assert (await runner.next())["status"] == 401
    records = [json.loads(one.body) for one in await server.ledger.audit(OWNER_TENANT, 0, 100)]
    assert [one["meta"]["about"] for one in records if one["action"] == "tampered"] == [
        f"runner/{changes.get('runner_id', 'local')}"]


@pytest.mark.req("H-5")
async def test_a_revoked_runner_restored_in_the_database_is_refused(server: Server) -> None:
    await revoke(server)
    await server.engine.adopt()
    await edited(server, token_sha256=hashed(TOKEN))
    async with server.link() as runner:
        assert (await runner.next())["status"] == 401


@pytest.mark.req("H-5")
async def test_an_edited_row_ends_the_link_when_tokens_are_compared(server: Server) -> None:
    await server.engine.adopt()
    async with server.attached() as runner:
        await server.endpoint.check_tokens()
        assert server.engine.presence.link_of("local") is not None
        await edited(server, token_sha256=hashed(TOKEN), tenant_id="other")
        await server.endpoint.check_tokens()
        assert (await runner.closed())[0] == CloseCode.UNAUTHORIZED


@pytest.mark.req("L-6")
async def test_connecting_and_disconnecting_is_recorded_in_the_ledger(server: Server) -> None:
    before = await server.ledger.runner("local", server.record.tenant_id)
    assert before is not None
    server.clock.advance(1_000)
    async with server.attached() as runner:
        await server.execute()
        await runner.frame("control.session.open")
        seen = await server.ledger.runner("local", server.record.tenant_id)
        assert seen is not None
        assert seen.last_seen_ms == server.clock.at_ms
        server.clock.advance(500)
    seen = await server.ledger.runner("local", server.record.tenant_id)
    assert seen == msgspec.structs.replace(before, last_seen_ms=server.clock.at_ms)


async def test_a_runner_can_neither_see_nor_attach_another_runners_session(server: Server) -> None:
    async with server.session() as (_, session_id, _):
        pass
    stranger = msgspec.structs.replace(server.record, runner_id="rnr_2", token_sha256=hashed("second"))
    await server.ledger.commit(WriteBatch([Put(stranger)]))
    async with server.link("second") as runner:
        assert (await runner.next())["type"] == "websocket.accept"
        runner.hello(p.HelloSession(session_id=session_id, last_seq_sent=9, control_seq=0, state="idle"),
                     runner_id="rnr_2")
        welcome = await runner.frame("x-interlock.welcome")
        assert welcome.payload.sessions == []
        runner.send("session.capabilities", CAPABILITIES, session_id=session_id, seq=1)
        shell = await server.engine.lanes.lane(session_id)
        assert shell is not None
        assert shell.link is None
    assert await server.kinds(session_id) == ["session.capabilities"]
