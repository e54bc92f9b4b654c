"""The codes of F-1 that an operation can return, and their description in the OpenAPI document (F-2)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from interlock.protocol.answers import COMPONENTS
from interlock.protocol.api.operation import Operation
from interlock.protocol.problems import PROBLEMS

PROBLEM_MEDIA = "application/problem+json"

ALWAYS = ("Forbidden", "InternalError", "InvalidPayload", "MisdirectedRequest", "RequestTimeout", "Unauthorized",
          "Unavailable")
"""Any request may be for another host, from a disallowed page, with an unknown parameter, or at a gateway whose ledger
does not answer; one that does not arrive in time is ended."""
KNOWN = ("NotAcceptable", "RateLimited", "UpstreamError")
"""Of those that require a credential: their rate is limited, and an issuer's keys may be unavailable."""
CHANGING = ("IdempotencyKeyInUse", "IdempotencyKeyMissing", "IdempotencyKeyReused")
WITH_BODY = ("PayloadTooLarge", "UnsupportedMediaType")


def codes_of(operation: Operation[Any]) -> dict[int, tuple[str, ...]]:
    """Return every code that the operation can return, by status: those of its form, and its own."""
    codes = {*ALWAYS, *operation.codes}
    if operation.public:
        codes |= {"RateLimited"}
    else:
        codes |= set(KNOWN)
    if operation.body is not None:
        codes |= set(WITH_BODY) if operation.public else {*WITH_BODY, *CHANGING}
    if "{" in operation.path:
        codes |= {"NotFound"}
    if operation.streams:
        codes |= {"CursorExpired"}
    by_status: dict[int, set[str]] = {}
    for code in codes:
        by_status.setdefault(PROBLEMS[code].status, set()).add(code)
    return {status: tuple(sorted(group)) for status, group in sorted(by_status.items())}


def name_of(codes: tuple[str, ...]) -> str:
    """Return the name of the response for one of these codes."""
    return "-or-".join(codes)


def problem_responses(groups: Iterable[tuple[str, ...]]) -> dict[str, Any]:
    """Return each group of codes that share a status once."""
    return {name_of(group): _response(group) for group in sorted(groups)}


def _response(codes: tuple[str, ...]) -> dict[str, Any]:
    kinds = [PROBLEMS[code] for code in codes]
    narrowed = {"properties": {"code": {"enum": list(codes)}, "status": {"const": kinds[0].status}}}
    headers: dict[str, Any] = {}
    if kinds[0].status == 401:
        headers["WWW-Authenticate"] = {"schema": {"type": "string"}, "description": "`Bearer`."}
    if any(kind.retryable and kind.status in (409, 429, 503) for kind in kinds):
        headers["Retry-After"] = {"schema": {"type": "string"}, "description": "Seconds until a retry can succeed."}
    if "CursorExpired" in codes:
        headers["Link"] = {"schema": {"type": "string"}, "description": "The snapshot from which to start again."}
    text = " ".join(f"`{code}`: {kind.title}." for code, kind in zip(codes, kinds, strict=True))
    return {"description": text, **({"headers": headers} if headers else {}),
            "content": {PROBLEM_MEDIA: {"schema": {"allOf": [{"$ref": COMPONENTS + "Problem"}, narrowed]}}}}


def problem_schema() -> dict[str, Any]:
    """Return the schema of every refusal (RFC 9457, F-1)."""
    return {
        "title": "Problem", "type": "object",
        "description": "A refusal. `code` is stable; `retryable` is whether the same request can succeed later as "
                       "it is; `errors` name the places that are wrong, a JSON pointer into the body or a parameter; "
                       "`approval_id` is there where an approval is waited for.",
        "required": ["type", "title", "status", "detail", "instance", "code", "retryable", "hint"],
        "properties": {
            "type": {"type": "string"}, "title": {"type": "string"},
            "status": {"type": "integer", "minimum": 400, "maximum": 599}, "detail": {"type": "string"},
            "instance": {"type": "string"}, "code": {"type": "string", "enum": sorted(PROBLEMS)},
            "retryable": {"type": "boolean"}, "hint": {"type": "string"},
            "approval_id": {"type": "string", "description": "What ApprovalRequired waits for."},
            "errors": {"type": "array", "items": {
                "type": "object", "required": ["pointer", "detail"],
                "properties": {"pointer": {"type": "string"}, "detail": {"type": "string"}}}},
        },
    }
