"""Complete runs of conversations: with a master at a URL, or with a runner that dials in."""

from __future__ import annotations

from collections.abc import Callable

from interlock.conformance.hands import Hand
from interlock.conformance.links import Dialling, Listening
from interlock.conformance.player import Player
from interlock.conformance.sides import AsGateway, AsRunner
from interlock.conformance.steps import ConformanceFinding
from interlock.conformance.with_master import WITH_MASTER
from interlock.conformance.with_runner import WITH_RUNNER


async def with_master(url: str, token: str, runner_id: str, hand: Hand | None, *,
                      slow: bool) -> list[ConformanceFinding]:
    """Play all conversations against the gateway at `url` (ws:// or wss://), as its runner `runner_id`."""
    return await Player(Dialling(url, token), AsRunner(runner_id), hand).play_all(WITH_MASTER, slow=slow)


async def with_runner(host: str, port: int, token: str | None, agent: str, prompt: str, *, slow: bool,
                      listening: Callable[[str], None]) -> list[ConformanceFinding]:
    """Play all conversations with the runner that dials in; `listening` is called with the URL for it. Raises
    OSError."""
    door = Listening(token)
    async with door.open(host, port):
        listening(f"ws://{host}:{door.port}/rawp")
        return await Player(door, AsGateway(agent, prompt)).play_all(WITH_RUNNER, slow=slow)
