"""What a call can raise: one tree, a class for each code of F-1.

    InterlockError
    ├── Refused             the gateway said no: code, status, detail, hint, errors
    │   ├── Unauthorized, Forbidden, NotFound, Conflict, …   one for each code
    ├── Unreachable         no one answered, however often it was asked
    ├── NotAGateway         something answered that is not a gateway of this version
    └── StillRunning        a wait ran out; the command continues
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from interlock.protocol.problems import Place


class InterlockError(Exception):
    """The base of this library's exceptions."""


class Unreachable(InterlockError):
    """Raised if there is no response. It is unknown whether a change was made: send it again under the same key."""


class NotAGateway(InterlockError):
    """Raised if the response is not a gateway's: a proxy's page, another program, another version."""


class StillRunning(InterlockError):
    """Raised if a wait ran out and the command has not ended. The work continues."""

    def __init__(self, command_id: str, state: str) -> None:
        super().__init__(f"{command_id} is {state} still; wait again, or follow its status.")
        self.command_id = command_id
        self.state = state


class Refused(InterlockError):
    """A refusal (F-1). `errors` names the invalid places; `retry_after_s` is the delay that the gateway requested;
    `location` is where the result can be read, if work continues without a response; `approval_id` names the approval
    that ApprovalRequired waits for."""

    code: ClassVar[str] = ""

    def __init__(self, fields: ProblemBody) -> None:
        places = "; ".join(f"{place.pointer or 'body'}: {place.detail}" for place in fields.errors)
        sentence = fields.detail or fields.title
        super().__init__(f"{fields.code}: {sentence}" + (f" ({places})" if places and places not in sentence else ""))
        self.problem = fields.code
        self.status = fields.status
        self.detail = fields.detail
        self.hint = fields.hint
        self.retryable = fields.retryable
        self.errors = fields.errors
        self.retry_after_s = fields.retry_after_s
        self.location = fields.location
        self.approval_id = fields.approval_id


class ProblemBody(msgspec.Struct, frozen=True, kw_only=True):
    """problem+json as received; unknown members are ignored (RFC 9457)."""

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
    """The role does not allow the operation, or policy denies it."""

    code = "Forbidden"


class ApprovalRequired(Refused):
    """Policy requires an approval for an operation that does not wait for one."""

    code = "ApprovalRequired"


class InvalidPayload(Refused):
    """The request is malformed; `errors` names the places."""

    code = "InvalidPayload"


class UnsupportedCapability(Refused):
    """The agent does not support the operation."""

    code = "UnsupportedCapability"


class RateLimited(Refused):
    """Too many requests, also after the requested waits."""

    code = "RateLimited"


class QuotaExceeded(Refused):
    """A quota is used up."""

    code = "QuotaExceeded"


class Timeout(Refused):
    """A synchronous wait ran out at the gateway; the work continues."""

    code = "Timeout"


class Canceled(Refused):
    """The operation was canceled."""

    code = "Canceled"


class Conflict(Refused):
    """The object is not in a state that allows the operation."""

    code = "Conflict"


class IdempotencyKeyInUse(Refused):
    """A request with this key is still being answered."""

    code = "IdempotencyKeyInUse"


class IdempotencyKeyReused(Refused):
    """This key was used with another body."""

    code = "IdempotencyKeyReused"


class IdempotencyKeyMissing(Refused):
    """A change was sent without a key; this library always sends one."""

    code = "IdempotencyKeyMissing"


class InternalError(Refused):
    """The gateway failed."""

    code = "InternalError"


class UpstreamError(Refused):
    """A service that the gateway called failed: an issuer, a webhook."""

    code = "UpstreamError"


class NotFound(Refused):
    """There is no such object, or not in this tenant."""

    code = "NotFound"


class CursorExpired(Refused):
    """What follows the cursor is no longer stored; start again without one."""

    code = "CursorExpired"


class Unavailable(Refused):
    """The gateway could not process the request now, also after retries."""

    code = "Unavailable"


class MethodNotAllowed(Refused):
    """The path does not accept the method."""

    code = "MethodNotAllowed"


class NotAcceptable(Refused):
    """The gateway cannot send the response in an accepted form."""

    code = "NotAcceptable"


class RequestTimeout(Refused):
    """The request did not arrive in time."""

    code = "RequestTimeout"


class PayloadTooLarge(Refused):
    """The body is too large."""

    code = "PayloadTooLarge"


class UnsupportedMediaType(Refused):
    """The body is of a type that is not accepted there."""

    code = "UnsupportedMediaType"


class MisdirectedRequest(Refused):
    """The gateway does not accept that host name, or the tenant was moved to another cluster."""

    code = "MisdirectedRequest"


BY_CODE: Mapping[str, type[Refused]] = {kind.code: kind for kind in Refused.__subclasses__()}
"""The class of each code."""

_decoder = msgspec.json.Decoder(ProblemBody)


def refusal(status: int, body: bytes, retry_after: str | None, location: str | None = None) -> InterlockError:
    """Return the exception for a response outside 2xx."""
    try:
        fields = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return NotAGateway(f"The answer has status {status} and is not a gateway's. Is the URL right?")
    fields = msgspec.structs.replace(fields, status=status or fields.status, retry_after_s=seconds(retry_after),
                                   location=location)
    return BY_CODE.get(fields.code, Refused)(fields)


def seconds(retry_after: str | None) -> float | None:
    """Return the seconds of a `Retry-After` header; None if it has another form."""
    return float(retry_after) if retry_after is not None and retry_after.isascii() and retry_after.isdigit() else None


def for_people(hint: str, retry_after_s: float | None) -> str:
    """Return a hint that names `Retry-After` with the time to wait: a person at a terminal sees no headers."""
    wait = "a few seconds" if retry_after_s is None else f"{retry_after_s:.0f} s"
    return hint.replace("after `Retry-After`", f"in {wait}").replace("for `Retry-After`", wait)
