"""The HTTP side of the model server: one route for each provider's form, and for the agents' other requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from . import anthropic, chat, gemini, responses
from .answers import INPUT_TOKENS, HttpFailure, ModelAnswer, answer
from .conversation import ModelPrompt, read_anthropic, read_chat, read_gemini, read_responses
from .pieces import StreamPiece
from .request_log import RecordedRequest, Recording, RequestKind, WireForm

TOGETHER_BYTES = 8_192
"""Approximate size of the pieces in which events without a pause are sent: benchmarks measure the reader, not the
sending of single events."""
MODELS = ("fake-model", "claude-sonnet-4-5", "claude-haiku-4-5", "gpt-4o", "gpt-5")


@dataclass(frozen=True, slots=True)
class _Form:
    """How one provider's requests are read and its answers are written."""

    provider: WireForm
    read: Callable[[dict[str, Any]], ModelPrompt]
    whole: Callable[[ModelAnswer, str], dict[str, Any]]
    stream: Callable[[ModelAnswer, str], Iterator[StreamPiece]]
    failure: Callable[[HttpFailure], dict[str, Any]]


_FORMS = {
    "/v1/messages": _Form(WireForm.ANTHROPIC, read_anthropic, anthropic.whole, anthropic.stream, anthropic.failure),
    "/v1/chat/completions": _Form(WireForm.CHAT, read_chat, chat.whole, chat.stream, chat.failure),
    "/v1/responses": _Form(WireForm.RESPONSES, read_responses, responses.whole, responses.stream, chat.failure),
}

_GEMINI = _Form(WireForm.GEMINI, read_gemini, gemini.whole, gemini.stream, gemini.failure)


def make_app(recording: Recording, closing: asyncio.Event) -> Starlette:
    """Return the application; `closing` cuts delays short, so that a stop does not wait for a slow answer."""

    def endpoint(form: _Form) -> Callable[[Request], Any]:
        async def serve(request: Request) -> Response:
            body = json.loads(await request.body())
            if form is _GEMINI:  # The path contains what other forms have in the body.
                body = {**body, "model": request.path_params["model"], "stream": "stream" in request.url.path}
            prompt = form.read(body)
            kind = RequestKind.SIDE if prompt.side else RequestKind.TURN
            before = sum(one.asked.prompt == prompt.prompt for one in recording.all())
            recording.add(RecordedRequest(form.provider, kind, dict(request.headers), body, prompt))
            return await _respond(form, prompt, before, closing)

        return serve

    async def recorded(_: Request) -> Response:
        return JSONResponse([asdict(one) for one in recording.all()])

    async def page(request: Request) -> Response:
        recording.visit(request.path_params["page"])
        return PlainTextResponse("A page of the model stand-in.")

    routes = [Route(path, endpoint(form), methods=["POST"]) for path, form in _FORMS.items()]
    routes += [Route("/v1beta/models/{model}:" + verb, endpoint(_GEMINI), methods=["POST"])
               for verb in ("generateContent", "streamGenerateContent")]
    routes += [
        Route("/v1/messages/count_tokens", _count_tokens, methods=["POST"]),
        Route("/v1/models", _models, methods=["GET"]),
        Route("/recorded", recorded, methods=["GET"]),
        Route("/page/{page}", page, methods=["GET"]),
        Route("/", _alive, methods=["GET"]),
    ]
    return Starlette(routes=routes)


async def _respond(form: _Form, request: ModelPrompt, before: int, closing: asyncio.Event) -> Response:
    outcome = answer(request, before)
    if isinstance(outcome, HttpFailure):
        # Some SDKs would otherwise retry for minutes; the test expects the failure that it requested.
        headers = {} if outcome.again else {"x-should-retry": "false"}
        return JSONResponse(form.failure(outcome), outcome.status, headers=headers)
    if request.stream:
        pieces = _spaced(form.stream(outcome, request.model), outcome, closing)
        return StreamingResponse(pieces, media_type="text/event-stream")
    await _pause(outcome.whole_delay, closing)
    return JSONResponse(form.whole(outcome, request.model))


async def _spaced(pieces: Iterator[StreamPiece], answer: ModelAnswer, closing: asyncio.Event) -> AsyncIterator[bytes]:
    together = bytearray()
    for piece in _but_last(pieces) if answer.hangs or answer.cut or answer.ends else pieces:
        if together and (len(together) >= TOGETHER_BYTES or (piece.after_delay and answer.delay_seconds > 0)):
            yield bytes(together)
            together.clear()
        if piece.after_delay:
            await _pause(answer.delay_seconds, closing)
        if closing.is_set():
            return
        together += piece.data
    if together:
        yield bytes(together)
    if answer.hangs:
        await closing.wait()
    if answer.cut:
        raise ConnectionResetError("the prompt requested a connection that is cut")


def _but_last(pieces: Iterator[StreamPiece]) -> Iterator[StreamPiece]:
    """Yield all but the end of the answer, which a hanging or cut answer never reaches."""
    before = next(pieces, None)
    for piece in pieces:
        if before is not None:
            yield before
        before = piece


async def _pause(seconds: float, closing: asyncio.Event) -> None:
    if seconds <= 0:
        return
    try:
        await asyncio.wait_for(closing.wait(), seconds)
    except TimeoutError:
        return


async def _count_tokens(request: Request) -> Response:
    await request.body()
    return JSONResponse({"input_tokens": INPUT_TOKENS})


async def _models(_: Request) -> Response:
    # The fields of both providers side by side: each agent reads those that it knows.
    data = [
        {"id": name, "object": "model", "created": 1, "owned_by": "interlock", "type": "model", "display_name": name}
        for name in MODELS
    ]
    return JSONResponse({"object": "list", "data": data, "has_more": False})


async def _alive(_: Request) -> Response:
    return JSONResponse({"status": "ok"})
