"""Messages in every form that an execute accepts, as JSON: the sent ones, and the blocks that the agent receives."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

BYTES = b"\x00\x01\xfePNG"
DATA = base64.b64encode(BYTES).decode()
KINDS = ("image", "audio", "video", "file")
MEDIA_TYPES = {"image": "image/png", "audio": "audio/wav", "video": "video/mp4", "file": "text/csv"}


def message(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    """One message of a person."""
    return {"role": "user", "content": list(parts), **more}


def text(value: str) -> dict[str, Any]:
    """A part that is text."""
    return {"contentType": "text", "value": value}


def binary(kind: str, data: bytes = BYTES, **more: Any) -> dict[str, Any]:
    """A part that is bytes, in Interlock's form."""
    return {"contentType": kind, "value": {"encoding": "base64", "data": base64.b64encode(data).decode(), **more}}


def buffer(kind: str, data: bytes = BYTES) -> dict[str, Any]:
    """A part that is bytes, as Node writes a Buffer."""
    return {"contentType": kind, "value": {"type": "Buffer", "data": list(data)}}


def whole(kind: str) -> dict[str, Any]:
    """A part that is bytes, with all its optional fields."""
    return binary(kind, media_type=MEDIA_TYPES[kind], sha256=hashlib.sha256(BYTES).hexdigest(), name=f"a.{kind}")


ACCEPTED: dict[str, list[dict[str, Any]]] = {
    "text": [message(text("hello"))],
    "several messages": [message(text("one"), text("two")), message(text("three"))],
    **{f"{kind}, bytes alone": [message(binary(kind))] for kind in KINDS},
    **{f"{kind}, with all that is known": [message(text("see"), whole(kind))] for kind in KINDS},
    **{f"{kind}, Node's Buffer": [message(buffer(kind))] for kind in KINDS},
    "all together": [message(text("see"), *map(whole, KINDS)), message(*map(buffer, KINDS))],
}
