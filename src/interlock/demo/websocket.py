"""Parse and write WebSocket frames (RFC 6455 section 5.2), as far as a proxy needs. Pure."""

from __future__ import annotations

import struct
from typing import NamedTuple

TEXT = 0x1
_FIN = 0x80
_MASKED = 0x80


class WebSocketFrame(NamedTuple):
    """One frame: `raw` unchanged; `text` is its payload, unmasked, if it is a whole text message."""

    raw: bytes
    text: bytes | None


class Splitter:
    """Splits the bytes of one direction into frames."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[WebSocketFrame]:
        """Accept bytes; return the frames that are complete."""
        self._rest += data
        pieces: list[WebSocketFrame] = []
        while (piece := self._next()) is not None:
            pieces.append(piece)
        return pieces

    def _next(self) -> WebSocketFrame | None:
        have = self._rest
        if len(have) < 2:
            return None
        size, at = have[1] & 0x7F, 2
        if size >= 126:
            wide, form = (2, "!H") if size == 126 else (8, "!Q")
            if len(have) < at + wide:
                return None
            size = int(struct.unpack_from(form, have, at)[0])
            at += wide
        masked = bool(have[1] & _MASKED)
        start = at + 4 * masked
        if len(have) < start + size:
            return None
        raw = bytes(have[:start + size])
        del have[:start + size]
        # Neither side sends fragmented messages, so one is only forwarded.
        if raw[0] != _FIN | TEXT:
            return WebSocketFrame(raw, None)
        payload = raw[start:]
        return WebSocketFrame(raw, _mask(payload, raw[at:start]) if masked else payload)


def text_frame(payload: bytes, key: bytes | None = None) -> bytes:
    """Return a text message in one frame; `key` (4 bytes) masks it, as the dialling side must."""
    masked = _MASKED if key is not None else 0
    if len(payload) < 126:
        head = struct.pack("!BB", _FIN | TEXT, masked | len(payload))
    elif len(payload) < 1 << 16:
        head = struct.pack("!BBH", _FIN | TEXT, masked | 126, len(payload))
    else:
        head = struct.pack("!BBQ", _FIN | TEXT, masked | 127, len(payload))
    return head + payload if key is None else head + key + _mask(payload, key)


def _mask(payload: bytes, key: bytes) -> bytes:
    if not payload:
        return payload
    whole = (key * (len(payload) // 4 + 1))[:len(payload)]
    return (int.from_bytes(payload, "big") ^ int.from_bytes(whole, "big")).to_bytes(len(payload), "big")
