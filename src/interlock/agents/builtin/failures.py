"""Describe a failed model request in one sentence, and whether a retry may succeed (B-1)."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from pydantic_ai.exceptions import (
    AgentRunError,
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestTimeout,
    ModelServerError,
    ModelUnavailableError,
    UserError,
)

from interlock.agents.builtin.choice import NO_KEY, ModelChoice
from interlock.protocol.codes import Code

MAX_SAID_CHARS = 500
PASSING = (ModelRateLimitError, ModelUnavailableError, ModelServerError, ModelConnectionError, ModelRequestTimeout)


class Unfinished(Exception):
    """An answer that may be incomplete: the stream ended without a finish reason, or reports that the model failed."""


class RequestFailure(NamedTuple):
    """A request without an answer. `again_s` is the delay that the server requests before a retry."""

    code: Code
    sentence: str
    passing: bool = False
    again_s: float | None = None


def failure_of(error: Exception, choice: ModelChoice) -> RequestFailure:
    """Convert an exception of pydantic-ai, or of a library below it."""
    passing = isinstance(error, (*PASSING, Unfinished)) and not _final(error)
    sentence = f"{choice.name} {_what(error, choice)}"
    code = Code.CONTEXT_OVERFLOW if isinstance(error, ModelContextWindowExceededError) else Code.UPSTREAM_ERROR
    again_s = error.retry_after if isinstance(error, ModelAPIError) else None
    return RequestFailure(code, sentence, passing, again_s)


def _final(error: Exception) -> bool:
    """Return whether the server itself reports that a retry is useless."""
    return isinstance(error, ModelHTTPError) and (error.headers or {}).get("x-should-retry") == "false"


def _what(error: Exception, choice: ModelChoice) -> str:
    detail = _detail(error)
    status = f" ({error.status_code})" if isinstance(error, ModelHTTPError) else ""
    match error:
        case ModelContextWindowExceededError():
            return f"cannot process so long a context{status}: {detail}"
        case ModelAuthenticationError():
            return f"refused the API key{status}: {detail} Set the right one where the runner is started."
        case ModelNotFoundError():
            return f"is not known to {choice.base_url or choice.provider}{status}: {detail}"
        case ModelQuotaExceededError():
            return f"has no quota left{status}: {detail}"
        case ModelRateLimitError():
            return f"is asked too often{status}: {detail}"
        case ModelUnavailableError() | ModelServerError():
            return f"failed{status}: {detail}"
        case ModelRequestTimeout():
            return "did not answer in time."
        case TimeoutError():
            return "stopped in the middle of its answer."
        case ModelConnectionError():
            return f"cannot be reached at {choice.base_url or choice.provider}: {detail}"
        case ModelAPIError():
            return f"refused the request{status}: {detail}"
        case AgentRunError() | UserError():
            return f"could not be asked: {detail}"
        case _:
            return f"broke off its answer: {detail}"


def _detail(error: Exception) -> str:
    """Return the provider's own message, without its envelope."""
    body = getattr(error, "body", None)
    detail = _message(body) or str(error) or type(error).__name__
    detail = " ".join(detail.split())[:MAX_SAID_CHARS]
    return detail if detail.endswith((".", "!", "?")) else f"{detail}."


def _message(body: Any) -> str:
    members = cast("dict[str, Any]", body) if isinstance(body, dict) else {}
    inner = members.get("error")
    if isinstance(inner, dict):
        members = cast("dict[str, Any]", inner)
    message = members.get("message")
    return message if isinstance(message, str) else ""
