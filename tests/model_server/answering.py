"""What the server answers, before it takes a provider's form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .conversation import Asked
from .shell_tool import shell_call
from .steering import AFTER_TOOL, GREETING, NO_TOOL, Script, chunk_texts, read_script, words_as_chunks

INPUT_TOKENS = 100
OUTPUT_TOKENS = 20
SIDE_ANSWER = "Test session"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of the agent's shell tool."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """Text chunks, then perhaps a tool call; `delay_seconds` lies between any two of them."""

    chunks: tuple[str, ...]
    call: ToolCall | None = None
    delay_seconds: float = 0.0

    @property
    def text(self) -> str:
        """All chunks in one."""
        return "".join(self.chunks)

    @property
    def whole_delay(self) -> float:
        """Seconds that the answer takes when it is not streamed."""
        pieces = len(self.chunks) + (self.call is not None)
        return self.delay_seconds * max(0, pieces - 1)


@dataclass(frozen=True, slots=True)
class Failure:
    """An HTTP failure; with `overflow` the provider's own words for a prompt that does not fit."""

    status: int
    overflow: bool = False


def answer(asked: Asked) -> Answer | Failure:
    """Decide what a request is answered with."""
    if asked.side:
        # A title or a summary repeats the person's words; they steer the turn only, never a request on the side.
        return Answer((SIDE_ANSWER,))
    script = read_script(asked.prompt)
    if script.overflow:
        return Failure(400, overflow=True)
    if script.fail_status is not None:
        return Failure(script.fail_status)
    if script.delegated is not None and asked.results == 0:
        return _delegating(asked, script.delegated)
    if script.question is not None and asked.results == 0:
        return _asking(asked, script.question)
    if asked.results < len(script.commands):
        return _calling(asked, script)
    if script.commands or script.delegated is not None or script.question is not None:
        return Answer(words_as_chunks(AFTER_TOOL), delay_seconds=script.delay_seconds)
    return Answer(_texts(script) or (GREETING,), delay_seconds=script.delay_seconds)


def _calling(asked: Asked, script: Script) -> Answer:
    found = shell_call(asked.tools, script.commands[asked.results])
    if found is None:
        return Answer(words_as_chunks(NO_TOOL))
    before = _texts(script) if asked.results == 0 else ()
    return Answer(before, ToolCall(*found), script.delay_seconds)


def _delegating(asked: Asked, command: str) -> Answer:
    found = next((tool.name for tool in asked.tools if tool.name in ("Task", "Agent")), None)
    if found is None:
        return Answer(words_as_chunks(NO_TOOL))
    arguments = {"description": "run it", "prompt": f"[[tool:{command}]]", "subagent_type": "general-purpose"}
    return Answer((), ToolCall(found, arguments))


def _asking(asked: Asked, question: str) -> Answer:
    if all(tool.name != "AskUserQuestion" for tool in asked.tools):
        return Answer(words_as_chunks(NO_TOOL))
    options = [{"label": label, "description": f"take {label}"} for label in ("left", "right")]
    one = {"question": question, "header": "Way", "options": options, "multiSelect": False}
    return Answer((), ToolCall("AskUserQuestion", {"questions": [one]}))


def _texts(script: Script) -> tuple[str, ...]:
    return chunk_texts(script.chunks) if script.chunks else ()
