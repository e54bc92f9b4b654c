"""Several frames in one message, as JSON lines, if both sides offered it (L-2). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from interlock.protocol.limits import MAX_MESSAGE_BYTES

BATCH = "batch"
"""The feature's name in hello and welcome."""


def join(frames: Iterable[bytes], limit_bytes: int = MAX_MESSAGE_BYTES) -> Iterator[bytes]:
    """Join frames, in order, into as few messages as possible. A frame that is larger than a message is sent alone."""
    lines: list[bytes] = []
    size = 0
    for frame in frames:
        size += len(frame) + 1
        if lines and size - 1 > limit_bytes:
            yield b"\n".join(lines)
            lines, size = [], len(frame) + 1
        lines.append(frame)
    if lines:
        yield b"\n".join(lines)


def split(message: bytes) -> list[bytes]:
    """Return the frames of a message; a final line end adds none."""
    lines = message.split(b"\n")
    if len(lines) > 1 and not lines[-1]:
        lines.pop()
    return lines
