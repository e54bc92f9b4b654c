"""The formats of ids. Randomness and time are arguments."""

from __future__ import annotations

import re
from functools import lru_cache

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = tuple(first + second for first in _CROCKFORD for second in _CROCKFORD)

INSTANTS_KEPT = 16
"""Cached milliseconds with the beginning of their ULIDs: what is decided together is named together."""
_TYPED = str.maketrans({"-": None, " ": None, "O": "0", "I": "1", "L": "1"})

AGENT_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
"""Agent ids (R-2)."""

COMMAND_STREAMS = "c/"
"""Prefix of the names of commands' streams: the command's id follows."""
COMMAND_PREFIX = "cmd_"
"""How the ids of commands begin."""


def ulid(at_ms: int, entropy: bytes) -> str:
    """Write a ULID from milliseconds and 10 random bytes: sorts by time."""
    value, pairs = int.from_bytes(entropy[:10], "big"), _PAIRS
    return (f"{_time(at_ms)}{pairs[value >> 70]}{pairs[value >> 60 & 1023]}{pairs[value >> 50 & 1023]}"
            f"{pairs[value >> 40 & 1023]}{pairs[value >> 30 & 1023]}{pairs[value >> 20 & 1023]}"
            f"{pairs[value >> 10 & 1023]}{pairs[value & 1023]}")


@lru_cache(INSTANTS_KEPT)
def _time(at_ms: int) -> str:
    return "".join([_PAIRS[(at_ms >> shift) & 1023] for shift in (40, 30, 20, 10, 0)])


def crockford(entropy: bytes, length: int) -> str:
    """Write a code that people type: `length` characters of 5 bits each, without I, L, O and U."""
    value = int.from_bytes(entropy, "big")
    return "".join(_CROCKFORD[(value >> 5 * place) & 31] for place in range(length))


def read_crockford(text: str) -> str:
    """Parse a code as people type it: any case, with hyphens and spaces, O for 0, I and L for 1."""
    return text.upper().translate(_TYPED)


def uuid4(entropy: bytes) -> str:
    """Write a UUID v4 from 16 random bytes."""
    value = bytearray(entropy[:16])
    value[6] = (value[6] & 0x0F) | 0x40
    value[8] = (value[8] & 0x3F) | 0x80
    text = value.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def session_stream(session_id: str) -> str:
    """Return the name of the stream of a session's frames of both directions and notices."""
    return "s/" + session_id


def session_of_stream(stream: str) -> str | None:
    """Return the session whose stream it is; None for a stream of another kind."""
    return stream[2:] if stream.startswith("s/") else None


def command_stream(command_id: str) -> str:
    """Return the name of the stream of a command's status events."""
    return COMMAND_STREAMS + command_id


def tenant_stream(tenant_id: str) -> str:
    """Return the name of a tenant's feed."""
    return "t/" + tenant_id
