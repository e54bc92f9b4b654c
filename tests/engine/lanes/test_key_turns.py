"""One session key at several gateways: a simultaneous reset, message and command (R-2, I-1)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from inspect import iscoroutinefunction
from typing import Any

import pytest

from clusters.street import Answer, Member, Street, eventually, street
from engine.conversation import Table
from interlock.backends.memory.leases import MemoryLeases
from interlock.engine import chats
from interlock.engine.membership import Hold
from interlock.ports.ledger import LaneName
from interlock.protocol.resources import Target

KEY = "agent:shell:main"
SEEDS = range(12)
ENDED = {"canceling", "canceled"}
pytestmark = [pytest.mark.anyio, pytest.mark.req("C-4")]


class Behind:
    """A store as behind a network: other tasks run before it does what it is asked to, and before its answer."""

    def __init__(self, store: Any, chance: random.Random) -> None:
        self._store = store
        self._chance = chance

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return self._slowly(found) if iscoroutinefunction(found) else found

    def _slowly(self, call: Any) -> Any:
        async def slowly(*args: Any, **named: Any) -> Any:
            await self._pause()
            try:
                return await call(*args, **named)
            finally:
                await self._pause()

        return slowly

    async def _pause(self) -> None:
        for _ in range(self._chance.randrange(12)):
            await asyncio.sleep(0)


@pytest.fixture(params=SEEDS)
async def town(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Street]:
    chance = random.Random(request.param)
    monkeypatch.setattr(MemoryLeases, "begins", chance.random() < 0.5)
    async with street(network=lambda store: Behind(store, chance)) as made:
        yield made


async def settled(town: Street) -> None:
    """Wait until all messages on the bus are received and processed."""
    for _ in range(200):
        await asyncio.sleep(0)
        for member in town.members:
            await member.cluster.settled()


async def message(member: Member, text: str) -> Answer:
    return await member.ask("POST", "/v1/inbound", {
        "channel": "telegram", "chat_type": "direct", "account_id": "bot", "sender": "kim", "text": text,
        "message_id": f"{text} at {member.name}"}, "")


async def sessions_of_the_key(town: Street) -> list[str]:
    return [record.session_id for record in await town.ledger.key_sessions("default", KEY, 100)]


@pytest.mark.req("I-1", "R-2")
@pytest.mark.parametrize("is_attached", [True, False], ids=["attached", "runner away"])
async def test_one_session_reset_at_three_gateways_at_the_same_time_begins_once(
    town: Street, is_attached: bool
) -> None:
    _, b, _ = town.members
    async with b.attached() as runner:
        await settled(town)
        first = (await b.execute(session_key=KEY)).body["target"]["session_id"]
        await runner.frame("control.prompt.request")
        if is_attached:
            await check_reset(town, first)
    if not is_attached:
        await settled(town)
        await check_reset(town, first)


@pytest.mark.req("I-1", "R-2")
async def test_a_gateway_holds_no_key_of_another_gateways_session(monkeypatch: pytest.MonkeyPatch) -> None:
    async with street(2) as town:
        a, b = town.members
        async with b.attached():
            await settled(town)
            session_id = (await b.execute(session_key=KEY)).body["target"]["session_id"]
        await settled(town)
        held: list[str] = []
        hold = a.cluster.hold

        def noted(tenant_id: str, name: str) -> AbstractAsyncContextManager[Hold | None]:
            held.append(name)
            return hold(tenant_id, name)

        monkeypatch.setattr(a.cluster, "hold", noted)
        assert (await a.ask("POST", f"/v1/sessions/{session_id}/reset", {})).status == 200
        assert held == []


async def check_reset(town: Street, session_id: str) -> None:
    answers = await asyncio.gather(*(member.ask("POST", f"/v1/sessions/{session_id}/reset", {})
                                     for member in town.members))
    assert sorted(answer.status for answer in answers) == [200, 409, 409], [answer.body for answer in answers]
    known = await sessions_of_the_key(town)
    assert len(known) == 2
    assert known[1] == session_id
    assert [answer.body["session_id"] for answer in answers if answer.status == 200] == known[:1]
    assert {answer.body["code"] for answer in answers if answer.status == 409} == {"Conflict"}


@pytest.mark.req("R-2", "R-4")
async def test_concurrent_messages_and_commands_of_one_key_are_accepted(town: Street) -> None:
    async with town.members[1].attached():
        await settled(town)
        answers = await asyncio.gather(*(
            call for member in town.members
            for call in (message(member, "hello"), member.execute(session_key=KEY))))
        assert [answer.status for answer in answers] == [202] * 6, [answer.body for answer in answers]
        assert len(await sessions_of_the_key(town)) == 1


@pytest.mark.req("I-1", "R-4")
async def test_every_message_that_renews_a_key_begins_a_session_of_its_own(town: Street) -> None:
    async with town.members[1].attached():
        await settled(town)
        await message(town.members[1], "hello")
        answers = await asyncio.gather(*(message(member, f"/new from {member.name}") for member in town.members))
        assert [answer.status for answer in answers] == [202] * 3, [answer.body for answer in answers]
        assert len({answer.body["session_id"] for answer in answers}) == 3
        assert len(await sessions_of_the_key(town)) == 4


@pytest.mark.req("I-1")
async def test_the_old_sessions_work_ends_after_another_gateway_released_the_key(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    async def killed(*_: Any, **__: Any) -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr(chats, "BROKEN_WAIT_S", 0.0)
    async with street(2) as town:
        a, b = town.members
        async with b.attached():
            await settled(town)
            waiting = (await message(b, "hello")).body
            with monkeypatch.context() as broken:
                broken.setattr(b.engine.chats, "_leave", killed)
                with pytest.raises(asyncio.CancelledError):
                    await message(b, "/new and this")
            newest = await town.ledger.session_by_key("default", KEY)
            async with a.cluster.hold("default", KEY):
                await b.engine.lanes.tick(LaneName("default", newest.session_id))
                await settled(town)
                assert await state_of(b, waiting["command_id"]) not in ENDED
            await eventually(lambda: is_ended(b, waiting["command_id"]))


async def state_of(member: Member, command_id: str) -> str:
    return str((await member.ask("GET", f"/v1/commands/{command_id}")).body["state"])


async def is_ended(member: Member, command_id: str) -> bool:
    return await state_of(member, command_id) in ENDED


@pytest.mark.req("C-0")
async def test_concurrent_commands_of_a_new_key_share_one_session() -> None:
    table = Table()
    target = Target(agent_id="shell", session_key="agent:shell:main")
    first, second = await asyncio.gather(table.execute("one", target=target), table.execute("two", target=target))
    assert first.target.session_id == second.target.session_id
