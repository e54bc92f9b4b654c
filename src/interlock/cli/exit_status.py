"""The exit statuses: a contract, with one table for each kind of outcome (design/experience.md)."""

from __future__ import annotations

from enum import IntEnum


class ExitStatus(IntEnum):
    """The meaning of a verb's exit status."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    REJECTED = 3
    """Rejected, or its approval expired; a denied tool alone does not cause it."""
    CANCELED = 4
    TIMED_OUT = 5
    """Timed out, or not started in time."""
    UNREACHABLE = 6
    NOT_FOUND = 7
    NOT_AUTHORISED = 8
    CONFLICT = 9
    INTERRUPTED = 130
    """Ctrl-C; the work continues."""


BY_STATE: dict[str, ExitStatus] = {
    "succeeded": ExitStatus.DONE,
    "failed": ExitStatus.FAILED,
    "rejected": ExitStatus.REJECTED,
    "expired": ExitStatus.REJECTED,
    "canceled": ExitStatus.CANCELED,
    "timed_out": ExitStatus.TIMED_OUT,
}
"""Terminal states of a command. `expired` has two causes: see `of_command`."""

BY_CODE: dict[str, ExitStatus] = {
    "Unauthorized": ExitStatus.NOT_AUTHORISED,
    "Forbidden": ExitStatus.NOT_AUTHORISED,
    "MisdirectedRequest": ExitStatus.NOT_AUTHORISED,
    "ApprovalRequired": ExitStatus.CONFLICT,
    "Canceled": ExitStatus.CONFLICT,
    "Conflict": ExitStatus.CONFLICT,
    "IdempotencyKeyInUse": ExitStatus.CONFLICT,
    "IdempotencyKeyReused": ExitStatus.CONFLICT,
    "InvalidPayload": ExitStatus.USAGE,
    "UnsupportedCapability": ExitStatus.USAGE,
    "IdempotencyKeyMissing": ExitStatus.USAGE,
    "PayloadTooLarge": ExitStatus.USAGE,
    "NotFound": ExitStatus.NOT_FOUND,
    "CursorExpired": ExitStatus.NOT_FOUND,
    "Timeout": ExitStatus.TIMED_OUT,
    "Unreachable": ExitStatus.UNREACHABLE,
    "Usage": ExitStatus.USAGE,
}
"""Codes of problem+json (F-1) and of the command line's own; any other code is FAILED."""

BY_HTTP: dict[int, ExitStatus] = {
    401: ExitStatus.NOT_AUTHORISED, 403: ExitStatus.NOT_AUTHORISED, 404: ExitStatus.NOT_FOUND, 409: ExitStatus.CONFLICT,
    410: ExitStatus.NOT_FOUND,
    421: ExitStatus.NOT_AUTHORISED, 422: ExitStatus.CONFLICT, 504: ExitStatus.TIMED_OUT,
}
"""Responses without a code, as a proxy sends them."""


def of_command(state: str, error_code: str | None) -> ExitStatus:
    """Return the exit status of an ended command: 3 for an expired approval, 5 for a command that was not started in
    time."""
    if state == "expired" and error_code == "Timeout":
        return ExitStatus.TIMED_OUT
    return BY_STATE.get(state, ExitStatus.FAILED)
