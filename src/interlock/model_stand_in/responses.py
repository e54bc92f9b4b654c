"""The OpenAI responses form of an answer (`/v1/responses`)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from .answers import OUTPUT_TOKENS, ModelAnswer, ModelCall
from .conversation import NAMESPACE_END
from .pieces import StreamPiece, fresh_id, sse


def whole(answer: ModelAnswer, model: str) -> dict[str, Any]:
    """Return the answer as one JSON object."""
    items = [item for item in (_message(answer), *map(_call, answer.calls)) if item is not None]
    return {**_response(model), "status": "completed", "output": items, "usage": _usage(answer)}


def stream(answer: ModelAnswer, model: str) -> Iterator[StreamPiece]:
    """Yield the answer as server-sent events, numbered, from `response.created` to `response.completed`."""
    response, message, calls = _response(model), _message(answer), [_call(call) for call in answer.calls]
    events = _Numbered()
    yield StreamPiece(events("response.created", response={**response, "status": "in_progress", "output": []}))
    if message is not None:
        yield from _message_pieces(events, answer, message)
    first = 0 if message is None else 1
    for at, call in enumerate(calls, first):
        yield StreamPiece(_call_events(events, call, at), after_delay=message is not None and at == first)
    items = [item for item in (message, *calls) if item is not None]
    done = {**response, "status": "completed", "output": items, "usage": _usage(answer)}
    if answer.length:
        done |= {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    yield StreamPiece(events(f"response.{done['status']}", response=done))


def _usage(answer: ModelAnswer) -> dict[str, Any]:
    return {
        "input_tokens": answer.tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": OUTPUT_TOKENS,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": answer.tokens + OUTPUT_TOKENS,
    }


class _Numbered:
    """Server-sent events with this form's sequence numbers."""

    def __init__(self) -> None:
        self._next = 0

    def __call__(self, kind: str, **fields: object) -> bytes:
        number, self._next = self._next, self._next + 1
        return sse({"type": kind, "sequence_number": number, **fields}, event=kind)


def _message_pieces(events: _Numbered, answer: ModelAnswer, message: dict[str, Any]) -> Iterator[StreamPiece]:
    at: dict[str, Any] = {"item_id": message["id"], "output_index": 0, "content_index": 0}
    opened: dict[str, Any] = {**message, "status": "in_progress", "content": []}
    yield StreamPiece(
        events("response.output_item.added", output_index=0, item=opened)
        + events("response.content_part.added", **at, part={"type": "output_text", "text": "", "annotations": []})
    )
    for number, chunk in enumerate(answer.chunks):
        yield StreamPiece(events("response.output_text.delta", **at, delta=chunk), after_delay=number > 0)
    yield StreamPiece(
        events("response.output_text.done", **at, text=answer.text)
        + events("response.content_part.done", **at, part=message["content"][0])
        + events("response.output_item.done", output_index=0, item=message)
    )


def _call_events(events: _Numbered, call: dict[str, Any], index: int) -> bytes:
    opened = {**call, "status": "in_progress", "arguments": ""}
    at: dict[str, Any] = {"item_id": call["id"], "output_index": index}
    return (
        events("response.output_item.added", output_index=index, item=opened)
        + events("response.function_call_arguments.delta", **at, delta=call["arguments"])
        + events("response.function_call_arguments.done", **at, arguments=call["arguments"])
        + events("response.output_item.done", output_index=index, item=call)
    )


def _message(answer: ModelAnswer) -> dict[str, Any] | None:
    if not answer.chunks:
        return None
    content: list[dict[str, Any]] = [{"type": "output_text", "text": answer.text, "annotations": []}]
    return {"id": fresh_id("msg"), "type": "message", "role": "assistant", "status": "completed", "content": content}


def _call(call: ModelCall) -> dict[str, Any]:
    namespace, _, name = call.name.rpartition(NAMESPACE_END)
    return {
        "id": fresh_id("fc"),
        "type": "function_call",
        "status": "completed",
        "call_id": fresh_id("call"),
        "name": name,
        "arguments": call.arguments,
        **({"namespace": namespace} if namespace else {}),
    }


def _response(model: str) -> dict[str, Any]:
    return {
        "id": fresh_id("resp"),
        "object": "response",
        "created_at": int(time.time()),
        "model": model,
        "error": None,
        "incomplete_details": None,
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
    }
