"""What went wrong with a request to a model, in one sentence, and whether it may go better the next time (B-1)."""

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
    """An answer came to an end that may be half of what was to be: the stream did not say why it ended, or says that
    the model failed."""


class RequestFailure(NamedTuple):
    """A request that brought no answer. `again_s` is how long the server wants to be left alone."""

    code: Code
    sentence: str
    passing: bool = False
    again_s: float | None = None


def failure_of(error: Exception, choice: ModelChoice) -> RequestFailure:
    """Read what pydantic-ai, or what is below it, raised."""
    passing = isinstance(error, (*PASSING, Unfinished)) and not _final(error)
    sentence = f"{choice.name} {_what(error, choice)}"
    code = Code.CONTEXT_OVERFLOW if isinstance(error, ModelContextWindowExceededError) else Code.UPSTREAM_ERROR
    again_s = error.retry_after if isinstance(error, ModelAPIError) else None
    return RequestFailure(code, sentence, passing, again_s)


def _final(error: Exception) -> bool:
    """The server says itself that asking again is of no use."""
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
    """Return the provider's own words, without the key: it is taken out before they are cut, or a part of it stayed."""
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
