"""The exceptions of calls: one tree, with a class for each code of F-1.

    InterlockError
    ├── Refused             the gateway refused: code, status, detail, hint, errors
    │   ├── Unauthorized, Forbidden, NotFound, Conflict, …   one for each code
    ├── Unreachable         no answer, after all attempts
    ├── NotAGateway         the answer is not from a gateway of this version
    └── StillRunning        a wait timed out; the command continues
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from interlock.protocol.problems import Place


class InterlockError(Exception):
    """Base of this library's exceptions."""


class Unreachable(InterlockError):
    """There was no answer. A change may or may not have been made: send it again with the same key."""


class NotAGateway(InterlockError):
    """The answer is not a gateway's: a proxy's page, another program, another version."""


class StillRunning(InterlockError):
    """A wait timed out before the command ended. The work continues."""

    def __init__(self, command_id: str, state: str) -> None:
        super().__init__(f"{command_id} is still {state}; wait again, or follow its status.")
        self.command_id = command_id
        self.state = state


class Refused(InterlockError):
    """A refusal (F-1). `errors` name the places that are wrong; `retry_after_s` is the delay that the gateway requests;
    `location` is where the result can be read, if the work continues without an answer; `approval_id` names the
    approval that ApprovalRequired waits for."""

    code: ClassVar[str] = ""

    def __init__(self, body: ProblemBody) -> None:
        places = "; ".join(f"{place.pointer or 'body'}: {place.detail}" for place in body.errors)
        sentence = body.detail or body.title
        super().__init__(f"{body.code}: {sentence}" + (f" ({places})" if places and places not in sentence else ""))
        self.problem = body.code
        self.status = body.status
        self.detail = body.detail
        self.hint = body.hint
        self.retryable = body.retryable
        self.errors = body.errors
        self.retry_after_s = body.retry_after_s
        self.location = body.location
        self.approval_id = body.approval_id


class ProblemBody(msgspec.Struct, frozen=True, kw_only=True):
    """A problem+json document; unknown members are ignored (RFC 9457)."""

    code: str
    status: int = 0
    title: str = ""
    detail: str = ""
    hint: str = ""
    retryable: bool = False
    errors: tuple[Place, ...] = ()
    retry_after_s: float | None = None
    location: str | None = None
    approval_id: str | None = None


class Unauthorized(Refused):
    """The key is missing, wrong, revoked or expired."""

    code = "Unauthorized"


class Forbidden(Refused):
    """The role does not allow it, or policy denies it."""

    code = "Forbidden"


class ApprovalRequired(Refused):
    """Policy requires an approval for an operation that does not wait for one."""

    code = "ApprovalRequired"


class InvalidPayload(Refused):
    """The request has an invalid form; `errors` names the places."""

    code = "InvalidPayload"


class UnsupportedCapability(Refused):
    """The agent does not support that."""

    code = "UnsupportedCapability"


class RateLimited(Refused):
    """Too many requests, also after the requested delays."""

    code = "RateLimited"


class QuotaExceeded(Refused):
    """A quota is exhausted."""

    code = "QuotaExceeded"


class Timeout(Refused):
    """A synchronous wait timed out at the gateway; the work continues."""

    code = "Timeout"


class Canceled(Refused):
    """The operation was canceled."""

    code = "Canceled"


class Conflict(Refused):
    """The current state does not allow this."""

    code = "Conflict"


class IdempotencyKeyInUse(Refused):
    """A request with this key is still being answered."""

    code = "IdempotencyKeyInUse"


class IdempotencyKeyReused(Refused):
    """This key was used with another body."""

    code = "IdempotencyKeyReused"


class IdempotencyKeyMissing(Refused):
    """A change came without a key; this library always sends one."""

    code = "IdempotencyKeyMissing"


class InternalError(Refused):
    """The gateway failed."""

    code = "InternalError"


class UpstreamError(Refused):
    """A service that the gateway used failed: an issuer, a webhook."""

    code = "UpstreamError"


class NotFound(Refused):
    """There is nothing by that name, or it belongs to another tenant."""

    code = "NotFound"


class CursorExpired(Refused):
    """The events after the cursor are no longer stored; begin again without one."""

    code = "CursorExpired"


class Unavailable(Refused):
    """The gateway is temporarily unable to do it, also after waiting."""

    code = "Unavailable"


class MethodNotAllowed(Refused):
    """The path does not support the method."""

    code = "MethodNotAllowed"


class NotAcceptable(Refused):
    """None of the available formats is accepted."""

    code = "NotAcceptable"


class RequestTimeout(Refused):
    """The request did not arrive in time."""

    code = "RequestTimeout"


class PayloadTooLarge(Refused):
    """The body is too large."""

    code = "PayloadTooLarge"


class UnsupportedMediaType(Refused):
    """The body has an unsupported type."""

    code = "UnsupportedMediaType"


class MisdirectedRequest(Refused):
    """The gateway does not serve that host name, or the tenant was moved to another cluster."""

    code = "MisdirectedRequest"


BY_CODE: Mapping[str, type[Refused]] = {kind.code: kind for kind in Refused.__subclasses__()}
"""The class of each code."""

_body = msgspec.json.Decoder(ProblemBody)


def refusal(status: int, body: bytes, retry_after: str | None, location: str | None = None) -> InterlockError:
    """Return the exception for an answer outside of 2xx."""
    try:
        problem = _body.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return NotAGateway(f"The answer has status {status} and is not a gateway's. Is the URL right?")
    problem = msgspec.structs.replace(problem, status=status or problem.status, retry_after_s=seconds(retry_after),
                                      location=location)
    return BY_CODE.get(problem.code, Refused)(problem)


def seconds(retry_after: str | None) -> float | None:
    """Read `Retry-After` in its form of seconds; None for any other."""
    return float(retry_after) if retry_after is not None and retry_after.isascii() and retry_after.isdigit() else None
