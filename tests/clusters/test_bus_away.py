"""The bus is unreachable for a while: commands for other gateways' sessions come late, none is lost or run twice."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from clusters.street import Answer, Member, Street, street
from engine.cluster.test_cluster import opened
from interlock.app.own_servers import OwnServer, free_port, start_nats
from interlock.backends.bus_nats import link as link_module
from interlock.backends.bus_nats.bus import open_bus
from interlock.backends.bus_nats.places import read_places
from interlock.gateway.rest import forwarder

pytestmark = [pytest.mark.anyio, pytest.mark.req("C-4", "M-1")]
COMMANDS, WORKERS, OUTAGES = 48, 4, 3


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """An outage of a tenth of a second is then what one of a minute is."""
    monkeypatch.setattr(link_module, "RECONNECT_WAIT_S", 0.02)
    monkeypatch.setattr(forwarder, "BUS_GIVE_UP_S", 0.1)
    monkeypatch.setattr(forwarder, "AGAIN_S", 0.02)
    monkeypatch.setattr(forwarder, "ANSWER_WAIT_MS", 1_000)


class Person:
    """Submits commands at a gateway, and repeats each under its key while the response is retryable."""

    def __init__(self, member: Member, session_id: str) -> None:
        self._house = member
        self._session_id = session_id
        self.refused = asyncio.Event()
        self.refusals: list[Answer] = []
        self.accepted: dict[str, str] = {}
        """text → id of the command"""
        self.more = asyncio.Condition()

    async def submit(self, text: str) -> None:
        while True:
            answer = await self._house.execute(text, key=f"key-of-the-command-{text}", session_id=self._session_id)
            if answer.status == 202:
                break
            assert answer.body["retryable"], answer
            if answer.status == 503:
                self.refusals.append(answer)
                self.refused.set()
        async with self.more:
            self.accepted[text] = answer.body["id"]
            self.more.notify_all()

    async def have(self, count: int) -> None:
        """Wait until the given number is accepted."""
        async with self.more:
            await self.more.wait_for(lambda: len(self.accepted) >= count)


async def begin(directory: Path, port: int) -> OwnServer:
    return await asyncio.to_thread(start_nats, directory, port=port)


async def test_commands_continue_across_bus_outages_and_each_exists_once(tmp_path: Path) -> None:
    port = free_port()
    server = await begin(tmp_path, port)
    buses = [await open_bus(read_places(f"nats://127.0.0.1:{port}"), "away") for _ in range(2)]
    try:
        async with street(2, buses=buses) as town:
            a, b = town.members
            async with b.attached() as runner:
                session_id = (await b.execute("first")).body["target"]["session_id"]
                await opened(runner, session_id)
                person = Person(a, session_id)
                waiting = [f"{at:03}" for at in range(COMMANDS)]

                async def work() -> None:
                    while waiting:
                        await person.submit(waiting.pop(0))

                workers = asyncio.gather(*(work() for _ in range(WORKERS)))
                for outage in range(1, OUTAGES + 1):
                    await person.have(outage * COMMANDS // (OUTAGES + 2))
                    await asyncio.to_thread(server.stop, signal.SIGKILL)
                    person.refused.clear()
                    await asyncio.wait_for(person.refused.wait(), 20)
                    here = await b.execute(f"at its own gateway {outage}", session_id=session_id)
                    assert here.status == 202, "what has its runner here needs no bus"
                    server = await begin(tmp_path, port)
                await asyncio.wait_for(workers, 60)
                await check(town, person)
    finally:
        for bus in buses:
            await bus.close()
        await asyncio.to_thread(server.stop, signal.SIGTERM)


async def check(town: Street, person: Person) -> None:
    a, b = town.members
    listed: list[dict[str, Any]] = (await a.ask("GET", "/v1/commands?limit=200")).body["items"]
    assert len(person.accepted) == COMMANDS
    assert len(listed) == COMMANDS + OUTAGES + 1, "nothing is there twice"
    assert set(person.accepted.values()) < {one["id"] for one in listed}, "and nothing is lost"
    assert len(set(person.accepted.values())) == COMMANDS
    assert not a.engine.lanes.live()
    away = [answer for answer in person.refusals if "NATS" in answer.body["detail"]]
    assert away
    for answer in person.refusals:
        assert (answer.body["code"], answer.headers["retry-after"]) == ("Unavailable", "2")
        assert "same idempotency key" in answer.body["hint"]
    assert "`bus` of `[cluster]`" in away[0].body["hint"]
    assert b.engine.lanes.live()
