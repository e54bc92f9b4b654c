"""Read a conversation from the wire forms: Anthropic messages, OpenAI chat completions, OpenAI responses, Gemini.

Agents wrap the person's text in notes of their own (`<system-reminder>`, `<info-msg>`, …), and send side requests: a
title for the session, a summary of it. Only the last prompt that a person wrote counts here, with the number of tool
results since.
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
# Words in the instructions of side requests; each was seen in a real agent's request.
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
    """A request: the person's last prompt, the tool results since, and the offered tools."""

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
    earlier: int = 0
    """Messages of the person before this prompt."""
    tokens: int | None = None
    """The conversation's last request for a number of input tokens to report."""


@dataclass(frozen=True, slots=True)
class _ReadMessage:
    """One message of the conversation: the user's own text, and its number of tool results."""

    text: str
    results: int


def read_anthropic(body: Json) -> ModelPrompt:
    """Read a body of `/v1/messages`."""
    tools = tuple(OfferedTool(tool["name"], tool.get("input_schema") or {}) for tool in _objects(body.get("tools")))
    return _asked(body, _text(body.get("system")), _anthropic_messages(body), tools)


def read_chat(body: Json) -> ModelPrompt:
    """Read a body of `/v1/chat/completions`."""
    functions = [tool["function"] for tool in _objects(body.get("tools")) if tool.get("type") == "function"]
    tools = tuple(OfferedTool(function["name"], function.get("parameters") or {}) for function in functions)
    messages = list(_objects(body.get("messages")))
    system = "\n".join(_text(m.get("content")) for m in messages if m.get("role") in {"system", "developer"})
    messages = [
        _ReadMessage("", 1) if message["role"] == "tool" else _ReadMessage(_text(message.get("content")), 0)
        for message in messages
        if message.get("role") in {"user", "tool"}
    ]
    return _asked(body, system, messages, tools)


def read_responses(body: Json) -> ModelPrompt:
    """Read a body of `/v1/responses`; `input` is a text or a list of items."""
    tools = tuple(_responses_tools(body.get("tools")))
    prompt = body.get("input")
    messages = [_ReadMessage(prompt, 0)] if isinstance(prompt, str) else list(_responses_messages(prompt))
    return _asked(body, str(body.get("instructions") or ""), messages, tools)


def _responses_tools(tools: object) -> Iterator[OfferedTool]:
    for tool in _objects(tools):
        if tool.get("type") == "function":
            yield OfferedTool(tool["name"], tool.get("parameters") or {})
        elif tool.get("type") == "namespace":
            for one in _objects(tool.get("tools")):
                yield OfferedTool(f"{tool['name']}{NAMESPACE_END}{one['name']}", one.get("parameters") or {})


def read_gemini(body: Json) -> ModelPrompt:
    """Read a body of `:generateContent`; model and streaming are in its path, and are added to the body."""
    declared = [one for tool in _objects(body.get("tools")) for one in _objects(tool.get("functionDeclarations"))]
    tools = tuple(OfferedTool(one["name"],
                              one.get("parametersJsonSchema") or one.get("parameters") or {}) for one in declared)
    system = "\n".join(_text(body[name].get("parts")) for name in ("systemInstruction",) if name in body)
    messages = [_ReadMessage(_text(one.get("parts")), sum("functionResponse" in part
                                                          for part in _objects(one.get("parts"))))
            for one in _objects(body.get("contents")) if one.get("role") != "model"]
    return _asked(body, system, messages, tools)


def _anthropic_messages(body: Json) -> Iterator[_ReadMessage]:
    for message in _objects(body.get("messages")):
        if message.get("role") != "user":
            continue
        content = message.get("content")
        blocks = [] if isinstance(content, str) else list(_objects(content))
        yield _ReadMessage(_text(content), sum(block.get("type") == "tool_result" for block in blocks))


def _responses_messages(items: object) -> Iterator[_ReadMessage]:
    for item in _objects(items):
        if str(item.get("type", "")).endswith("_call_output"):
            yield _ReadMessage("", 1)
        elif item.get("role") == "user":
            yield _ReadMessage(_text(item.get("content")), 0)


def _asked(body: Json, system: str, messages: Iterable[_ReadMessage], tools: tuple[OfferedTool, ...]) -> ModelPrompt:
    prompt, results, earlier = "", 0, -1
    for one in messages:
        results += one.results
        own = _NOTES.sub("", one.text).strip()
        if own:
            prompt, results, earlier = own, 0, earlier + 1
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
        earlier=max(earlier, 0),
    )


def _effort(body: Json) -> str | None:
    """Return the requested thinking effort, from any of the forms."""
    for reasoning in _objects([body.get("reasoning")]):
        return reasoning.get("effort")
    for thinking in _objects([body.get("thinking")]):
        return str(thinking.get("budget_tokens") or thinking.get("type"))
    return body.get("reasoning_effort")


def _offers_work(tools: tuple[OfferedTool, ...], prompt: str) -> bool:
    # An agent's long instructions may mention titles and summaries too; such a request offers tools and its prompt does
    # not ask for one.
    return bool(tools) and not _SIDE.search(prompt)


def _text(content: object) -> str:
    """Return the text of a message's content, which is a string or a list of parts; other parts have none."""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in _objects(content) if isinstance(part.get("text"), str))


def _objects(value: object) -> Iterator[Json]:
    if isinstance(value, list):
        items = cast(list[object], value)
        yield from (cast(Json, item) for item in items if isinstance(item, dict))
