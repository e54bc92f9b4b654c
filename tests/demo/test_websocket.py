"""The frames of the demonstration's proxy: read as they were written, wherever a read splits them."""

from __future__ import annotations

import pytest

from interlock.demo.websocket import Splitter, text_frame


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536])
@pytest.mark.parametrize("key", [None, b"\x01\xfe\x00\x7f"])
def test_a_frame_reads_back_at_any_split(size: int, key: bytes | None) -> None:
    payload = bytes(number % 251 for number in range(size))
    raw = text_frame(payload, key)
    for at in {0, 1, 2, 3, 5, len(raw) // 2, len(raw) - 1}:
        splitter = Splitter()
        pieces = [*splitter.feed(raw[:at]), *splitter.feed(raw[at:] + b"\x89\x00")]
        assert [(piece.raw, piece.text) for piece in pieces] == [(raw, payload), (b"\x89\x00", None)]
