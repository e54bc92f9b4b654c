"""The Anthropic form of an answer (`/v1/messages`)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from .answers import OUTPUT_TOKENS, HttpFailure, ModelAnswer, ModelCall
from .pieces import StreamPiece, fresh_id, sse

_ERROR_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def whole(answer: ModelAnswer, model: str) -> dict[str, Any]:
    """Return the answer as one JSON object."""
    content: list[dict[str, Any]] = [{"type": "text", "text": answer.text}] if answer.chunks else []
    content += [
        {"type": "tool_use", "id": fresh_id("toolu"), "name": call.name, "input": json.loads(call.arguments)}
        for call in answer.calls
    ]
    return {**_message(model), "content": content, **_stop(answer), "usage": _usage(answer, OUTPUT_TOKENS)}


def stream(answer: ModelAnswer, model: str) -> Iterator[StreamPiece]:
    """Yield the answer as server-sent events; a piece for each chunk after a delay."""
    message: dict[str, Any] = {**_message(model), "content": [], "stop_reason": None, "stop_sequence": None,
                               "usage": _usage(answer, 1)}
    head = _event("message_start", message=message) + _event("ping")
    index = 0
    if answer.thinking is not None:
        head += _thought(answer.thinking)
        index = 1
    for number, chunk in enumerate(answer.chunks):
        if number == 0:
            head += _event("content_block_start", index=index, content_block={"type": "text", "text": ""})
        yield StreamPiece(head + _delta(index, type="text_delta", text=chunk), after_delay=number > 0)
        head = b""
    if answer.chunks:
        head, index = _event("content_block_stop", index=index), index + 1
    for number, call in enumerate(answer.calls):
        yield StreamPiece(head + _tool_use(call, index + number), after_delay=bool(answer.chunks) and number == 0)
        head = b""
    tail = _event("message_delta", delta=_stop(answer), usage={"output_tokens": OUTPUT_TOKENS})
    yield StreamPiece(head + tail + _event("message_stop"))


def failure(failed: HttpFailure) -> dict[str, Any]:
    """Return the error body of a failure."""
    if failed.overflow:
        error = {"type": "invalid_request_error", "message": "prompt is too long: 250000 tokens > 200000 maximum"}
    else:
        other = "api_error" if failed.status >= 500 else "invalid_request_error"
        kind = _ERROR_TYPES.get(failed.status, other)
        error = {"type": kind, "message": f"The prompt requested failure {failed.status}."}
    return {"type": "error", "error": error, "request_id": fresh_id("req")}


def _thought(text: str) -> bytes:
    return (
        _event("content_block_start", index=0, content_block={"type": "thinking", "thinking": "", "signature": ""})
        + _delta(0, type="thinking_delta", thinking=text)
        + _delta(0, type="signature_delta", signature=f"signed:{text}")
        + _event("content_block_stop", index=0)
    )


def _tool_use(call: ModelCall, index: int) -> bytes:
    block: dict[str, Any] = {"type": "tool_use", "id": fresh_id("toolu"), "name": call.name, "input": {}}
    return (
        _event("content_block_start", index=index, content_block=block)
        + _delta(index, type="input_json_delta", partial_json=call.arguments)
        + _event("content_block_stop", index=index)
    )


def _message(model: str) -> dict[str, Any]:
    return {"id": fresh_id("msg"), "type": "message", "role": "assistant", "model": model}


def _stop(answer: ModelAnswer) -> dict[str, Any]:
    reason = "max_tokens" if answer.length else "tool_use" if answer.calls else "end_turn"
    return {"stop_reason": reason, "stop_sequence": None}


def _usage(answer: ModelAnswer, output: int) -> dict[str, int]:
    return {
        "input_tokens": answer.tokens,
        "output_tokens": output,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
    }


def _delta(index: int, **delta: object) -> bytes:
    return _event("content_block_delta", index=index, delta=delta)


def _event(kind: str, **fields: object) -> bytes:
    return sse({"type": kind, **fields}, event=kind)
