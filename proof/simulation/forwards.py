"""Requests of clients at a gateway that does not have the session, while the one that has it fails.

In each round a client sends a command to one gateway for a session of another one, and a fault hits the request, the
gateway that has the session, or the stores and the bus that both need. The client sends it again under its key until it
is answered; or not again once a response states that nothing was done. Each attempt must be answered in time, and each
response must be true.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from interlock.gateway.rest.forwarder import FORWARD_DEADLINE_S
from proof.simulation.clients import Submitted, prompt
from proof.simulation.gateway import Answer, Gateway
from proof.simulation.invariants import broken
from proof.simulation.network import Cut
from proof.simulation.time import SimulatedLoop
from proof.simulation.trial import alone
from proof.simulation.world import Size, World

SIZE = Size(runners=6, sessions=30, viewers=2, gateways=3, steps=1, failures=0.0)
PAST_S = 1.0
"""An answer is in time up to this long past the deadline."""
ATTEMPTS = 12
LATE_S = (4.0, 40.0)
"""A store that stalls: a call arrives there so late, and its answer comes back so late."""
PAUSE_S = (0.5, 30.0)
AWAY_S = (0.2, 25.0)
SETTLES_S = 15.0
"""After each round: a lease has run out by then, and runners have come again."""


class Found(NamedTuple):
    """What was seen."""

    broken: list[str]
    befell: Counter[str]
    answers: Counter[str]


class Forwards:
    """The rounds of one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._draw = world.draw
        self._loop = world.loop
        self._stood: set[Gateway] = set()
        self._declined: list[str] = []
        """Commands whose every answer reported that nothing was done, and which were not sent again."""
        self._numbers = 0
        self.faults: list[str] = []
        self.befell: Counter[str] = Counter()
        self.answers: Counter[str] = Counter()

    async def round(self) -> None:
        """Send one command, and have something befall it."""
        number = self._draw.randrange(self._world.size.sessions)
        runner = self._world.runners[number % self._world.size.runners]
        owner = runner.gateway
        if owner is None or not runner.attached or owner not in self._world.gateways:
            await asyncio.sleep(1.0)
            return
        asked = self._draw.choice([one for one in self._world.gateways if one is not owner])
        names = self._draw.sample(list(FAULTS), self._draw.randint(1, 2))
        self.befell.update(names)
        befall = [asyncio.ensure_future(FAULTS[name](self, asked, owner)) for name in names]
        await asyncio.sleep(0.0)
        await self._until_answered(asked, runner.tenant, f"ses-{number:07d}")
        await asyncio.gather(*befall)
        await asyncio.sleep(SETTLES_S)

    # --- the client ---
    async def _until_answered(self, asked: Gateway, tenant: str, session_id: str) -> None:
        self._numbers += 1
        name, in_doubt = f"forwarded-key-{self._numbers:07d}", False
        for _ in range(ATTEMPTS):
            answer = await self._attempt(asked, tenant, session_id, name)
            if answer is not None and answer.status == 202:
                self._acknowledged(name, tenant, answer.body["id"])
                return
            if answer is not None and answer.status != 503 and answer.body["code"] != "IdempotencyKeyInUse":
                self.faults.append(f"{name} was answered {answer}")
                return
            in_doubt = in_doubt or answer is None or not _nothing_was_done(answer)
            if not in_doubt and self._draw.random() < 0.5:
                self._declined.append(name)
                return
            await asyncio.sleep(self._draw.uniform(0.2, 2.0))
            asked = self._world.choose()

    async def _attempt(self, asked: Gateway, tenant: str, session_id: str, name: str) -> Answer | None:
        began_s = self._loop.time()
        body = prompt(tenant, name, {"session_id": session_id})
        asking = asyncio.ensure_future(asked.ask("POST", "/v1/commands", f"ilk_{tenant}", body, name))
        done, _ = await asyncio.wait({asking}, timeout=FORWARD_DEADLINE_S + PAST_S)
        if done:
            answer: Answer = asking.result()
            self.answers[str(answer.status)] += 1
            return answer
        self.answers["none"] += 1
        if asked.alive and asked not in self._stood:
            self.faults.append(f"{name} had no answer {self._loop.time() - began_s:g} s after it was sent")
        return None

    def _acknowledged(self, name: str, tenant: str, command_id: str) -> None:
        if command_id not in self._world.store.moves:
            self.faults.append(f"{name} was acknowledged as {command_id} before that was in the ledger")
        self._world.clients.acknowledged[name] = Submitted(command_id, tenant, "execute")

    def done_after_all(self) -> list[str]:
        """Return the commands that ran although every answer reported that they did not."""
        texts = [bytes(record.command.payload) for record in self._world.store.all_commands()]  # type: ignore[arg-type]
        return [f"{name} was done, and was answered that nothing was done" for name in self._declined
                if any(name.encode() in text for text in texts)]

    # --- what befalls it ---
    async def nothing(self, _asked: Gateway, _owner: Gateway) -> None:
        """Leave all as it is."""

    async def cut_before(self, _asked: Gateway, owner: Gateway) -> None:
        """Lose the request on its way."""
        owner.bus.cut = Cut(False, lambda: None)

    async def cut_after(self, _asked: Gateway, owner: Gateway) -> None:
        """Lose the answer."""
        owner.bus.cut = Cut(True, lambda: None)

    async def refused_after(self, _asked: Gateway, owner: Gateway) -> None:
        """Lose the answer, and then have the ledger refuse all that is asked of it."""
        owner.bus.cut = Cut(True, lambda: self._world.clients.begin(self._refuse(self._draw.uniform(10.0, 30.0))))

    async def _refuse(self, seconds: float) -> None:
        refused = list(self._world.gateways)
        for gateway in refused:
            gateway.store.refuses = True
        await asyncio.sleep(seconds)
        for gateway in refused:
            gateway.store.refuses = False

    async def owner_dies_before(self, _asked: Gateway, owner: Gateway) -> None:
        """Kill the owner as the request arrives."""
        owner.bus.cut = Cut(False, lambda: self._kill(owner))

    async def owner_dies_after(self, _asked: Gateway, owner: Gateway) -> None:
        """Kill the owner once it has done what was asked."""
        owner.bus.cut = Cut(True, lambda: self._kill(owner))

    def _kill(self, owner: Gateway) -> None:
        if owner in self._world.gateways:
            self._world.kill(owner)
            self._world.clients.begin(self._another())

    async def _another(self) -> None:
        await asyncio.sleep(self._draw.uniform(1.0, 8.0))
        await self._world.gateway()

    async def owner_pauses(self, _asked: Gateway, owner: Gateway) -> None:
        """Pause the owner for a while."""
        self._stood.add(owner)
        owner.pause()
        await asyncio.sleep(self._draw.uniform(*PAUSE_S))
        owner.go_on()
        await asyncio.sleep(FORWARD_DEADLINE_S)  # Requests from before the pause have no time left.
        self._stood.discard(owner)

    async def owner_is_late(self, asked: Gateway, owner: Gateway) -> None:
        """Have the ledger stall for the owner."""
        await self._is_late(owner)

    async def asked_is_late(self, asked: Gateway, owner: Gateway) -> None:
        """Have the ledger stall for the gateway that is asked."""
        await self._is_late(asked)

    async def _is_late(self, gateway: Gateway) -> None:
        await asyncio.sleep(self._draw.uniform(0.0, 0.03))  # Before its credential is read, or while it is done.
        gateway.store.late_s = self._draw.uniform(*LATE_S)
        await asyncio.sleep(self._draw.uniform(1.0, 2 * FORWARD_DEADLINE_S))
        gateway.store.late_s = 0.0

    async def owner_is_refused(self, _asked: Gateway, owner: Gateway) -> None:
        """Have the ledger refuse all that the owner asks."""
        owner.store.refuses = True
        await asyncio.sleep(self._draw.uniform(0.2, 5.0))
        owner.store.refuses = False

    async def owner_loses_the_bus(self, _asked: Gateway, owner: Gateway) -> None:
        """Cut the owner off from the bus."""
        await self._loses_the_bus(owner)

    async def asked_loses_the_bus(self, asked: Gateway, _owner: Gateway) -> None:
        """Cut the gateway that is asked off from the bus."""
        await self._loses_the_bus(asked)

    async def _loses_the_bus(self, gateway: Gateway) -> None:
        await asyncio.sleep(self._draw.uniform(0.0, 0.02))
        gateway.bus.cut_off()
        await asyncio.sleep(self._draw.uniform(*AWAY_S))
        gateway.place.context.copy().run(gateway.bus.come_back)


def _nothing_was_done(answer: Answer) -> bool:
    return any(words in answer.body["detail"] for words in ("Nothing was done", "nothing was changed"))


Befalls = Callable[[Forwards, Gateway, Gateway], Awaitable[None]]
FAULTS: dict[str, Befalls] = {befalls.__name__: befalls for befalls in (
    Forwards.nothing, Forwards.cut_before, Forwards.cut_after, Forwards.refused_after, Forwards.owner_dies_before,
    Forwards.owner_dies_after, Forwards.owner_pauses, Forwards.owner_is_late, Forwards.asked_is_late,
    Forwards.owner_is_refused, Forwards.owner_loses_the_bus, Forwards.asked_loses_the_bus)}


def forwards(seed: int, rounds: int, size: Size = SIZE) -> Found:
    """Run this many rounds from a seed."""
    loop = SimulatedLoop()
    with alone(loop):
        return loop.run_until_complete(_forwards(World(loop, seed, size), rounds))


async def _forwards(world: World, rounds: int) -> Found:
    try:
        await world.open()
        sent = Forwards(world)
        for _ in range(rounds):
            await sent.round()
        await world.calm()
        return Found([*sent.faults, *sent.done_after_all(), *await broken(world)], sent.befell, sent.answers)
    finally:
        await world.close()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
