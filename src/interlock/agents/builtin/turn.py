"""One prompt, from the person's text to the model's last answer: ask, call tools, ask again (B-1)."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

import msgspec
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import Model
from pydantic_ai.settings import ThinkingLevel

from interlock.agents.builtin.cache import Message
from interlock.agents.builtin.choice import ModelChoice
from interlock.agents.builtin.figures import UsageSum
from interlock.agents.builtin.messages import assistant_message, parts_of, result_message, to_model
from interlock.agents.builtin.model_request import AnswerSink, ModelTimeouts, RequestFailed, RequestInput, ask
from interlock.agents.builtin.places import ToolFailed
from interlock.agents.builtin.tools import BuiltinTool, ModelToolCall, ToolOutcome, ToolRunner, title, understood
from interlock.ports.agent import AgentFile, AgentQuestion, Option, TurnOutcome, TurnWriter
from interlock.protocol.codes import Code

MAX_REQUESTS = 250
"""Answers of the model in one turn; a model that still calls tools after these has lost its way."""
MAX_CALLS = 32
"""Calls in one answer; further ones get an error."""
MAX_EMPTY = 2
"""Answers without text and without a call, after which the turn ends without an answer."""
SAFE_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")
"""Ids of a call that every provider accepts."""
OPTIONS = [Option("allow", "Allow", "allow_once"), Option("reject", "Deny", "reject_once")]
TOO_MANY = "Too many calls at once: the first {} of an answer are done. Call this one again."
REFUSED = ("AgentRefused", "The model refused to continue with this prompt.")
DENIED = "{}. Do not try the same by another way."


class Setting(NamedTuple):
    """The settings of this prompt."""

    model: Model
    choice: ModelChoice
    instructions: str
    tools: list[BuiltinTool]
    thinking: ThinkingLevel | None
    timeouts: ModelTimeouts


class Overflowing(Protocol):
    """Shortens the context if the provider reports that it is too long (Z-2)."""

    async def __call__(self, turn: AgentTurn, why: str) -> bool: ...


class AgentTurn:
    """A prompt in progress. `history` is the conversation before it; new messages are in `live`."""

    def __init__(self, turn_writer: TurnWriter, setting: Setting, tool_runner: ToolRunner, figures: UsageSum,
                 history: list[Message], prompt_message: Message, new_id: Callable[[], str]) -> None:
        self.history = history
        self.live: list[Message] = [prompt_message]
        self.answers: dict[str, ModelResponse] = {}
        self.turn_writer = turn_writer
        self.setting = setting
        self.figures = figures
        self._tool_runner = tool_runner
        self._new_id = new_id
        self._ids = {str(part.get("id")) for message in history for part in parts_of(message)
                     if part.get("type") == "toolCall"}

    def continue_after(self, history: list[Message]) -> None:
        """Continue after this conversation, which has everything of the one before, also of this prompt."""
        self.history, self.live = history, []

    async def run(self, fitting: Callable[[list[Message]], list[Message]], overflowing: Overflowing) -> TurnOutcome:
        """Run the prompt to its end. Never raises for errors of the model or its server."""
        empty, room_made = 0, False
        for _ in range(MAX_REQUESTS):
            try:
                response = await self._ask(fitting([*self.history, *self.live]))
            except RequestFailed as failed:
                failure = failed.failure
                if failure.code == Code.CONTEXT_OVERFLOW and not room_made and not failed.partial:
                    room_made = True
                    if await overflowing(self, failure.sentence):
                        continue
                return TurnOutcome("error", self.figures.usage, error=(failure.code, failure.sentence))
            await self.turn_writer.usage(self.figures.took(response))
            if response.finish_reason == "length":
                # A call in it may be incomplete and valid all the same: none of them runs.
                parts = [part for part in response.parts if not isinstance(part, ToolCallPart)]
                return self._end(dataclasses.replace(response, parts=parts), empty=not parts)
            calls = await self._announce(response)
            if calls:
                await self._call(calls)
                continue
            if any(isinstance(part, TextPart) and part.content.strip() for part in response.parts):
                return self._end(response)
            empty += 1
            if empty >= MAX_EMPTY or response.finish_reason == "content_filter":
                return self._end(response, empty=True)
        notice = ("ToolLimit", f"The model was asked {MAX_REQUESTS} times in this turn and still calls tools; the turn "
                  "was ended. Send \"continue\" if it is on the right track.")
        return TurnOutcome("max_tokens", self.figures.usage, notice=notice)

    def _end(self, response: ModelResponse, *, empty: bool = False) -> TurnOutcome:
        if not empty:
            self.live.append(assistant_message(response.parts, {}, self.setting.choice.model, _now_ms()))
        usage = self.figures.usage
        if response.finish_reason == "length":
            return TurnOutcome("max_tokens", usage)
        if response.finish_reason == "content_filter":
            return TurnOutcome("end_turn", usage, notice=REFUSED)
        notice = ("NoAnswer", f"The model returned no answer, {MAX_EMPTY} times.") if empty else None
        return TurnOutcome("end_turn", usage, notice=notice)

    async def _ask(self, messages: list[Message]) -> ModelResponse:
        wanted = RequestInput(to_model(messages, self.answers), self.setting.instructions, self.setting.tools,
                              self.setting.thinking)
        sink = AnswerSink(self.turn_writer.text, self.turn_writer.thinking, self._again)
        return await ask(self.setting.model, self.setting.choice, wanted, sink, self.setting.timeouts)

    async def _again(self, sentence: str) -> None:
        await self.turn_writer.warn(Code.UPSTREAM_ERROR, sentence)

    # --- tools ---
    async def _announce(self, response: ModelResponse) -> list[tuple[str, ModelToolCall]]:
        """Announce every call of an answer before the first one runs, so that the transcript has them in one message as
        the model has (X-8). An answer without a call is not kept: it is the turn's last, or empty."""
        found: list[tuple[str, ModelToolCall]] = []
        parts = list(response.parts)
        for at, part in enumerate(parts):
            if isinstance(part, ToolCallPart):
                call = understood(part.tool_name, part.args if part.args is not None else {}, self.setting.tools)
                invocation_id = self._free_id(part.tool_call_id)
                parts[at] = dataclasses.replace(part, tool_call_id=invocation_id, args=call.input)
                found.append((invocation_id, call))
        if not found:
            return []
        arguments = {invocation_id: call.input for invocation_id, call in found}
        self.live.append(assistant_message(parts, arguments, self.setting.choice.model, _now_ms()))
        self.answers[found[0][0]] = dataclasses.replace(response, parts=parts)
        for invocation_id, call in found:
            await self.turn_writer.tool_request(invocation_id, call.name, msgspec.json.encode(call.input), title(call),
                                                kind=call.tool.kind if call.tool is not None else None)
        return found

    def _free_id(self, model_id: str) -> str:
        """Return the model's id of a call, or a new one if it is taken or not portable."""
        taken = model_id in self._ids or SAFE_ID.fullmatch(model_id) is None
        invocation_id = f"call_{self._new_id().replace('-', '')[:24]}" if taken else model_id
        self._ids.add(invocation_id)
        return invocation_id

    async def _call(self, calls: list[tuple[str, ModelToolCall]]) -> None:
        for at, (invocation_id, call) in enumerate(calls):
            if at >= MAX_CALLS:
                await self._report(invocation_id, call, ToolOutcome(TOO_MANY.format(MAX_CALLS), ok=False))
                continue
            try:
                result = await self._done(invocation_id, call)
            except ToolFailed as failed:
                result = ToolOutcome(str(failed), ok=False)
            await self._report(invocation_id, call, result)

    async def _done(self, invocation_id: str, call: ModelToolCall) -> ToolOutcome:
        if call.wrong is not None or call.tool is None:
            raise ToolFailed(call.wrong or "There is no such tool.")
        self._tool_runner.check(call)
        input_json = msgspec.json.encode(call.input)
        question = AgentQuestion(invocation_id, call.name, title(call), input_json, OPTIONS, call.tool.kind,
                                 takes_input=True)
        answer = await self.turn_writer.ask(question)
        if not answer.allow:
            return ToolOutcome(DENIED.format(_denial(answer.message)), ok=False)
        if answer.updated_input is not None:
            call = understood(call.name, answer.updated_input, self.setting.tools)
            if call.wrong is not None:
                raise ToolFailed(f"The approver changed the input. {call.wrong}")

        async def emit(text: str) -> None:
            await self.turn_writer.tool_output(invocation_id, "stdout", text)

        return await self._tool_runner.run(call, emit)

    async def _report(self, invocation_id: str, call: ModelToolCall, result: ToolOutcome) -> None:
        # A file's name may contain bytes that are not text: they would break the request, and the frame.
        result = result._replace(text=result.text.encode("utf-8", "replace").decode())
        self.live.append(result_message(invocation_id, call.name, result.text, result.ok, _now_ms()))
        if result.whole is not None:
            file = AgentFile(f"{call.name}.txt", "text/plain; charset=utf-8", result.whole.encode())
            await self.turn_writer.file(file, invocation_id)
        kind = result.output_type if result.text else "empty"
        await self.turn_writer.tool_result(invocation_id, "ok" if result.ok else "error", kind, result.text)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _denial(message: str | None) -> str:
    """Return the model's text for a no: the runner's sentence begins with `denied by` if it knows who decided."""
    sentence = (message or "").rstrip(".")
    if sentence.startswith("denied"):
        return "D" + sentence[1:]
    return f"Denied: {sentence}" if sentence else "Denied"
