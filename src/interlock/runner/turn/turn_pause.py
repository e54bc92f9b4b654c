"""Pause and resume a running query (C-6): by signal at once, or at the agent's next boundary."""

from __future__ import annotations

from interlock.ports.agent import Agent
from interlock.protocol import payloads as p
from interlock.runner.journal import Journal
from interlock.runner.turn.interactions import Interactions


async def pause(agent: Agent, features: p.Features, journal: Journal, interactions: Interactions) -> None:
    """Hold back what would begin. `paused` is reported once the agent has stopped: at once if a signal stops its
    processes or it waits for a person already, else at its next question or turn."""
    interactions.hold()
    await agent.pause()
    stopped = features.pause == "signal" or interactions.waiting
    await journal.write(*(journal.state_changed("paused") if stopped else []))


async def resume(agent: Agent, journal: Journal, interactions: Interactions) -> None:
    """Resume; answers that arrived meanwhile are delivered after the new state is reported."""
    interactions.let_go()
    await journal.write(*journal.state_changed(interactions.agent_state))
    await agent.resume()
