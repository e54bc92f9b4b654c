"""One request to a model: streamed, tried again where that may help, and bounded in time (B-1)."""

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
from interlock.agents.builtin.models import settings_of
from interlock.agents.builtin.tools import BuiltinTool

MAX_TRIES = 5
"""Requests for one answer, the first one included."""
MAX_WAIT_S = 60.0
"""A server that wants to be left alone for longer is not asked again."""


class ModelTimeouts(NamedTuple):
    """How long a model may take, in seconds; tests shorten it."""

    first_event_s: float = 300.0
    idle_s: float = 180.0
    """Between two pieces of an answer."""
    again_s: float = 1.0
    """Before the second try; twice as long before each further one."""


class RequestFailed(Exception):
    """There is no answer."""

    def __init__(self, failure: RequestFailure, *, said: bool) -> None:
        super().__init__(failure.sentence)
        self.failure = failure
        self.said = said
        """A part of the answer was reported already."""


class AnswerSink(NamedTuple):
    """Where the pieces of an answer go, and what is to be known of a try that failed."""

    text: Callable[[str], Awaitable[None]]
    thinking: Callable[[str], Awaitable[None]]
    again: Callable[[str], Awaitable[None]]


async def _nothing(_: str) -> None:
    return


DEAF = AnswerSink(_nothing, _nothing, _nothing)


class RequestInput(NamedTuple):
    """What is asked: the conversation, the model's instructions, what it may use."""

    messages: Sequence[ModelMessage]
    instructions: str
    tools: Sequence[BuiltinTool] = ()
    thinking: ThinkingLevel | None = None
    max_tokens: int | None = None


class _Heard:
    """One try: whether anything of its answer was reported."""

    def __init__(self, ear: AnswerSink) -> None:
        self.said = False
        self._ear = ear

    async def tell(self, thought: bool, piece: str) -> None:
        self.said = True
        await (self._ear.thinking if thought else self._ear.text)(piece)


async def ask(model: Model, choice: ModelChoice, wanted: RequestInput, ear: AnswerSink,
              patience: ModelTimeouts) -> ModelResponse:
    """The answer, whole. Raises RequestFailed."""
    for attempt in range(1, MAX_TRIES + 1):
        heard = _Heard(ear)
        try:
            return await _once(model, wanted, heard, patience)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a provider's library raises is reported in one sentence.
            failure = failure_of(error, choice)
        wait_s = max(patience.again_s * 2 ** (attempt - 1), failure.again_s or 0)
        # What was said cannot be unsaid: a second answer would stand behind the first one's beginning.
        if heard.said or not failure.passing or attempt == MAX_TRIES or wait_s > MAX_WAIT_S:
            tries = f" It was asked {attempt} times." if attempt > 1 else ""
            raise RequestFailed(failure._replace(sentence=failure.sentence + tries), said=heard.said)
        await ear.again(f"{failure.sentence} Asked again in {wait_s:g} s (try {attempt + 1} of {MAX_TRIES}).")
        await asyncio.sleep(wait_s)
    raise AssertionError("the last try returns or raises")


async def _once(model: Model, wanted: RequestInput, heard: _Heard, patience: ModelTimeouts) -> ModelResponse:
    parameters = ModelRequestParameters(
        function_tools=[ToolDefinition(name=tool.name, description=tool.description,
                                       parameters_json_schema=tool.parameters, strict=False) for tool in wanted.tools],
        allow_text_output=True,
    )
    messages = list(wanted.messages)
    if messages and messages[-1].kind == "request":
        messages[-1].instructions = wanted.instructions
    settings = settings_of(wanted.thinking, wanted.max_tokens, patience.first_event_s, patience.idle_s)
    async with model_request_stream(model, messages, model_settings=settings, model_request_parameters=parameters,
                                    instrument=False) as stream:
        async with aclosing(_pieces(stream, patience)) as pieces:
            async for thought, piece in pieces:
                await heard.tell(thought, piece)
        response = stream.get()
    _check_finished(response)
    return response


def _check_finished(response: ModelResponse) -> None:
    """Raises Unfinished for an answer without a finish reason of the provider's own: where none was sent, pydantic-ai
    puts `stop` for one of OpenAI's forms, and nothing for the others."""
    reason = (response.provider_details or {}).get("finish_reason")
    if response.finish_reason == "error":
        raise Unfinished(f"the model ended it with {reason}")
    if reason is None and response.finish_reason != "content_filter":
        raise Unfinished("the stream ended without saying that it was complete")


async def _pieces(stream: StreamedResponse, patience: ModelTimeouts) -> AsyncGenerator[tuple[bool, str], None]:
    """(thinking?, text) as it comes. Raises TimeoutError where the stream stands still for too long."""
    events = aiter(stream)
    wait_s = max(patience.idle_s, patience.first_event_s)
    while True:
        try:
            async with asyncio.timeout(wait_s):
                event = await anext(events)
        except StopAsyncIteration:
            return
        wait_s = patience.idle_s
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
