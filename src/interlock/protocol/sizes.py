"""How large a text is on the wire: every bound of E-5 is counted as encoded JSON."""

from __future__ import annotations

import msgspec

_encode = msgspec.json.Encoder().encode


def json_size(text: str) -> int:
    """Count the bytes of `text` inside a JSON string, without its quotes."""
    return len(_encode(text)) - 2


def split_text(text: str, max_bytes: int) -> list[str]:
    """Cut `text` into neighbours of at most `max_bytes` each as encoded JSON; a code point is never cut."""
    if len(text) < 2 or json_size(text) <= max_bytes:
        return [text]
    middle = len(text) // 2
    return split_text(text[:middle], max_bytes) + split_text(text[middle:], max_bytes)
