"""Records one turn of a checked agent: answers its questions as the step specifies, and notes everything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from interlock.agents.evidence import Shown
from interlock.ports.agent import AgentFile, AgentQuestion, CompactionFailed, InteractionAnswer, TurnUsage
from interlock.protocol.payloads import Channel, Compacted, OutputType, PlanStep, SessionCompact, ToolStatus

MAX_QUESTIONS = 32
"""Limit of one turn; further questions are denied, and not noted."""


_TASK = b"[[tool:"
"""Part of the task of a sub-agent; the sub-agent's own questions do not contain it."""


class Witness:
    """The turn writer of one turn. `happened` returns whether the effect of the step is there, `effect` are the parts
    that an input must contain to show it."""

    def __init__(self, allow: bool, happened: Callable[[], bool], delegating: bool = False,
                 effect: tuple[bytes, ...] = ()) -> None:
        self._allow = allow
        self._effect = effect
        self._delegating = delegating
        self._happened = happened
        self.questions = 0
        """Number of questions, without those about delegating if these are answered yes."""
        self.delegated = False
        """Whether it asked to delegate the task to a sub-agent."""
        self.shown: Shown = ""
        self.ran_before = False
        """Whether the effect was there when the agent asked."""
        self.finished = False
        """Whether a tool completed without a question."""

    async def ask(self, question: AgentQuestion) -> InteractionAnswer:
        if question.interaction_type != "PERMISSION":
            return InteractionAnswer(False, None)
        if _TASK in question.input_json + (question.content_json or b""):
            self.delegated = True
            if self._delegating:
                return _answer(question, True)
        if self.questions == 0:
            self.ran_before = self._happened()
        self.questions += 1
        if not self.shown or self._describes(question):
            self.shown = "described" if self._describes(question) else "input"
        return _answer(question, self._allow and self.questions <= MAX_QUESTIONS)

    def _describes(self, question: AgentQuestion) -> bool:
        # After a no an agent may ask about something else, so only its first question must contain the effect.
        shown = question.input_json + (question.content_json or b"")
        lacks = self.questions == 1 and any(word not in shown for word in self._effect)
        return question.described or lacks

    async def tool_result(self, invocation_id: str, status: ToolStatus, output_type: OutputType, output: Any) -> None:
        self.finished = self.finished or (status == "ok" and self.questions == 0)

    async def text(self, text: str) -> None:
        """Ignore the text, like everything that follows."""

    async def thinking(self, text: str) -> None: ...

    async def end_block(self) -> None: ...

    async def tool_request(self, invocation_id: str, tool_name: str, input_json: bytes, title: str | None = None,
                           parent_invocation_id: str | None = None, kind: str | None = None) -> None: ...

    async def tool_runs(self, invocation_id: str, input_json: bytes, *, printed: bool = False) -> None: ...

    async def tool_output(self, invocation_id: str, channel: Channel, text: str) -> None: ...

    async def file(self, file: AgentFile, invocation_id: str | None = None) -> None: ...

    async def usage(self, usage: TurnUsage) -> None: ...

    async def progress(self, percent: float) -> None: ...

    async def plan(self, steps: Sequence[PlanStep]) -> None: ...

    async def warn(self, code: str, message: str) -> None: ...

    async def overflow(self, message: str) -> SessionCompact:
        raise CompactionFailed("A check compacts nothing.")

    async def compacted(self, made: Compacted | CompactionFailed) -> None: ...


def _answer(question: AgentQuestion, allow: bool) -> InteractionAnswer:
    wanted = "allow_once" if allow else "reject_once"
    option = next((one.option_id for one in question.options if one.kind == wanted), None)
    return InteractionAnswer(allow, option, None if allow else "Not in this check.")
