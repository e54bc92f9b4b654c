"""The server's answers, independent of a provider's form."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from .conversation import ModelPrompt
from .pieces import compact
from .script import (
    AFTER_TOOL,
    FLUSH,
    GREETING,
    NO_TOOL,
    SILENT,
    SUMMARY,
    Script,
    chunk_texts,
    read_script,
    words_as_chunks,
)
from .shell_tool import shell_call
from .tool_choice import action_call, delegate_call

INPUT_TOKENS = 100
OUTPUT_TOKENS = 20
SIDE_ANSWER = "Test session"


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A call of one of the agent's tools; `arguments` is JSON, or invalid JSON on purpose."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """Text chunks, then optional tool calls; `delay_seconds` is the pause between any two of them."""

    chunks: tuple[str, ...]
    calls: tuple[ModelCall, ...] = ()
    delay_seconds: float = 0.0
    thinking: str | None = None
    hangs: bool = False
    cut: bool = False
    ends: bool = False
    """The stream ends cleanly before its last event, which has the finish reason."""
    length: bool = False
    """The answer's finish reason is the limit of its length."""
    tokens: int = INPUT_TOKENS
    """Input tokens that the answer reports."""

    @property
    def text(self) -> str:
        """Return all chunks as one text."""
        return "".join(self.chunks)

    @property
    def whole_delay(self) -> float:
        """Return the seconds that the answer takes without streaming."""
        pieces = len(self.chunks) + bool(self.calls)
        return self.delay_seconds * max(0, pieces - 1)


@dataclass(frozen=True, slots=True)
class HttpFailure:
    """An HTTP failure; with `overflow` the provider's own error for a prompt that does not fit."""

    status: int
    overflow: bool = False
    again: bool = False
    """Whether a retry is allowed."""


def answer(request: ModelPrompt, before: int = 0) -> ModelAnswer | HttpFailure:
    """Return the answer to a request; `before` is the number of earlier requests with the same prompt."""
    outcome = _answer(request, before)
    if isinstance(outcome, ModelAnswer) and request.tokens is not None:
        return replace(outcome, tokens=request.tokens)
    return outcome


def _answer(request: ModelPrompt, before: int) -> ModelAnswer | HttpFailure:
    if request.side:
        # A title or a summary repeats the person's words, which must control only the turn, not a side request.
        how = SUMMARY.search(request.prompt)
        return ModelAnswer((SIDE_ANSWER,), ends=how is not None and how[1] == "ends",
                           length=how is not None and how[1] == "length")
    if (flush := FLUSH.search(request.prompt)) is not None:
        return _flushing(request, flush[1])
    script = read_script(request.prompt)
    if script.overflow:
        return HttpFailure(400, overflow=True)
    if script.room_chars is not None and request.size > script.room_chars:
        return HttpFailure(400, overflow=True)
    if script.flaky is not None and before < script.flaky[1]:
        return HttpFailure(script.flaky[0], again=True)
    if script.empty:
        return ModelAnswer(())
    if script.state:
        return ModelAnswer((_state(request),))
    if script.fail_status is not None:
        return HttpFailure(script.fail_status)
    if script.delegated is not None and request.results == 0:
        return _delegating(request, script.delegated)
    if script.action is not None and request.results == 0:
        return _doing(request, *script.action)
    if script.question is not None and request.results == 0:
        return _asking(request, script.question)
    if request.results < len(script.calls) * script.many:
        return _calling(request, script)
    if script.calls or script.action is not None or script.delegated is not None or script.question is not None:
        return ModelAnswer(words_as_chunks(AFTER_TOOL), delay_seconds=script.delay_seconds)
    return ModelAnswer(_texts(script) or (() if script.hangs or script.cut else (GREETING,)),
                       delay_seconds=script.delay_seconds, thinking=script.thinks, hangs=script.hangs, cut=script.cut,
                       ends=script.ends, length=script.length)


def _flushing(request: ModelPrompt, path: str) -> ModelAnswer:
    if request.results or all(tool.name != "write" for tool in request.tools):
        return ModelAnswer((SILENT,))
    return ModelAnswer((), (ModelCall("write", compact({"path": path, "content": "what must last\n"})),))


def _state(request: ModelPrompt) -> str:
    mode = "plan" if "Plan only" in request.system else "default"
    last = request.system.rsplit(None, 1)[-1] if request.system else ""
    state = f"mode={mode} model={request.model} effort={request.effort} system={last}"
    return state if request.prompt == "state" else f"{state} loaded={'yes' if request.earlier else 'no'}"


def _calling(request: ModelPrompt, script: Script) -> ModelAnswer:
    at = request.results // script.many
    name, arguments = script.calls[at]
    if not name:
        found = shell_call(request.tools, arguments)
        if found is None:
            return ModelAnswer(words_as_chunks(NO_TOOL))
        name, arguments = found[0], compact(found[1])
    before = _texts(script) if request.results == 0 else ()
    thinking = script.thinks if request.results == 0 else None
    return ModelAnswer(before, (ModelCall(name, arguments),) * script.many, script.delay_seconds, thinking,
                       ends=script.ends, length=script.length)


def _delegating(request: ModelPrompt, command: str) -> ModelAnswer:
    found = delegate_call(request.tools, f"[[tool:{command}]]")
    return ModelAnswer(words_as_chunks(NO_TOOL)) if found is None else ModelAnswer((), (ModelCall(found[0],
                                                                                                  compact(found[1])),))


def _doing(request: ModelPrompt, action: str, arguments: str) -> ModelAnswer:
    found = action_call(action, request.tools, json.loads(arguments))
    return ModelAnswer(words_as_chunks(NO_TOOL)) if found is None else ModelAnswer((), (ModelCall(found[0],
                                                                                                  compact(found[1])),))


def _asking(request: ModelPrompt, question: str) -> ModelAnswer:
    if all(tool.name != "AskUserQuestion" for tool in request.tools):
        return ModelAnswer(words_as_chunks(NO_TOOL))
    options = [{"label": label, "description": f"take {label}"} for label in ("left", "right")]
    one = {"question": question, "header": "Way", "options": options, "multiSelect": False}
    return ModelAnswer((), (ModelCall("AskUserQuestion", compact({"questions": [one]})),))


def _texts(script: Script) -> tuple[str, ...]:
    return (*script.says, *(chunk_texts(script.chunks, script.width) if script.chunks else ()))
