"""Encoding of responses: JSON of a resource, and every refusal as problem+json (F-1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from string import punctuation
from typing import Any
from urllib.parse import quote

import msgspec
from starlette.types import Receive, Scope, Send

from interlock.command.redaction import SECRETS
from interlock.protocol.problems import PROBLEMS, Problem

PROBLEM_TYPE = "https://interlock.invalid/problems/"
"""`type` of a problem is this and the code: a name, not an address (RFC 9457 section 3.1.1)."""

NAMES_KEPT = 64
"""Cached encodings of header names."""

_encoder = msgspec.json.Encoder()


def encode(value: Any) -> bytes:
    """Write a resource as JSON."""
    return _encoder.encode(value)


class HttpResponse:
    """A complete response: status, headers as they are sent, and a body. It is an ASGI callable."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, body: bytes, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        self.body = body
        self.status = status
        self.headers = headers

    def header(self, name: bytes) -> str:
        """Return one of its headers, by its lower-case name."""
        return next(value for key, value in self.headers if key == name).decode("latin-1")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else self.body})


def json_answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> HttpResponse:
    """Return the response with a resource."""
    return raw_answer(encode(value), status, headers)


def _written(value: str) -> bytes:
    """Encode a header's value; characters that no header may contain are percent-encoded. Ids from a runner can be
    anything."""
    safe = value if value.isascii() and value.isprintable() else quote(value, safe=punctuation + " ")
    return safe.encode("ascii")


def raw_answer(body: bytes, status: int = 200, headers: Mapping[str, str] | None = None,
               media: bytes = b"application/json") -> HttpResponse:
    """Return the response with encoded JSON."""
    fields = {b"cache-control": b"no-store"}
    for name, value in headers.items() if headers is not None else ():
        fields[_small(name)] = _written(value)
    fields.setdefault(b"content-length", b"%d" % len(body))
    fields.setdefault(b"content-type", media)
    return HttpResponse(body, status, [*fields.items()])


@lru_cache(NAMES_KEPT)
def _small(name: str) -> bytes:
    return name.lower().encode("latin-1")


def problem_document(problem: Problem, instance: str) -> dict[str, Any]:
    """Return a problem's members (RFC 9457). They may repeat parts of the request, but no secret in them (K-4)."""
    kind = PROBLEMS[problem.code]
    document: dict[str, Any] = {
        "type": PROBLEM_TYPE + problem.code,
        "title": kind.title,
        "status": kind.status,
        "detail": SECRETS.text(problem.detail),
        "instance": SECRETS.text(instance),
        "code": problem.code,
        "retryable": kind.retryable,
    }
    if problem.errors:
        document["errors"] = [{"pointer": SECRETS.text(place.pointer), "detail": SECRETS.text(place.detail)}
                              for place in problem.errors]
    if problem.approval_id is not None:
        document["approval_id"] = problem.approval_id
    document["hint"] = SECRETS.text(problem.hint)
    return document


def problem_answer(problem: Problem, instance: str) -> HttpResponse:
    """Return the response with a refusal."""
    headers = dict(problem.headers)
    if problem.code == "Unauthorized":
        headers.setdefault("WWW-Authenticate", 'Bearer realm="interlock"')
    elif problem.kind.retryable and problem.kind.status in (409, 429, 503):
        headers.setdefault("Retry-After", "1")
    return raw_answer(encode(problem_document(problem, instance)), problem.kind.status, headers,
                      b"application/problem+json")
