"""Read the server name of a TLS ClientHello from the first bytes of a connection (RFC 8446, RFC 6066). Pure."""

from __future__ import annotations

HANDSHAKE, CLIENT_HELLO, SERVER_NAME, HOST_NAME = 22, 1, 0, 0
MAX_HELLO_BYTES = 32 * 1024
"""A ClientHello with every known extension and a post-quantum key share is below 4 KiB."""


class NotTls(ValueError):
    """The bytes do not begin a TLS connection, or name a server in a malformed way; one sentence."""


def server_name(data: bytes) -> str | None:
    """Return the name in a ClientHello, in lower case; "" if it names none, None if bytes are still missing.

    Raises NotTls.
    """
    hello = _handshake(data)
    if hello is None:
        return None
    try:
        return _name(hello)
    except IndexError:
        raise NotTls("the ClientHello ends before its end") from None


def _handshake(data: bytes) -> bytes | None:
    """Join the records' payloads up to the end of the first handshake message; None if there are too few bytes."""
    joined, at = b"", 0
    while True:
        if at < len(data) and data[at] != HANDSHAKE:
            raise NotTls("it does not begin with a TLS handshake")
        if at + 1 < len(data) and data[at + 1] != 3:
            raise NotTls("its first bytes are not a version of TLS")
        if at + 5 > len(data):
            break
        size = int.from_bytes(data[at + 3:at + 5], "big")
        if size == 0:
            raise NotTls("it contains an empty TLS record")
        joined += data[at + 5:at + 5 + size]
        if joined and joined[0] != CLIENT_HELLO:
            raise NotTls("its first message is not a ClientHello")
        if len(joined) >= 4:
            end = 4 + int.from_bytes(joined[1:4], "big")
            if end > MAX_HELLO_BYTES:
                raise NotTls(f"its ClientHello has more than {MAX_HELLO_BYTES:,} bytes")
            if len(joined) >= end:
                return joined[4:end]
        at += 5 + size
    if len(data) > 2 * MAX_HELLO_BYTES:
        raise NotTls(f"its ClientHello has more than {MAX_HELLO_BYTES:,} bytes")
    return None


class _Reader:
    """Bytes with a read position; reading past the end raises IndexError."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._data):
            raise IndexError
        taken, self._at = self._data[self._at:end], end
        return taken

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    @property
    def left(self) -> int:
        return len(self._data) - self._at


def _name(hello: bytes) -> str:
    reader = _Reader(hello)
    reader.take(2 + 32)
    reader.take(reader.number(1))
    reader.take(reader.number(2))
    reader.take(reader.number(1))
    if not reader.left:
        return ""
    extensions = _Reader(reader.take(reader.number(2)))
    found: list[bytes] = []
    while extensions.left:
        kind = extensions.number(2)
        body = extensions.take(extensions.number(2))
        if kind == SERVER_NAME:
            names = _Reader(_Reader(body[2:]).take(int.from_bytes(body[:2], "big")))
            while names.left:
                form, name = names.number(1), names.take(names.number(2))
                if form == HOST_NAME:
                    found.append(name)
    if len(found) > 1:
        raise NotTls("its ClientHello names more than one server")
    try:
        return found[0].decode("ascii").lower() if found else ""
    except UnicodeDecodeError:
        raise NotTls("its ClientHello names a server in bytes that are not ASCII") from None
