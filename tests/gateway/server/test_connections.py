"""Invalid requests: refused in the standard form, and never buffered without a limit (F-1)."""

import asyncio
import socket

import pytest
import uvloop

from gateway.test_slow_senders import HEAD, listening
from interlock.gateway.server.connections import MAX_HEAD_BYTES, READ_BYTES, SenderTimeouts, _ways

pytestmark = pytest.mark.anyio
PATIENT = SenderTimeouts(head_s=30, body_s=30)
PIECE = b"a" * 32_768
START = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
CHUNKS = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
MUCH = (MAX_HEAD_BYTES + 4 * READ_BYTES) // len(PIECE)


async def told(port: int, *pieces: bytes) -> bytes:
    """Send until the gateway closes; what it said."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        return await asyncio.wait_for(reader.read(), 20)
    except ConnectionError:
        return b"reset"
    finally:
        writer.close()


@pytest.mark.req("F-1")
@pytest.mark.parametrize("raw", [
    b"\x16\x03\x01garbage\r\n\r\n", b"FOO / HTTP/1.1\r\n\r\n", START + b"Content-Length: -5\r\n\r\n",
    CHUNKS[:-3] + b"zz\r\n", HEAD + b"abcd" + b"no request\r\n\r\n",
])
async def test_what_is_no_request_is_refused_as_everything_is(raw: bytes) -> None:
    async with listening(PATIENT) as port:
        said = await told(port, raw)
        assert said.count(b"HTTP/1.1 400 Bad Request") == 1
        assert b"content-type: application/problem+json" in said
        assert b'"code":"InvalidPayload"' in said


@pytest.mark.req("F-1", "K-3")
@pytest.mark.parametrize("pieces", [
    [START, b"X: ", *[PIECE] * MUCH],
    [START, *(b"X%d: " % number + PIECE + b"\r\n" for number in range(4))],
    [b"GET /", *[PIECE] * 4],
    [CHUNKS, b"X: ", *[PIECE] * MUCH],
    [CHUNKS, *(b"X%d: " % number + PIECE + b"\r\n" for number in range(4))],
], ids=["one header", "many headers", "target", "one header behind the body", "many behind the body"])
async def test_a_head_without_end_is_not_gathered(pieces: list[bytes]) -> None:
    async with listening(PATIENT) as port:
        said = await told(port, *pieces)
        assert said == b"reset" or b"longer than 65536 bytes" in said


@pytest.mark.req("F-1")
async def test_a_large_body_and_a_head_just_within_the_bound_are_taken() -> None:
    async with listening(PATIENT) as port:
        body = PIECE * MUCH
        head = (b"POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: " + b"a" * (MAX_HEAD_BYTES - 200)
                + b"\r\nContent-Length: %d\r\n\r\n" % len(body))
        said = await told(port, head, body)
        assert said.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"content-length: %d" % len(body) in said


@pytest.mark.req("S-4")
def test_a_connection_that_is_over_already_is_bounded_and_ended_without_an_error() -> None:
    async def close_first() -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=ours)
            transport.abort()
            while transport.get_extra_info("socket").fileno() != -1:
                await asyncio.sleep(0)
            ways = _ways(transport)
            ways["bound"]()
            ways["abort"]()

    loop = uvloop.new_event_loop()  # What the gateway runs on: its sockets fail in another way than asyncio's.
    try:
        loop.run_until_complete(close_first())
    finally:
        loop.close()
