"""What one turn of a checked agent writes: its questions are answered as the step says, and everything is noted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from interlock.agents.evidence import Shown
from interlock.ports.agent import AgentQuestion, CompactionFailed, GivenFile, InteractionAnswer, TurnUsage
from interlock.protocol.payloads import Channel, Compacted, OutputType, PlanStep, SessionCompact, ToolStatus

MAX_QUESTIONS = 32
"""Of one turn; an agent that goes on asking is answered no, and not noted."""


_TASK = b"[[tool:"
"""The sub-agent's task carries these words; what the sub-agent itself asks about does not."""


class Witness:
    """The scribe of one turn. `happened` says whether the effect that the step looks for is there, `effect` what an
    input that contains it contains."""

    def __init__(self, allow: bool, happened: Callable[[], bool], delegating: bool = False,
                 effect: tuple[bytes, ...] = ()) -> None:
        self._allow = allow
        self._effect = effect
        self._delegating = delegating
        self._happened = happened
        self.questions = 0
        """Without those about delegating, where these are answered yes."""
        self.delegated = False
        """It asked whether a sub-agent may be given the task."""
        self.shown: Shown = ""
        self.ran_before = False
        """The effect was there when the agent asked."""
        self.finished = False
        """A tool ended in good order without a question."""

    async def ask(self, question: AgentQuestion) -> InteractionAnswer:
        if question.wants != "PERMISSION":
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
        # After a no an agent may ask about something else, so only its first question is to contain the effect.
        shown = question.input_json + (question.content_json or b"")
        lacks = self.questions == 1 and any(word not in shown for word in self._effect)
        return question.described or lacks

    async def tool_result(self, invocation_id: str, status: ToolStatus, output_type: OutputType, output: Any) -> None:
        self.finished = self.finished or (status == "ok" and self.questions == 0)

    async def text(self, text: str) -> None:
        """Not needed here, as all that follows."""

    async def thinking(self, text: str) -> None: ...

    async def end_block(self) -> None: ...

    async def tool_request(self, invocation_id: str, tool_name: str, input_json: bytes, title: str | None = None,
                           parent_invocation_id: str | None = None, kind: str | None = None) -> None: ...

    async def tool_runs(self, invocation_id: str, input_json: bytes, *, printed: bool = False) -> None: ...

    async def tool_output(self, invocation_id: str, channel: Channel, text: str) -> None: ...

    async def file(self, file: GivenFile, invocation_id: str | None = None) -> None: ...

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
