"""The Gemini form of an answer (`/v1beta/models/MODEL:generateContent` and `:streamGenerateContent`)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

from .answers import OUTPUT_TOKENS, HttpFailure, ModelAnswer, ModelCall
from .pieces import StreamPiece, fresh_id, sse

_STATUSES = {401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED",
             500: "INTERNAL", 503: "UNAVAILABLE"}  # fmt: skip


def whole(answer: ModelAnswer, model: str) -> dict[str, Any]:
    """Return the answer as one JSON object."""
    parts = [{"text": answer.text}] if answer.chunks else []
    return _response(answer, model, [*parts, *map(_call, answer.calls)], _finish(answer))


def stream(answer: ModelAnswer, model: str) -> Iterator[StreamPiece]:
    """Yield the answer as server-sent events, each with the new part; the id is that of the whole answer."""
    name = fresh_id("gemini")
    if answer.thinking is not None:
        thought = {"text": answer.thinking, "thought": True, "thoughtSignature": "c2lnbmVk"}
        yield StreamPiece(sse(_response(answer, model, [thought], name=name)))
    for number, chunk in enumerate(answer.chunks):
        yield StreamPiece(sse(_response(answer, model, [{"text": chunk}], name=name)), after_delay=number > 0)
    for number, call in enumerate(answer.calls):
        piece = sse(_response(answer, model, [_call(call)], name=name))
        yield StreamPiece(piece, after_delay=bool(answer.chunks) and number == 0)
    yield StreamPiece(sse(_response(answer, model, [], _finish(answer), name)))


def failure(failed: HttpFailure) -> dict[str, Any]:
    """Return the error body of a failure."""
    text = f"The prompt requested failure {failed.status}."
    if failed.overflow:
        text = "The input token count (1250000) exceeds the maximum number of tokens allowed (1048576)."
    status = _STATUSES.get(failed.status, "INVALID_ARGUMENT")
    return {"error": {"code": failed.status, "message": text, "status": status}}


def _finish(answer: ModelAnswer) -> str:
    return "MAX_TOKENS" if answer.length else "STOP"


def _call(call: ModelCall) -> dict[str, Any]:
    return {"functionCall": {"name": call.name, "args": _arguments(call)}, "thoughtSignature": "c2lnbmVk"}


def _arguments(call: ModelCall) -> dict[str, Any]:
    """Return the arguments as an object in any case: this form cannot express anything else."""
    try:
        arguments: Any = json.loads(call.arguments)
    except ValueError:
        arguments = None
    return cast(dict[str, Any], arguments) if isinstance(arguments, dict) else {"input": call.arguments}


def _response(answer: ModelAnswer, model: str, parts: list[dict[str, Any]], finish: str | None = None,
              name: str = "gemini") -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    usage = {"promptTokenCount": answer.tokens, "candidatesTokenCount": OUTPUT_TOKENS,
             "totalTokenCount": answer.tokens + OUTPUT_TOKENS}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": model, "responseId": name}
