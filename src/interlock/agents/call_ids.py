"""Ids of tool calls that fit in frames (L-2): some servers put a model's whole signature into the id of a call."""

from __future__ import annotations

import hashlib

MAX_CALL_ID_CHARS = 200
"""Below the limit of an id in a frame, since the frames of a call add to it."""


def invocation_id(call_id: str) -> str:
    """Return an agent's id of a call as frames have it: its SHA-256 (hex) if it is long."""
    return call_id if len(call_id) <= MAX_CALL_ID_CHARS else digest_id(call_id)


def digest_id(call_id: str) -> str:
    """Return the SHA-256 (hex) of an agent's id of a call."""
    return hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()
