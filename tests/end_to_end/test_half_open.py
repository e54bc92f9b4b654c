"""A link that goes silent both ways without ending, as behind a router that forgot it: each side finds it by itself.

The real endpoint on a real server and the runner's own link, with a relay between them that can hold its tongue (L-5).
"""

from __future__ import annotations

import asyncio
import inspect

import msgspec
import pytest

from gateway.raw_runner import Server
from interlock.backends.memory.outbox import MemoryOutbox
from interlock.gateway.server import server
from interlock.protocol import payloads as p
from interlock.runner.link.link import NORMAL_PACE
from interlock.runner.main import RunnerConfig
from runner.link.test_link import Relay
from runner.scripted_gateway import PATIENCE_S, QUICK, Runner

pytestmark = [pytest.mark.anyio, pytest.mark.req("L-5")]
INTERVAL_S, MISSED_S = 0.1, 0.2


class Attaching(Runner):
    """A runner by the name that the gateway knows."""

    async def _hello(self, gateway_id: str) -> p.Hello:
        return msgspec.structs.replace(await super()._hello(gateway_id), runner_id="local")


async def until(condition: object) -> None:
    """Let the loop turn until a thing that no one announces has come to pass."""
    assert callable(condition)
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)


async def test_both_sides_detect_a_silent_link_and_the_runner_reconnects() -> None:
    served = Server()
    await served.pair()
    listener = server.listen("127.0.0.1", 0)
    gateway = server.make_server(served.endpoint, lambda: None, pings=server.Pings(INTERVAL_S, MISSED_S))
    serving = asyncio.create_task(gateway.serve([listener]))
    relay = Relay()
    near = await relay.start()
    outbox = MemoryOutbox()
    pace = QUICK._replace(ping_interval_s=INTERVAL_S, ping_timeout_s=MISSED_S)
    runner = Attaching(relay.url(f"ws://127.0.0.1:{server.port_of(listener)}/rawp"), outbox, pace, 1 << 26)
    linking = asyncio.create_task(runner.link.run())
    try:
        await runner.state("attached")
        await until(lambda: served.engine.presence.link_of("local") is not None)
        first = served.engine.presence.link_of("local")

        relay.stalled = True
        assert (await runner.state("detached")).sentence
        await until(lambda: served.engine.presence.link_of("local") is None)
        assert not linking.done(), "it goes on dialling"

        relay.stalled = False
        await runner.state("attached")
        await until(lambda: served.engine.presence.link_of("local") not in (None, first))
    finally:
        linking.cancel()
        gateway.should_exit = True
        near.close()
        await asyncio.gather(linking, serving, return_exceptions=True)
        await served.engine.stop()


def test_an_idle_link_sends_a_ping_every_15_seconds_and_two_may_be_missed() -> None:
    assert (NORMAL_PACE.ping_interval_s, NORMAL_PACE.ping_timeout_s) == (15, 30)
    assert tuple(server.NORMAL_PINGS) == (15, 30)
    assert msgspec.structs.fields(RunnerConfig)[-1].default == NORMAL_PACE
    assert inspect.signature(server.make_server).parameters["pings"].default == server.NORMAL_PINGS
