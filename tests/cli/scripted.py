"""A gateway that answers from a script, for behaviour that a real one shows only if killed at the right instant."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2

from interlock.cli.config.place import Where
from interlock.cli.link.gateway_link import GatewayLink

URL = "http://127.0.0.1:7"


class Cut(httpx2.AsyncByteStream):
    """A body that breaks off after its pieces, or ends where `breaks` is false."""

    def __init__(self, *pieces: str, breaks: bool = True) -> None:
        self._pieces = pieces
        self._breaks = breaks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece.encode()
        if self._breaks:
            raise httpx2.ReadError("cut")

    async def aclose(self) -> None:
        return


class Script:
    """Answers each path from its own list of answers, in order; the last one stays. Keeps what was asked."""

    def __init__(self, answers: dict[str, list[Callable[[httpx2.Request], httpx2.Response]]]) -> None:
        self._answers = answers
        self.asked: list[httpx2.Request] = []

    async def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        sse = "event-stream" in request.headers.get("Accept", "")
        name = f"{request.method} {request.url.path}" + (" sse" if sse else "")
        answers = self._answers.get(name)
        if answers is None:
            return problem(404, "NotFound", f"nothing is scripted for {name}")(request)
        return (answers.pop(0) if len(answers) > 1 else answers[0])(request)


def link_to(script: Script, state: Path, **time: Any) -> GatewayLink:
    """A link to the script; the key comes from the state directory."""
    (state / "owner.key").write_text("ilk_test\n")
    return GatewayLink(Where(state=state, url=URL), httpx2.MockTransport(script), **time)


def answer(value: Any, status: int = 200) -> Callable[[httpx2.Request], httpx2.Response]:
    return lambda _: httpx2.Response(status, json=value)


def problem(status: int, code: str, detail: str) -> Callable[[httpx2.Request], httpx2.Response]:
    return answer({"type": "about:blank", "title": code, "status": status, "code": code, "detail": detail,
                   "hint": "Do this."}, status)


def stream(*pieces: str, breaks: bool = True) -> Callable[[httpx2.Request], httpx2.Response]:
    return lambda _: httpx2.Response(200, stream=Cut(*pieces, breaks=breaks))


def broken(_: httpx2.Request) -> httpx2.Response:
    raise httpx2.ConnectError("refused")


def event(data: dict[str, Any], cursor: str | None = None) -> str:
    lead = f"id: {cursor}\n" if cursor else ""
    return f"{lead}event: x\ndata: {json.dumps(data)}\n\n"
