"""Failures of a request to a model: one sentence for each, and whether a retry may succeed (B-1)."""

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

MAX_REASON_CHARS = 500
PASSING = (ModelRateLimitError, ModelUnavailableError, ModelServerError, ModelConnectionError, ModelRequestTimeout)


class Unfinished(Exception):
    """Raised if an answer may be incomplete: the stream did not state why it ended, or reports that the model
    failed."""


class RequestFailure(NamedTuple):
    """A request without an answer. `again_s` is the delay before a retry that the server requested, in seconds."""

    code: Code
    sentence: str
    passing: bool = False
    again_s: float | None = None


def failure_of(error: Exception, choice: ModelChoice) -> RequestFailure:
    """Convert an exception of pydantic-ai, or of a library below it, to a failure."""
    passing = isinstance(error, (*PASSING, Unfinished)) and not _final(error)
    sentence = f"{choice.name} {_what(error, choice)}"
    code = Code.CONTEXT_OVERFLOW if isinstance(error, ModelContextWindowExceededError) else Code.UPSTREAM_ERROR
    again_s = error.retry_after if isinstance(error, ModelAPIError) else None
    return RequestFailure(code, sentence, passing, again_s)


def _final(error: Exception) -> bool:
    """Return whether the server itself reports that a retry is useless."""
    return isinstance(error, ModelHTTPError) and (error.headers or {}).get("x-should-retry") == "false"


def _what(error: Exception, choice: ModelChoice) -> str:
    reason = _reason(error, choice.key)
    status = f" ({error.status_code})" if isinstance(error, ModelHTTPError) else ""
    match error:
        case ModelContextWindowExceededError():
            return f"cannot take so long a context{status}: {reason}"
        case ModelAuthenticationError():
            return f"refused the API key{status}: {reason} Set the right one where the runner is started."
        case ModelNotFoundError():
            return f"is not known to {choice.base_url or choice.provider}{status}: {reason}"
        case ModelQuotaExceededError():
            return f"has no quota left{status}: {reason}"
        case ModelRateLimitError():
            return f"is asked too often{status}: {reason}"
        case ModelUnavailableError() | ModelServerError():
            return f"failed{status}: {reason}"
        case ModelRequestTimeout():
            return "did not answer in time."
        case TimeoutError():
            return "stopped in the middle of its answer."
        case ModelConnectionError():
            return f"cannot be reached at {choice.base_url or choice.provider}: {reason}"
        case ModelAPIError():
            return f"refused the request{status}: {reason}"
        case AgentRunError() | UserError():
            return f"could not be asked: {reason}"
        case _:
            return f"broke off its answer: {reason}"


def _reason(error: Exception, key: str) -> str:
    """Return the provider's own text without the key, which is removed before the text is cut, since a part of it might
    remain."""
    body = getattr(error, "body", None)
    reason = _message(body) or str(error) or type(error).__name__
    if key not in ("", NO_KEY):
        reason = reason.replace(key, "…")
    reason = " ".join(reason.split())[:MAX_REASON_CHARS]
    return reason if reason.endswith((".", "!", "?")) else f"{reason}."


def _message(body: Any) -> str:
    fields = cast("dict[str, Any]", body) if isinstance(body, dict) else {}
    inner = fields.get("error")
    if isinstance(inner, dict):
        fields = cast("dict[str, Any]", inner)
    message = fields.get("message")
    return message if isinstance(message, str) else ""
