"""A long body, stored in a file outside memory while it arrives (F-1, X-6)."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections.abc import Iterator
from typing import BinaryIO, cast

from starlette.requests import ClientDisconnect, Request

from interlock.protocol.limits import MAX_IMPORT_BYTES
from interlock.protocol.problems import Problem

DRAIN_BYTES = 32 * 1024 * 1024
"""A body that is longer by this is not read to its end: the connection is closed."""
SPOOL_BYTES = 1024 * 1024
"""Bytes of one write, which runs on a thread."""


class ReceivedUpload:
    """A received body, as a file that is deleted when it is closed. Use it as a context manager."""

    def __init__(self) -> None:
        self._file: BinaryIO = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 - closed with this.
        self._digest = hashlib.sha256()
        self.size = 0

    def __enter__(self) -> ReceivedUpload:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @property
    def sha256(self) -> str:
        """Return the SHA-256 of all of it, in hex."""
        return self._digest.hexdigest()

    def add(self, data: bytes) -> None:
        """Append a piece. Blocks. Raises OSError."""
        self._digest.update(data)
        self._file.write(data)
        self.size += len(data)

    def __iter__(self) -> Iterator[bytes]:
        """Read its lines from the beginning, without their line feeds. Blocks."""
        self._file.seek(0)
        for line in self._file:
            yield line.removesuffix(b"\n")

    def whole(self) -> bytes:
        """Read all of it. Blocks."""
        self._file.seek(0)
        return self._file.read()


async def receive(request: Request, upload: ReceivedUpload) -> None:
    """Receive a request's body. Raises Problem PayloadTooLarge, Unavailable if it cannot be stored;
    ClientDisconnect."""
    held = bytearray()
    more, dropped = True, 0
    # An oversized body is read for a while and dropped: a sender that is cut off does not see the response.
    while more and dropped <= DRAIN_BYTES:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body: bytes = message.get("body", b"")
        more = message.get("more_body", False)
        if dropped or upload.size + len(held) + len(body) > MAX_IMPORT_BYTES:
            dropped += len(body)
            continue
        held += body
        if len(held) >= SPOOL_BYTES or not more:
            piece, held = bytes(held), bytearray()
            try:
                await asyncio.to_thread(upload.add, piece)
            except OSError as error:
                raise Problem("Unavailable", f"The transcript cannot be kept while it comes: {error.strerror}.",
                              headers={"Retry-After": "30", "Connection": "close"}) from None
    if dropped:
        raise Problem("PayloadTooLarge", f"The transcript is larger than {MAX_IMPORT_BYTES} bytes.",
                      headers={"Connection": "close"})
