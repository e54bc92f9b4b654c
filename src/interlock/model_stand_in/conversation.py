"""One conversation out of three wire forms: Anthropic messages, OpenAI chat completions, OpenAI responses.

Agents wrap the person's words in notes of their own (`<system-reminder>`, `<info-msg>`, …), and send further requests
on the side: a title for the session, a summary of it. What counts here is the last prompt that a person wrote and how
many tool results have come since.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast

Json = dict[str, Any]

NAMESPACE_END = "::"
_NOTES = re.compile(
    r"<(system-reminder|info-msg|environment_context|environment_details|user_instructions|turn-context)\b[^>]*>"
    r".*?</\1>", re.DOTALL
)
_TOKENS = re.compile(r"\[\[tokens:(\d+)\]\]")
# Words in the instructions of requests that agents send on the side; each was seen in a real agent's request.
_SIDE = re.compile(
    r"generate (a )?(short|concise|brief|succinct)[^.\n]{0,40}title"
    r"|(short|concise) title for"
    r"|create a detailed summary of the conversation"
    r"|summar(y|ize|izing)[^.\n]{0,60}conversation",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool that the agent offers to the model, with the JSON schema of its arguments. The name of one in a namespace
    (OpenAI responses) is `NAMESPACE::NAME`."""

    name: str
    schema: Json


@dataclass(frozen=True, slots=True)
class ModelPrompt:
    """What a request asks: the person's last prompt, the tool results since, and the tools on offer."""

    prompt: str
    results: int
    tools: tuple[OfferedTool, ...]
    stream: bool
    model: str
    side: bool
    system: str = ""
    effort: str | None = None
    size: int = 0
    """Characters of the whole request."""
    told: int = 0
    """Messages of the person before this prompt."""
    tokens: int | None = None
    """What the conversation says last that is to be reported as tokens of input."""


@dataclass(frozen=True, slots=True)
class _Said:
    """One message of the conversation: the user's own text, and how many tool results it carries."""

    text: str
    results: int


def read_anthropic(body: Json) -> ModelPrompt:
    """Read a body of `/v1/messages`."""
    tools = tuple(OfferedTool(tool["name"], tool.get("input_schema") or {}) for tool in _objects(body.get("tools")))
    return _asked(body, _text(body.get("system")), _anthropic_said(body), tools)


def read_chat(body: Json) -> ModelPrompt:
    """Read a body of `/v1/chat/completions`."""
    functions = [tool["function"] for tool in _objects(body.get("tools")) if tool.get("type") == "function"]
    tools = tuple(OfferedTool(function["name"], function.get("parameters") or {}) for function in functions)
    messages = list(_objects(body.get("messages")))
    system = "\n".join(_text(m.get("content")) for m in messages if m.get("role") in {"system", "developer"})
    said = [
        _Said("", 1) if message["role"] == "tool" else _Said(_text(message.get("content")), 0)
        for message in messages
        if message.get("role") in {"user", "tool"}
    ]
    return _asked(body, system, said, tools)


def read_responses(body: Json) -> ModelPrompt:
    """Read a body of `/v1/responses`; `input` is a text or a list of items."""
    tools = tuple(_responses_tools(body.get("tools")))
    given = body.get("input")
    said = [_Said(given, 0)] if isinstance(given, str) else list(_responses_said(given))
    return _asked(body, str(body.get("instructions") or ""), said, tools)


def _responses_tools(given: object) -> Iterator[OfferedTool]:
    for tool in _objects(given):
        if tool.get("type") == "function":
            yield OfferedTool(tool["name"], tool.get("parameters") or {})
        elif tool.get("type") == "namespace":
            for one in _objects(tool.get("tools")):
                yield OfferedTool(f"{tool['name']}{NAMESPACE_END}{one['name']}", one.get("parameters") or {})


def read_gemini(body: Json) -> ModelPrompt:
    """Read a body of `:generateContent`; the model and whether it streams stand in its path, and are put beside it."""
    declared = [one for tool in _objects(body.get("tools")) for one in _objects(tool.get("functionDeclarations"))]
    tools = tuple(OfferedTool(one["name"],
                              one.get("parametersJsonSchema") or one.get("parameters") or {}) for one in declared)
    system = "\n".join(_text(body[name].get("parts")) for name in ("systemInstruction",) if name in body)
    said = [_Said(_text(one.get("parts")), sum("functionResponse" in part for part in _objects(one.get("parts"))))
            for one in _objects(body.get("contents")) if one.get("role") != "model"]
    return _asked(body, system, said, tools)


def _anthropic_said(body: Json) -> Iterator[_Said]:
    for message in _objects(body.get("messages")):
        if message.get("role") != "user":
            continue
        content = message.get("content")
        blocks = [] if isinstance(content, str) else list(_objects(content))
        yield _Said(_text(content), sum(block.get("type") == "tool_result" for block in blocks))


def _responses_said(items: object) -> Iterator[_Said]:
    for item in _objects(items):
        if str(item.get("type", "")).endswith("_call_output"):
            yield _Said("", 1)
        elif item.get("role") == "user":
            yield _Said(_text(item.get("content")), 0)


def _asked(body: Json, system: str, said: Iterable[_Said], tools: tuple[OfferedTool, ...]) -> ModelPrompt:
    prompt, results, told = "", 0, -1
    for one in said:
        results += one.results
        own = _NOTES.sub("", one.text).strip()
        if own:
            prompt, results, told = own, 0, told + 1
    whole = json.dumps(body)
    tokens = _TOKENS.findall(whole)
    return ModelPrompt(
        prompt=prompt,
        results=results,
        tools=tools,
        stream=body.get("stream") is True,
        model=str(body.get("model") or "fake-model"),
        side=bool(_SIDE.search(system) or _SIDE.search(prompt)) and not _offers_work(tools, prompt),
        system=system,
        effort=_effort(body),
        size=len(whole),
        tokens=int(tokens[-1]) if tokens else None,
        told=max(told, 0),
    )


def _effort(body: Json) -> str | None:
    """How much is to be thought, in the words of whichever form asks it."""
    for reasoning in _objects([body.get("reasoning")]):
        return reasoning.get("effort")
    for thinking in _objects([body.get("thinking")]):
        return str(thinking.get("budget_tokens") or thinking.get("type"))
    return body.get("reasoning_effort")


def _offers_work(tools: tuple[OfferedTool, ...], prompt: str) -> bool:
    # An agent's long instructions may speak of titles and summaries too; such a request offers tools and its prompt
    # does not ask for one.
    return bool(tools) and not _SIDE.search(prompt)


def _text(content: object) -> str:
    """The text of a message's content, which is a string or a list of parts; other parts have none."""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in _objects(content) if isinstance(part.get("text"), str))


def _objects(value: object) -> Iterator[Json]:
    if isinstance(value, list):
        items = cast(list[object], value)
        yield from (cast(Json, item) for item in items if isinstance(item, dict))
