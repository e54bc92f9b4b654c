"""The OpenAI chat-completions form of an answer (`/v1/chat/completions`)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from .answers import OUTPUT_TOKENS, HttpFailure, ModelAnswer, ModelCall
from .pieces import StreamPiece, fresh_id, sse

_ERROR_CODES = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}


def whole(answer: ModelAnswer, model: str) -> dict[str, Any]:
    """Return the answer as one JSON object."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
    if answer.calls:
        message["tool_calls"] = [_call(call) for call in answer.calls]
    choice = {"index": 0, "message": message, "finish_reason": _finish(answer)}
    return {**_frame(model, "chat.completion"), "choices": [choice], "usage": _usage(answer)}


def stream(answer: ModelAnswer, model: str) -> Iterator[StreamPiece]:
    """Yield the answer as server-sent events, the usage in a last chunk without choices, then `[DONE]`."""
    frame = _frame(model, "chat.completion.chunk")

    def event(delta: dict[str, Any], finish: str | None = None) -> bytes:
        return sse({**frame, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    yield StreamPiece(event({"role": "assistant", "content": ""}))
    if answer.thinking is not None:
        yield StreamPiece(event({"reasoning_content": answer.thinking}))
    for number, chunk in enumerate(answer.chunks):
        yield StreamPiece(event({"content": chunk}), after_delay=number > 0)
    for index, call in enumerate(answer.calls):
        piece = event({"tool_calls": [{"index": index, **_call(call)}]})
        yield StreamPiece(piece, after_delay=bool(answer.chunks) and index == 0)
    usage = sse({**frame, "choices": [], "usage": _usage(answer)})
    yield StreamPiece(event({}, _finish(answer)) + usage + b"data: [DONE]\n\n")


def failure(failed: HttpFailure) -> dict[str, Any]:
    """Return the error body of a failure; the same in both OpenAI forms."""
    if failed.overflow:
        text = "This model's maximum context length is 128000 tokens. However, your messages resulted in 250000 tokens."
        kind, code = "invalid_request_error", "context_length_exceeded"
    else:
        text, code = f"The prompt requested failure {failed.status}.", _ERROR_CODES.get(failed.status)
        kind = "server_error" if failed.status >= 500 else "invalid_request_error"
    return {"error": {"message": text, "type": kind, "param": None, "code": code}}


def _usage(answer: ModelAnswer) -> dict[str, int]:
    total = answer.tokens + OUTPUT_TOKENS
    return {"prompt_tokens": answer.tokens, "completion_tokens": OUTPUT_TOKENS, "total_tokens": total}


def _call(call: ModelCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": fresh_id("call"), "type": "function", "function": function}


def _finish(answer: ModelAnswer) -> str:
    if answer.length:
        return "length"
    return "stop" if not answer.calls else "tool_calls"


def _frame(model: str, kind: str) -> dict[str, Any]:
    return {"id": fresh_id("chatcmpl"), "object": kind, "created": int(time.time()), "model": model}
