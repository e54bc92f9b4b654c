"""Pause and resume of a running query (C-6): by signal at once, or at the agent's next boundary."""

from __future__ import annotations

from interlock.ports.agent import Agent
from interlock.protocol import payloads as p
from interlock.runner.interactions import Interactions
from interlock.runner.journal import Journal


async def pause(agent: Agent, features: p.Features, journal: Journal, interactions: Interactions) -> None:
    """Hold what would begin. `paused` is told once the agent stands: at once where a signal stops its processes or it
    waits for a person already, else at its next question or turn."""
    interactions.hold()
    await agent.pause()
    stands = features.pause == "signal" or interactions.waiting
    await journal.write(*(journal.state_changed("paused") if stands else []))


async def resume(agent: Agent, journal: Journal, interactions: Interactions) -> None:
    """Let it go on; answers that came meanwhile are delivered after the new state is told."""
    interactions.let_go()
    await journal.write(*journal.state_changed(interactions.standing))
    await agent.resume()
