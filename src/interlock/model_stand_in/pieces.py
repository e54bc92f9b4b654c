"""The parts of a streamed answer."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StreamPiece:
    """Bytes of a stream that are sent together, at once or after the script's delay."""

    data: bytes
    after_delay: bool = False


def sse(value: object, event: str | None = None) -> bytes:
    """Return one server-sent event with a JSON body."""
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {compact(value)}\n\n".encode()


def compact(value: object) -> str:
    """Return JSON without spaces."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def fresh_id(prefix: str) -> str:
    """Return an id in the providers' form: a prefix and 16 hex digits."""
    return f"{prefix}_{secrets.token_hex(8)}"
