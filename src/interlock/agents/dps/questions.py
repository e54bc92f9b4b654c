"""The permission requests of an agent: passed to the turn writer, and each answered exactly once (A-5)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from interlock.agents.dps.pipe import Pipe
from interlock.agents.dps.turn_events import DpsTurn
from interlock.ports.agent import AgentQuestion, TurnWriter
from interlock.protocol import payloads as p
from interlock.protocol.codes import Code
from interlock.protocol.frames import InvalidFrame

MAX_OPEN_QUESTIONS = 64
"""Simultaneous permission requests; one more is denied."""
BY = "interlock"
NOT_ASKED = "The turn was cancelled, or asks too much at once."


class Questions:
    """The open questions of one agent. A person's answer takes time: the agent's other frames are read meanwhile."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._features = p.Features(adapter_type="process")
        self._open: dict[str, asyncio.Task[None]] = {}
        """The tasks that wait for an answer, by interaction_id."""
        self._tasks: set[asyncio.Task[None]] = set()

    def configure(self, features: p.Features) -> None:
        """Go by the features that the agent reported."""
        self._features = features

    def ask(self, turn: DpsTurn, interaction: p.InteractionRequest, *, cancelled: bool) -> None:
        """Pass a question to the turn writer, or deny it at once. Raises InvalidFrame."""
        if interaction.interaction_type == "QUESTION" and not self._features.questions:
            raise InvalidFrame("$.payload.interaction_type", "is QUESTION, but the agent's session.capabilities lack "
                               "`questions`", None, Code.UNSUPPORTED_CAPABILITY)
        question = turn.question(interaction)._replace(interaction_type=interaction.interaction_type,
                                                    takes_input=self._features.updated_input)
        if cancelled or len(self._open) >= MAX_OPEN_QUESTIONS or interaction.interaction_id in self._open:
            self.deny(interaction.interaction_id, NOT_ASKED)
            return
        interaction_id = interaction.interaction_id
        task = self._open[interaction_id] = self._begin(self._answer(interaction_id, question, turn.turn_writer))
        task.add_done_callback(lambda _: self._remove(interaction_id, task))

    def deny(self, interaction_id: str, sentence: str) -> None:
        """Deny a question that is not asked: the agent waits, whatever was wrong with its question.

        A question that is open under the same id is denied, too: the agent matches answers by the id alone, and might
        read a yes for the one as the answer to the other (A-5).
        """
        waiting = self._open.pop(interaction_id, None)
        if waiting is not None:
            waiting.cancel()
            self._begin(self._respond(interaction_id, None, sentence, allow=False))
        self._begin(self._respond(interaction_id, None, sentence, allow=False))

    async def close(self) -> None:
        """Cancel all waiting questions; the process is gone."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _answer(self, interaction_id: str, question: AgentQuestion, turn_writer: TurnWriter) -> None:
        answer = await turn_writer.ask(question)
        self._open.pop(interaction_id, None)  # The agent may use the id again as soon as it reads the answer.
        await self._respond(interaction_id, answer.option_id, answer.message, allow=answer.allow, answer=answer.text,
                            updated_input=answer.updated_input)

    async def _respond(self, interaction_id: str, option_id: str | None, message: str | None, *, allow: bool,
                       **more: Any) -> None:
        response = p.InteractionResponse(
            interaction_id=interaction_id, decision="allow" if allow else "deny", by=BY, option_id=option_id,
            message=message, **more,
        )
        await self._pipe.send("control.interaction.response", response)

    def _begin(self, doing: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(doing)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _remove(self, interaction_id: str, task: asyncio.Task[None]) -> None:
        if self._open.get(interaction_id) is task:
            del self._open[interaction_id]
