"""Logging for a server that is unavailable: its first failure, periodic summaries, and its return.

A component that depends on a server retries several times a second while it is unavailable. A line for each attempt
would bury the rest of the log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

SUMMARY_MIN_S = 10.0
"""Time from the first failure to the first summary; each further summary follows after twice the previous interval."""
SUMMARY_MAX_S = 300.0


class Warns(Protocol):
    """The part of a logger that is used here."""

    def warning(self, event: str, **fields: Any) -> Any: ...

    def info(self, event: str, **fields: Any) -> Any: ...


class OutageLog:
    """A log of outages: `failing` at the first failure and as a summary, `well` at the first success after it. `now_s`
    is a monotonic clock."""

    def __init__(self, log: Warns, failing: str, well: str, now_s: Callable[[], float]) -> None:
        self._log = log
        self._failing = failing
        self._well = well
        self._now_s = now_s
        self._since_s: float | None = None
        self._failures = 0
        self._next_s = self._pause_s = 0.0

    def failed(self, reason: str, **fields: Any) -> None:
        """Record a failure; log it if it is the first, or if a summary is due."""
        now_s = self._now_s()
        self._failures += 1
        if self._since_s is None:
            self._since_s, self._pause_s, self._next_s = now_s, SUMMARY_MIN_S, now_s + SUMMARY_MIN_S
            self._log.warning(self._failing, reason=reason, **fields)
        elif now_s >= self._next_s:
            self._pause_s = min(2 * self._pause_s, SUMMARY_MAX_S)
            self._next_s = now_s + self._pause_s
            self._log.warning(self._failing, reason=reason, failures=self._failures,
                              for_s=round(now_s - self._since_s, 1), **fields)

    def ended(self) -> None:
        """Record a success; log it if a failure preceded it."""
        if self._since_s is None:
            return
        self._log.info(self._well, failures=self._failures, after_s=round(self._now_s() - self._since_s, 1))
        self._since_s, self._failures = None, 0
