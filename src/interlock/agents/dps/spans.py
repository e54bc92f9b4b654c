"""Text that an agent sends with offsets of its own, forwarded once and in order (E-4). Pure."""

from __future__ import annotations

import hashlib

from interlock.protocol.frames import InvalidFrame


class BlockSpan:
    """One block, or one channel of a tool call. Stores a count and a digest, never the text."""

    def __init__(self) -> None:
        self.length = 0
        """Code points forwarded so far."""
        self._digest = hashlib.sha256()

    def grow(self, offset: int, text: str) -> str:
        """Return the new part of `text`: text that was forwarded already is skipped. Raises InvalidFrame for a gap."""
        if not 0 <= offset <= self.length:
            raise InvalidFrame("$.payload.offset", f"is {offset}, but {self.length} code points were sent so far")
        fresh = text[self.length - offset :]
        self.length += len(fresh)
        self._digest.update(_bytes(fresh))
        return fresh

    def finish(self, text: str) -> str:
        """Return the part of the complete text that was not forwarded. Raises InvalidFrame if the text contradicts the
        forwarded part, which a viewer has seen."""
        if hashlib.sha256(_bytes(text[: self.length])).digest() != self._digest.digest():
            raise InvalidFrame("$.payload.text", "does not begin with the text that was sent piece by piece")
        return text[self.length :]


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
