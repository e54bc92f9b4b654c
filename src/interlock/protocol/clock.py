"""How an instant is written. Inside, time is an integer of milliseconds since the epoch, UTC."""

from datetime import UTC, datetime
from functools import lru_cache

SECONDS_KEPT = 64
"""Seconds whose text is kept: what happens now is written many times in the same few."""


def iso(at_ms: int) -> str:
    """Write `at_ms` as ISO 8601 UTC with milliseconds, as every frame and resource carries it."""
    seconds, ms = divmod(at_ms, 1000)
    return f"{_second(seconds)}.{ms:03d}Z"


@lru_cache(SECONDS_KEPT)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def parse_iso(text: str) -> int:
    """Read an ISO 8601 instant; without a zone it is UTC. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
