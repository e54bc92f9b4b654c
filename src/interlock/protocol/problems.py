"""The REST error codes (F-1): one table of code, status, title, whether a retry can help, and the remedy."""

from __future__ import annotations

from typing import NamedTuple

import msgspec


class ProblemKind(NamedTuple):
    """One row: HTTP status, title and hint of a code."""

    status: int
    title: str
    retryable: bool
    hint: str


PROBLEMS: dict[str, ProblemKind] = {
    "Unauthorized": ProblemKind(401, "Credentials are missing or not accepted", False,
                                "Send `Authorization: Bearer <key>`; the owner key is in the state directory."),
    "Forbidden": ProblemKind(403, "These credentials do not allow it", False, "Use a key whose role allows it."),
    "ApprovalRequired": ProblemKind(409, "An approval is needed first", False,
                                    "Repeat the request once it is granted: `interlock approvals`."),
    "InvalidPayload": ProblemKind(400, "The request is invalid", False,
                                  "Correct the places that `errors` names."),
    "UnsupportedCapability": ProblemKind(400, "The agent cannot do that", False,
                                         "Choose an agent that lists the capability."),
    "RateLimited": ProblemKind(429, "Too many requests", True, "Wait for `Retry-After`."),
    "QuotaExceeded": ProblemKind(429, "A quota is exhausted", True, "Wait for earlier work to end."),
    "Timeout": ProblemKind(504, "The wait timed out", True, "Ask again; the work continues."),
    "Canceled": ProblemKind(409, "It was canceled", False, "Submit it again if it is still needed."),
    "Conflict": ProblemKind(409, "Its state does not allow this", False, "Check its state first."),
    "IdempotencyKeyInUse": ProblemKind(409, "A request with this key is in progress", True,
                                       "Wait for `Retry-After`, then repeat the request."),
    "IdempotencyKeyReused": ProblemKind(422, "This key was used with another body", False,
                                        "Use a new key for a new request."),
    "IdempotencyKeyMissing": ProblemKind(400, "An idempotency key is needed", False,
                                         "Send `Idempotency-Key`, 8 to 255 visible ASCII characters."),
    "InternalError": ProblemKind(500, "Interlock failed", True, "See the gateway's log."),
    "UpstreamError": ProblemKind(502, "Something upstream failed", True, "Try again later."),
    "NotFound": ProblemKind(404, "There is no such resource", False, "List the existing ones."),
    "CursorExpired": ProblemKind(410, "The cursor is older than the stored data", False,
                                 "Start again from the snapshot in `Link`."),
    "Unavailable": ProblemKind(503, "The gateway cannot do that now", True, "Try again after `Retry-After`."),
    "MethodNotAllowed": ProblemKind(405, "This path does not support that method", False, "See `Allow`."),
    "NotAcceptable": ProblemKind(406, "No format of the response is acceptable", False, "Accept application/json."),
    "RequestTimeout": ProblemKind(408, "The request was received too slowly", True, "Send it again, without a pause."),
    "PayloadTooLarge": ProblemKind(413, "The body is too large", False, "Send less, or in parts."),
    "UnsupportedMediaType": ProblemKind(415, "The body's media type is not supported", False,
                                        "Send `Content-Type: application/json`."),
    "MisdirectedRequest": ProblemKind(421, "This gateway does not serve that host name or tenant", False,
                                      "Add the name to `gateway.hosts` in the config."),
}


class Place(msgspec.Struct, frozen=True):
    """One invalid place in a body: a JSON pointer and the fault."""

    pointer: str
    detail: str


class Problem(Exception):
    """A refusal that becomes `application/problem+json` (F-1) at the REST boundary."""

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        errors: tuple[Place, ...] = (),
        hint: str | None = None,
        headers: dict[str, str] | None = None,
        approval_id: str | None = None,
    ) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.kind = PROBLEMS[code]
        self.detail = full_sentence(detail)
        self.errors = errors
        self.hint = hint or self.kind.hint
        self.headers = headers or {}
        self.approval_id = approval_id
        """The approval that is waited for, if any (ApprovalRequired)."""


def malformed(pointer: str, detail: str, hint: str | None = None) -> Problem:
    """Return InvalidPayload for one place of a body, which is named in the sentence and in `errors` (F-1)."""
    return Problem("InvalidPayload", f"{pointer}: {detail}", errors=(Place(pointer, detail),), hint=hint)


def not_offered(agent_id: str) -> Problem:
    """Return Conflict: no online runner offers this agent."""
    return Problem("Conflict", f"No runner that is online offers agent {agent_id}",
                   hint="See `interlock agents`; add it to the runner's config under [agents].")


def full_sentence(text: str) -> str:
    """Return a problem's detail as a sentence that another one may follow: it ends with a full stop."""
    stripped = text.strip()
    return stripped if not stripped or stripped.endswith((".", "!", "?")) else f"{stripped}."
