"""One turn of one session: sends the prompt to the agent, cancels, ends (T-1 … T-3, A-4)."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import structlog

from interlock.ports.agent import Agent, AgentPrompt, AgentQuestion, InteractionAnswer, ProcessExit, TurnOutcome
from interlock.protocol.codes import Code
from interlock.protocol.envelope import Frame
from interlock.protocol.limits import AGENT_IDLE_MS, CANCEL_GRACE_MS, TERMINATE_GRACE_MS
from interlock.protocol.payloads import AgentState
from interlock.runner.journal import Journal
from interlock.runner.process.programs import KIND, TOOL
from interlock.runner.session_state import TurnState
from interlock.runner.staged.turns import StagedTurns
from interlock.runner.turn import endings
from interlock.runner.turn.context_overflow import Overflow
from interlock.runner.turn.interactions import Interactions
from interlock.runner.turn.turn_writer import StoredTurnWriter, merge_usage

STANDING: frozenset[AgentState] = frozenset({"paused", "waiting_approval", "waiting_input"})
"""States in which a person is waited for and the timeout's clock stops (C-1)."""
TICK_S = 1.0
"""Interval at which the backstop checks whether its clock runs."""

log = structlog.get_logger()


class SessionTimeouts(NamedTuple):
    """Time limits of a session in seconds; shorter in tests."""

    cancel_s: float = CANCEL_GRACE_MS / 1000
    """For the agent's own cancel (A-4)."""
    end_s: float = TERMINATE_GRACE_MS / 1000 + 2
    """Added for a program that can only be cancelled by ending it."""
    drain_s: float = 10.0
    """After the process's end its adapter must have written the rest within this."""
    idle_s: float = AGENT_IDLE_MS / 1000
    """An agent that is idle for this long is closed."""
    backstop_s: float = 30.0
    """The runner's timer for a prompt's timeout_ms is longer than the gateway's, which decides, by this."""


class RunnerTurn:
    """A started turn. `run` returns when its end and its usage are written. One that `lands` does not prompt the agent,
    and asks people only whether staged changes land (H-17)."""

    def __init__(self, agent: Agent, journal: Journal, turn: TurnState, interactions: Interactions,
                 timeouts: SessionTimeouts, *, single_process: bool, asks: bool = False,
                 staged: StagedTurns | None = None, lands: bool = False) -> None:
        self._agent = agent
        self._journal = journal
        self._turn = turn
        self._interactions = interactions
        self._timeouts = timeouts
        self._single_process = single_process
        self._staged = staged
        self._lands = lands
        self.overflow = Overflow(journal, turn.turn_id)
        self._turn_writer = StoredTurnWriter(journal, turn, interactions, self.overflow, asks=asks)
        self._cancelled = asyncio.Event()
        self._reason = ""
        self._by_runner = False
        self._timed_out = False
        self._terminated: ProcessExit | None = None
        self.goes_on = False
        """Whether it ended with `tool_use`: the query continues in another turn (T-1)."""

    def cancel(self, reason: str, *, by_runner: bool = False) -> None:
        """Request its end; the first reason counts, and is reported if the runner asks `by_runner` itself."""
        if not self._cancelled.is_set():
            self._reason, self._by_runner = reason, by_runner
            self._cancelled.set()

    def pass_cancel(self, following: RunnerTurn) -> None:
        """Pass a cancel that arrived after this turn's end to the query's next turn."""
        if self._cancelled.is_set():
            following.cancel(self._reason, by_runner=self._by_runner)

    async def announce_program(self, invocation_id: str, input_json: bytes, title: str) -> None:
        """Write the start of a held program as a tool call (H-16)."""
        await self._turn_writer.tool_request(invocation_id, TOOL, input_json, title, kind=KIND)

    async def ask_program(self, question: AgentQuestion) -> InteractionAnswer:
        """Ask whether a held program may start; after a cancel none may."""
        if self._cancelled.is_set():
            return InteractionAnswer(False, None, "The turn was cancelled.")
        return await self._turn_writer.ask_program(question)

    async def end_program(self, invocation_id: str, output: str | None, *, started: bool) -> None:
        """Write that a program has ended, or was not started."""
        status = "ok" if started else "error"  # The turn writer turns that into `denied`.
        await self._turn_writer.tool_result(invocation_id, status, "text" if output else "empty", output)

    async def may_go_on(self) -> None:
        """Between two turns of a query, wait while the agent is to pause (C-6), until a cancel."""
        if not self._interactions.stopped:
            return
        await self._journal.write(*self._journal.state_changed("paused"))
        waits = [asyncio.create_task(self._interactions.going()), asyncio.create_task(self._cancelled.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        self._interactions.let_go()

    async def run(self, prompt: AgentPrompt) -> bool:
        """Drive the agent to the turn's end. Return True if the process has ended, and the opening with it."""
        backstop = asyncio.create_task(self._backstop(prompt.timeout_ms))
        try:
            if self._staged is not None:
                await self._staged.begin()
            outcome = await self._drive(prompt) if not self._lands else TurnOutcome("end_turn")
            if self._staged is not None:
                outcome = await self._settle(self._staged, outcome)
        finally:
            backstop.cancel()
        return await self._end(outcome)

    async def _drive(self, prompt: AgentPrompt) -> TurnOutcome:
        asking = asyncio.create_task(self._agent.prompt(prompt, self._turn_writer))
        cancelled = asyncio.create_task(self._cancelled.wait())
        try:
            await asyncio.wait([asking, cancelled], return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                return _outcome(asking)
            await self._stop(asking)
            partial = _outcome(asking)
            return TurnOutcome("cancelled", partial.usage, exit_code=partial.exit_code,
                               process=self._terminated or partial.process, stopped=partial.stopped)
        finally:
            cancelled.cancel()
            asking.cancel()

    async def _settle(self, staged: StagedTurns, outcome: TurnOutcome) -> TurnOutcome:
        """Ask about staged changes. A cancel ends the question; a landing that has begun is finished."""
        settling = asyncio.create_task(staged.settle(self._turn_writer, outcome))
        cancelled = asyncio.create_task(self._cancelled.wait())
        try:
            await asyncio.wait([settling, cancelled], return_when=asyncio.FIRST_COMPLETED)
            if not settling.done():
                await self._turn_writer.cancel("The turn was cancelled.")
                self._interactions.let_go()
            await settling
            return outcome._replace(stop_reason="cancelled") if self._cancelled.is_set() else outcome
        finally:
            cancelled.cancel()

    async def _stop(self, asking: asyncio.Task[TurnOutcome]) -> None:
        """Use the agent's own cancel, then end its process (A-4); the adapter must return in either case."""
        await self._agent.resume()
        await self._turn_writer.cancel("The turn was cancelled.")
        self._interactions.let_go()  # Only now: a yes held back by a pause must not start a tool any more.
        await self._agent.cancel()
        grace_s = self._timeouts.cancel_s + (self._timeouts.end_s if self._single_process else 0)
        await asyncio.wait([asking], timeout=grace_s)
        if asking.done():
            return
        self._terminated = await self._agent.close()
        await asyncio.wait([asking], timeout=self._timeouts.drain_s)
        asking.cancel()
        await asyncio.wait([asking])

    async def _end(self, outcome: TurnOutcome) -> bool:
        """Close open blocks and calls, write errors, end the turn; and the opening, if the process is gone."""
        journal, turn_id, ended = self._journal, self._turn.turn_id, outcome.process
        stderr = self._agent.stderr_tail()
        writes = await self._turn_writer.finish(self._reason or "The turn ended.")
        exit_frames: list[Frame] = []
        if ended is not None:
            await self._agent.close()
            # With an error of its own, the outcome names the cause: the exit is its consequence.
            expected = self._cancelled.is_set() or outcome.error is not None
            exit_frames = endings.exit_error(journal, ended, stderr, turn_id, expected=expected)
        elif outcome.stopped is not None:
            exit_frames = endings.exit_error(journal, outcome.stopped, stderr, turn_id, expected=True)
        before = exit_frames if outcome.stop_reason != "cancelled" else []
        after = exit_frames if outcome.stop_reason == "cancelled" else []
        if ended is None or outcome.error is not None:
            before = [*endings.outcome_errors(journal, outcome, stderr, turn_id), *before]
        reported = merge_usage(self._turn_writer.reported, outcome.usage)
        end = endings.turn_end(journal, self._turn, outcome, timed_out=self._timed_out,
                               reason=self._reason if self._by_runner else "")
        owed = endings.usage(journal, turn_id, reported, crashed=ended is not None)
        if ended is None:
            self.goes_on = outcome.stop_reason == "tool_use"
            rest = [] if self.goes_on else journal.state_changed("idle")
            await journal.write(*writes, *before, end, owed, *after, *rest)
            return False
        reason = self._reason if self._terminated else "the agent's process ended"
        await journal.write(*writes, *before, end, owed, *after, *endings.closed(journal, reason, ended))
        return True

    async def _backstop(self, timeout_ms: int | None) -> None:
        """Cancel a turn that outlives its timeout, if the gateway, whose clock decides, did not."""
        if timeout_ms is None:
            return
        left_s = timeout_ms / 1000 + self._timeouts.backstop_s
        while left_s > 0:
            await asyncio.sleep(min(TICK_S, left_s))
            if self._journal.state.state not in STANDING:
                left_s -= TICK_S
        self._timed_out = not self._cancelled.is_set()
        self.cancel("the prompt's timeout has passed")


def _outcome(asking: asyncio.Task[TurnOutcome]) -> TurnOutcome:
    """Return the adapter's outcome. One that raised has a bug, and the turn must end all the same (T-3)."""
    if asking.cancelled():
        return TurnOutcome("error", error=(Code.INTERNAL, "The agent's adapter did not return."))
    error = asking.exception()
    if error is None:
        return asking.result()
    log.error("the adapter of an agent failed", exc_info=error)
    return TurnOutcome("error", error=(Code.INTERNAL, f"Interlock's adapter for this agent failed: {error!r}."))
