"""One request to a model: streamed, retried if that may help, and limited in time (B-1)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import NamedTuple

from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
)
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.settings import ThinkingLevel
from pydantic_ai.tools import ToolDefinition

from interlock.agents.builtin.choice import ModelChoice
from interlock.agents.builtin.failures import RequestFailure, Unfinished, failure_of
from interlock.agents.builtin.models import read_timeout_s, settings_of
from interlock.agents.builtin.tools import BuiltinTool

MAX_TRIES = 5
"""Requests for one answer, the first one included."""
MAX_WAIT_S = 60.0
"""If the server requests a longer delay, the request is not retried."""


class ModelTimeouts(NamedTuple):
    """Time limits of a model in seconds; shorter in tests."""

    first_event_s: float = 300.0
    idle_s: float = 180.0
    """Between two pieces of an answer."""
    again_s: float = 1.0
    """Before the first retry; doubled for each further one."""


class RequestFailed(Exception):
    """The request has no answer."""

    def __init__(self, failure: RequestFailure, *, partial: bool) -> None:
        super().__init__(failure.sentence)
        self.failure = failure
        self.partial = partial
        """Whether a part of the answer was forwarded already."""


class AnswerSink(NamedTuple):
    """Receives the pieces of an answer, and notices of failed tries."""

    text: Callable[[str], Awaitable[None]]
    thinking: Callable[[str], Awaitable[None]]
    again: Callable[[str], Awaitable[None]]


async def _nothing(_: str) -> None:
    return


DISCARD = AnswerSink(_nothing, _nothing, _nothing)


class RequestInput(NamedTuple):
    """The conversation, the instructions and the tools of a request."""

    messages: Sequence[ModelMessage]
    instructions: str
    tools: Sequence[BuiltinTool] = ()
    thinking: ThinkingLevel | None = None
    max_tokens: int | None = None


class _Attempt:
    """One try, and whether any part of its answer was forwarded."""

    def __init__(self, sink: AnswerSink) -> None:
        self.partial = False
        self._sink = sink

    async def forward(self, thought: bool, piece: str) -> None:
        self.partial = True
        await (self._sink.thinking if thought else self._sink.text)(piece)


async def ask(model: Model, choice: ModelChoice, wanted: RequestInput, sink: AnswerSink,
              timeouts: ModelTimeouts) -> ModelResponse:
    """Return the whole answer. Raises RequestFailed."""
    for attempt in range(1, MAX_TRIES + 1):
        current = _Attempt(sink)
        try:
            return await _once(model, wanted, current, timeouts)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - any exception of a provider's library becomes one sentence.
            failure = failure_of(error, choice)
        wait_s = max(timeouts.again_s * 2 ** (attempt - 1), failure.again_s or 0)
        # Forwarded text cannot be taken back: a second answer would follow the beginning of the first.
        if current.partial or not failure.passing or attempt == MAX_TRIES or wait_s > MAX_WAIT_S:
            tries = f" It was asked {attempt} times." if attempt > 1 else ""
            raise RequestFailed(failure._replace(sentence=failure.sentence + tries), partial=current.partial)
        await sink.again(f"{failure.sentence} Asked again in {wait_s:g} s (try {attempt + 1} of {MAX_TRIES}).")
        await asyncio.sleep(wait_s)
    raise AssertionError("the last try returns or raises")


async def _once(model: Model, wanted: RequestInput, current: _Attempt, timeouts: ModelTimeouts) -> ModelResponse:
    parameters = ModelRequestParameters(
        function_tools=[ToolDefinition(name=tool.name, description=tool.description,
                                       parameters_json_schema=tool.parameters, strict=False) for tool in wanted.tools],
        allow_text_output=True,
    )
    messages = list(wanted.messages)
    if messages and messages[-1].kind == "request":
        messages[-1].instructions = wanted.instructions
    settings = settings_of(wanted.thinking, wanted.max_tokens, timeouts.first_event_s, timeouts.idle_s)
    async with model_request_stream(model, messages, model_settings=settings, model_request_parameters=parameters,
                                    instrument=False) as stream:
        async with aclosing(_pieces(stream, timeouts)) as pieces:
            async for thought, piece in pieces:
                await current.forward(thought, piece)
        response = stream.get()
    _check_finished(response)
    return response


def _check_finished(response: ModelResponse) -> None:
    """Raise Unfinished for an answer without a finish reason of the provider's own: if none was sent, pydantic-ai sets
    `stop` for one of OpenAI's APIs, and nothing for the others."""
    reason = (response.provider_details or {}).get("finish_reason")
    if response.finish_reason == "error":
        raise Unfinished(f"the model ended it with {reason}")
    if reason is None and response.finish_reason != "content_filter":
        raise Unfinished("the stream ended without reporting that it was complete")


async def _pieces(stream: StreamedResponse, timeouts: ModelTimeouts) -> AsyncGenerator[tuple[bool, str], None]:
    """Yield (thinking?, text) as it arrives. Raises TimeoutError if the stream is idle for too long."""
    events = aiter(stream)
    # The library limits the wait for the first event, and its error names what it waited for: it must expire first.
    wait_s = read_timeout_s(timeouts.first_event_s, timeouts.idle_s)
    while True:
        try:
            async with asyncio.timeout(wait_s):
                event = await anext(events)
        except StopAsyncIteration:
            return
        wait_s = timeouts.idle_s
        match event:
            case PartStartEvent(part=TextPart(content=text)) | PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
                if text:
                    yield False, text
            case PartStartEvent(part=ThinkingPart(content=text)):
                if text:
                    yield True, text
            case PartDeltaEvent(delta=ThinkingPartDelta(content_delta=text)):
                if text:
                    yield True, text
            case _:
                continue
