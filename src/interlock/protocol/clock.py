"""The text form of an instant. Internally, time is an integer of milliseconds since the epoch, UTC."""

from datetime import UTC, datetime
from functools import lru_cache

SECONDS_KEPT = 64
"""Cached seconds: the same few are formatted many times."""


def iso(at_ms: int) -> str:
    """Return `at_ms` as ISO 8601 UTC with milliseconds, as in every frame and resource."""
    seconds, ms = divmod(at_ms, 1000)
    return f"{_second(seconds)}.{ms:03d}Z"


@lru_cache(SECONDS_KEPT)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def parse_iso(text: str) -> int:
    """Parse an ISO 8601 instant; without a zone it is UTC. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
