"""The parts that a streamed answer is made of."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StreamPiece:
    """Bytes of a stream that go out together, at once or after the script's delay."""

    data: bytes
    after_delay: bool = False


def sse(value: object, event: str | None = None) -> bytes:
    """One server-sent event with a JSON body."""
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {compact(value)}\n\n".encode()


def compact(value: object) -> str:
    """JSON without spaces."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def fresh_id(prefix: str) -> str:
    """An id as the providers make them: a prefix and 16 hex digits."""
    return f"{prefix}_{secrets.token_hex(8)}"
