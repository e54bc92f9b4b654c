"""The exit statuses: a contract, one table for each thing that ends a verb (design/experience.md)."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """What a verb's exit status says."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    REJECTED = 3
    """Rejected, or its approval expired; a denied tool alone does not set it."""
    CANCELED = 4
    TIMED_OUT = 5
    """Timed out, or never started in time."""
    UNREACHABLE = 6
    NOT_FOUND = 7
    NOT_AUTHORISED = 8
    CONFLICT = 9
    INTERRUPTED = 130
    """Ctrl-C; the work goes on."""


BY_STATE: dict[str, Exit] = {
    "succeeded": Exit.DONE,
    "failed": Exit.FAILED,
    "rejected": Exit.REJECTED,
    "expired": Exit.REJECTED,
    "canceled": Exit.CANCELED,
    "timed_out": Exit.TIMED_OUT,
}
"""Terminal states of a command. `expired` has two causes: see `of_command`."""

BY_CODE: dict[str, Exit] = {
    "Unauthorized": Exit.NOT_AUTHORISED,
    "Forbidden": Exit.NOT_AUTHORISED,
    "MisdirectedRequest": Exit.NOT_AUTHORISED,
    "ApprovalRequired": Exit.CONFLICT,
    "Canceled": Exit.CONFLICT,
    "Conflict": Exit.CONFLICT,
    "IdempotencyKeyInUse": Exit.CONFLICT,
    "IdempotencyKeyReused": Exit.CONFLICT,
    "InvalidPayload": Exit.USAGE,
    "UnsupportedCapability": Exit.USAGE,
    "IdempotencyKeyMissing": Exit.USAGE,
    "PayloadTooLarge": Exit.USAGE,
    "NotFound": Exit.NOT_FOUND,
    "CursorExpired": Exit.NOT_FOUND,
    "Timeout": Exit.TIMED_OUT,
    "Unreachable": Exit.UNREACHABLE,
    "Usage": Exit.USAGE,
}
"""Codes of problem+json (F-1) and of the command line's own; any other code is FAILED."""

BY_HTTP: dict[int, Exit] = {
    401: Exit.NOT_AUTHORISED, 403: Exit.NOT_AUTHORISED, 404: Exit.NOT_FOUND, 409: Exit.CONFLICT, 410: Exit.NOT_FOUND,
    421: Exit.NOT_AUTHORISED, 422: Exit.CONFLICT, 504: Exit.TIMED_OUT,
}
"""An answer without a code, as a proxy in between gives it."""


def of_command(state: str, error_code: str | None) -> Exit:
    """The exit status of a command that ended: an expired approval is 3, one that never started in time is 5."""
    if state == "expired" and error_code == "Timeout":
        return Exit.TIMED_OUT
    return BY_STATE.get(state, Exit.FAILED)
