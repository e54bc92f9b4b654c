"""How answers are written: JSON of a resource, and every refusal as problem+json (F-1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response

from interlock.command.redaction import SECRETS
from interlock.protocol.problems import PROBLEMS, Problem

PROBLEM_TYPE = "https://interlock.invalid/problems/"
"""`type` of a problem is this and the code: a name, not an address (RFC 9457 section 3.1.1)."""

_encoder = msgspec.json.Encoder()


def encode(value: Any) -> bytes:
    """Write a resource as JSON."""
    return _encoder.encode(value)


def json_answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Answer with a resource."""
    return raw_answer(encode(value), status, headers)


def raw_answer(body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Answer with JSON that is bytes already."""
    return Response(body, status, {"Cache-Control": "no-store", **(headers or {})}, "application/json")


def problem_document(problem: Problem, instance: str) -> dict[str, Any]:
    """Write a problem's members (RFC 9457). It may repeat what was asked, but no secret that stood there (K-4)."""
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


def problem_answer(problem: Problem, instance: str) -> Response:
    """Answer with a refusal."""
    headers = {"Cache-Control": "no-store", **problem.headers}
    if problem.code == "Unauthorized":
        headers.setdefault("WWW-Authenticate", 'Bearer realm="interlock"')
    elif problem.kind.retryable and problem.kind.status in (409, 429, 503):
        headers.setdefault("Retry-After", "1")
    return Response(encode(problem_document(problem, instance)), problem.kind.status, headers,
                    "application/problem+json")
