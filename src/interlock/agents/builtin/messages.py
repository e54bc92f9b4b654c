"""Conversion of a transcript's messages to pydantic-ai's types, and of a model's answer to messages (B-1, X-1).
Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)

from interlock.agents.builtin.cache import Message

NO_RESULT = "(nothing was kept of its result)"


def to_model(messages: Iterable[Message], live: Mapping[str, ModelResponse]) -> list[ModelMessage]:
    """Return messages as they are sent to a model; they are clean already (`session.hygiene`). `live` has the answers
    of this turn as the model sent them, each under the id of its first call: only they have what a provider requires
    unchanged, such as signed thinking."""
    found: list[ModelMessage] = []
    for message in messages:
        match message.get("role"):
            case "assistant":
                response = _response(message, live)
                if response is not None:
                    found.append(response)
            case "toolResult":
                _add(found, _tool_return(message))
            case _:
                part = _user(message)
                if part is not None:
                    _add(found, part)
    return found


def _add(found: list[ModelMessage], part: ModelRequestPart) -> None:
    """Add a part to the last request, or begin one: all parts before the next answer form one request."""
    last = found[-1] if found else None
    if isinstance(last, ModelRequest):
        found[-1] = ModelRequest(parts=[*last.parts, part])
    else:
        found.append(ModelRequest(parts=[part]))


def _response(message: Message, live: Mapping[str, ModelResponse]) -> ModelResponse | None:
    calls = [str(part.get("id")) for part in parts_of(message) if part.get("type") == "toolCall"]
    if calls and calls[0] in live:
        return live[calls[0]]
    parts: list[ModelResponsePart] = []
    for part in parts_of(message):
        match part.get("type"):
            case "text":
                if text := str(part.get("text") or ""):
                    parts.append(TextPart(text))
            case "toolCall":
                parts.append(ToolCallPart(str(part.get("name")), _object(part.get("arguments")), str(part.get("id"))))
            case _:
                continue  # Thinking of an earlier turn is not sent again: providers reject it without its signature.
    return ModelResponse(parts=parts) if parts else None


def _tool_return(message: Message) -> ToolReturnPart:
    text = text_of(message) or NO_RESULT
    outcome = "failed" if message.get("isError") else "success"
    return ToolReturnPart(str(message.get("toolName")), text, str(message.get("toolCallId")), outcome=outcome)


def _user(message: Message) -> UserPromptPart | None:
    content = _contents(message.get("content")) if message.get("role") == "user" else None
    return UserPromptPart(content) if content else None


def _contents(content: Any) -> str | Sequence[UserContent]:
    if isinstance(content, str):
        return content
    found: list[UserContent] = []
    for part in _objects(content):
        if part.get("type") == "text" and part.get("text"):
            found.append(str(part["text"]))
        elif part.get("type") == "image":
            found.append(image(str(part.get("data") or ""), str(part.get("mimeType") or "image/png")))
    return found[0] if len(found) == 1 and isinstance(found[0], str) else found


def image(data: str, media_type: str) -> BinaryContent | str:
    """Return a picture from its base64, which may have several lines; a sentence in its place if it cannot be read."""
    try:
        raw = base64.b64decode("".join(data.split()), validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    return BinaryContent(raw, media_type=media_type) if raw else f"[a picture, {media_type}, that cannot be read]"


def user_message(content: Iterable[Mapping[str, Any]], now_ms: int) -> Message:
    """Return a prompt's blocks as a message of the transcript."""
    blocks = list(content)
    if len(blocks) == 1 and blocks[0].get("type") == "text":
        return {"role": "user", "content": str(blocks[0].get("text") or ""), "timestamp": now_ms}
    parts: list[dict[str, Any]] = []
    for block in blocks:
        if block.get("type") == "image":
            data = block.get("data")
            encoded = base64.b64encode(data).decode() if isinstance(data, bytes) else str(data or "")
            parts.append({"type": "image", "data": encoded, "mimeType": str(block.get("media_type") or "image/png")})
        else:
            parts.append({"type": "text", "text": str(block.get("text") or f"[{block.get('type')}]")})
    return {"role": "user", "content": parts, "timestamp": now_ms}


def assistant_message(parts: Sequence[ModelResponsePart], arguments: Mapping[str, dict[str, Any]], model: str,
                      now_ms: int) -> Message:
    """Return an answer as a message of the transcript (X-8): adjacent text becomes one part."""
    content: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, TextPart):
            if part.content:
                if content and content[-1]["type"] == "text":
                    content[-1]["text"] += part.content
                else:
                    content.append({"type": "text", "text": part.content})
        elif isinstance(part, ToolCallPart):
            content.append({"type": "toolCall", "id": part.tool_call_id, "name": part.tool_name,
                            "arguments": arguments[part.tool_call_id]})
    calls = any(part["type"] == "toolCall" for part in content)
    return {"role": "assistant", "content": content, "model": model, "stopReason": "toolUse" if calls else "stop",
            "timestamp": now_ms}


def result_message(invocation_id: str, tool_name: str, text: str, ok: bool, now_ms: int) -> Message:
    """Return a tool's result as a message of the transcript."""
    return {"role": "toolResult", "toolCallId": invocation_id, "toolName": tool_name,
            "content": [{"type": "text", "text": text}] if text else [], "isError": not ok, "timestamp": now_ms}


def text_of(message: Message) -> str:
    """Return all text of a message."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text") or "") for part in _objects(content) if part.get("type") == "text")


def parts_of(message: Message) -> list[dict[str, Any]]:
    """Return the parts of a message's content; a plain text is one part."""
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else _objects(content)


def _objects(value: Any) -> list[dict[str, Any]]:
    listed = cast("list[Any]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", one) for one in listed if isinstance(one, dict)]


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {"input": value}
