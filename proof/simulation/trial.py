"""One run of a world, from its seed to its violated invariants."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import traceback
from collections import Counter
from collections.abc import Callable, Generator
from typing import Any

import structlog

from interlock.engine.bridge.kernel import Decide, decide
from interlock.ports.ledger import LedgerError
from proof.simulation.invariants import broken
from proof.simulation.time import SimulatedLoop
from proof.simulation.world import Size, World


def trial(seed: int, size: Size, *, checks_epochs: bool = True, reached: Callable[[str], None] = lambda _phase: None,
          decide: Decide = decide) -> tuple[list[str], Counter[str]]:
    """Run one: (what does not hold, what happened). `checks_epochs=False` breaks the ledger on purpose, `reached`
    is called after each phase, `decide` records the engine, or breaks it."""
    loop = SimulatedLoop()
    failed: list[str] = []
    loop.set_exception_handler(lambda _, context: _complain(failed, context))
    with alone(loop):
        broken, counted = loop.run_until_complete(_trial(loop, World(loop, seed, size, decide=decide), reached,
                                                         checks_epochs=checks_epochs))
    return broken + failed, counted


@contextlib.contextmanager
def alone(loop: SimulatedLoop) -> Generator[None]:
    """Have this loop be the one, and nothing logged: every failure in it is wanted."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    asyncio.set_event_loop(loop)
    try:
        yield
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        structlog.configure(**before)
        asyncio.set_event_loop(None)
        loop.close()


async def _trial(loop: SimulatedLoop, world: World, reached: Callable[[str], None], *, checks_epochs: bool
                 ) -> tuple[list[str], Counter[str]]:
    world.store.checks_epochs = checks_epochs
    try:
        await world.open(reached)
        await world.run()
        reached("steps")
        return await broken(world), counted(world)
    finally:
        await world.close()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)


def counted(world: World) -> Counter[str]:
    """What happened."""
    return Counter({
        **world.befell, **world.store.tallies, "simulated s": int(world.loop.time()),
        "turns of the loop": world.loop.turns,
        "acknowledged": len(world.clients.acknowledged), "commands": len(world.store.all_commands()),
        "links": sum(runner.links for runner in world.runners),
        "turns": sum(len(runner.started) for runner in world.runners),
        "tools run": sum(len(runner.tools_run) for runner in world.runners),
        "given to viewers": sum(viewer.seen + viewer.transients for viewer in world.viewers),
        "notes lost": sum(gateway.bus.lost for gateway in (*world.gateways, *world.gone)),
        **{f"answered {status}": count for status, count in world.clients.answers.items()},
    })


def _complain(failed: list[str], context: dict[str, Any]) -> None:
    """Consume the exceptions of tasks that were not awaited. The refusal of a store is expected by its last caller."""
    error = context.get("exception")
    if error is not None and not isinstance(error, LedgerError):
        where = traceback.extract_tb(error.__traceback__)[-1]
        failed.append(f"{error!r} at {where.filename.rsplit('/', 1)[-1]}:{where.lineno} was nobody's")
