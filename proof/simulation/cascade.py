"""One gateway of a simulated cluster dies on a network with latency: do the others survive?

Every session has a running turn when it happens. A cascade follows if taking over the dead gateway's sessions keeps
another one from renewing its own lease: it is considered dead too, and so on.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from proof.simulation.gateway import Gateway
from proof.simulation.invariants import broken
from proof.simulation.time import SimulatedLoop
from proof.simulation.trial import alone
from proof.simulation.world import Size, World

SIZE = Size(runners=12, sessions=150, viewers=2, gateways=3, steps=1, failures=0.0, rtt=2.5)
OPENED_S = 90.0
"""Sessions that are not open by then were given to gateways that do not come to rest."""
WATCHED_S = 40.0
"""A cascade is seen within this: takeovers of lanes whose owners died over their own takeovers."""


class Found(NamedTuple):
    """What was seen."""

    kills: int
    falsely_dead: int
    """How often a gateway that lived and answered was taken for dead."""
    served_s: float
    """The slowest time from a death until a live gateway has read the last session with a timer of the dead one.
    A session without a timer is read on a request, or when its runner connects."""
    had: int
    """Sessions with a clock that the dead gateway had then, the fewest."""
    broken: list[str]
    """What does not hold at the end: commands lost, run twice, and all other invariants."""


def cascade(seed: int, size: Size = SIZE, kills: int = 1, *, earlier: bool = False) -> Found:
    """Run one from its seed; `earlier` has gateways take over as they did when it cascaded."""
    loop = SimulatedLoop()
    with alone(loop):
        return loop.run_until_complete(_cascade(World(loop, seed, size, earlier=earlier), kills))


async def _cascade(world: World, kills: int) -> Found:
    slowest_s, joined, had = 0.0, 0, world.size.sessions
    try:
        await world.open()
        await world.gateways[0].engine.adopt()  # As the first gateway on a ledger does at its start.
        joined = world.leases.joined
        for _ in range(kills):
            await _set_to_work(world)
            dying = world.choose()
            had = min(had, len(await _clocked(world, dying)))
            slowest_s = max(slowest_s, await _kill(world, dying))
            await world.gateway()
            joined += 1
        falsely = world.leases.joined - joined
        await world.calm()
        return Found(kills, falsely, slowest_s, had, await broken(world))
    finally:
        await world.close()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)


async def _set_to_work(world: World) -> None:
    """Give each session a command, and wait until all are open."""
    for number in range(world.size.sessions):
        tenant = world.tenant_of(number % world.size.runners)
        world.clients.begin(world.clients.execute(tenant, f"ses-{number:07d}"))
    began_s = world.loop.time()
    await asyncio.sleep(4.0)
    while world.loop.time() < began_s + OPENED_S and _closed(world):  # noqa: ASYNC110 - it waits for the store
        await asyncio.sleep(1.0)


def _closed(world: World) -> bool:
    return any(one.state == "closed" for one in world.store.all_sessions())


async def _clocked(world: World, gateway: Gateway) -> set[str]:
    clocks = await world.store.session_clocks([shell.lane_name for shell in gateway.engine.lanes.live()])
    return {one.session_id for one in clocks if one.deadline_ms is not None}


def _lanes(gateway: Gateway) -> set[str]:
    return {shell.lane.state.session_id for shell in gateway.engine.lanes.live()}


async def _kill(world: World, gateway: Gateway) -> float:
    """Kill one, and return the seconds until live gateways have read all its sessions and every lane has
    an owner."""
    unread = await _clocked(world, gateway)
    world.kill(gateway)
    for number in range(world.size.looks):
        world.clients.begin(world.clients.look(world.tenant_of(number), f"looked-for-{number}"))
    began_s = world.loop.time()
    served_s = WATCHED_S
    while (past_s := world.loop.time() - began_s) < WATCHED_S:
        unread -= {one for living in world.gateways for one in _lanes(living)}
        if past_s > 1.0 and not unread and not await world.leases.orphans(1) and not await _alive(world, gateway):
            served_s = min(served_s, past_s)
        await asyncio.sleep(0.1)
    return served_s


async def _alive(world: World, gateway: Gateway) -> bool:
    return gateway.cluster.instance_id in {one.instance_id for one in await world.leases.instances()}
