"""Turns whose agent's process ended, by itself or because it closed its output and kept running (A-2)."""

from __future__ import annotations

import asyncio

from interlock.ports.agent import ProcessExit, TurnOutcome
from interlock.ports.process import Process
from interlock.protocol.codes import Code

EXIT_WAIT_S = 1.0
"""An agent that exits closes its output first: its exit is received at most this much later."""
SENTENCE = "The agent closed its output in the middle of its turn and kept running, so it was ended."


async def lives_on(process: Process) -> bool:
    """Wait for the exit of an agent whose output has ended; return whether it still runs after EXIT_WAIT_S."""
    try:
        async with asyncio.timeout(EXIT_WAIT_S):
            await process.exited()
    except TimeoutError:
        return True
    return False


def died(ended: ProcessExit) -> TurnOutcome:
    """Return the outcome of a turn in which the agent's process ended by itself."""
    clean = ended.code == 0
    return TurnOutcome("end_turn" if clean else "error", process=ended, unanswered=clean)


def ended_silent(ended: ProcessExit) -> TurnOutcome:
    """Return the outcome of a turn whose agent was ended because it had closed its output."""
    return TurnOutcome("error", process=ended, error=(Code.PROCESS_EXIT, SENTENCE))
