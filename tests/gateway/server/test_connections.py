"""Invalid requests: refused in the standard form, and never buffered without a limit (F-1)."""

import asyncio
import socket
from typing import Any

import pytest
import uvloop
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from gateway.test_slow_senders import HEAD, echo, listening
from interlock.gateway.server.connections import (
    MAX_FRAGMENTS,
    MAX_HEAD_BYTES,
    MAX_PIPELINED,
    READ_BYTES,
    SenderTimeouts,
    _ways,
)

pytestmark = pytest.mark.anyio
PATIENT = SenderTimeouts(head_s=30, body_s=30)
PIECE = b"a" * 32_768
START = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
CHUNKS = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
MUCH = (MAX_HEAD_BYTES + 4 * READ_BYTES) // len(PIECE)


async def exchange(port: int, *pieces: bytes) -> bytes:
    """Send until the gateway closes; its response."""
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
async def test_a_malformed_request_is_refused_with_a_problem_document(raw: bytes) -> None:
    async with listening(PATIENT) as port:
        response = await exchange(port, raw)
        assert response.count(b"HTTP/1.1 400 Bad Request") == 1
        assert b"content-type: application/problem+json" in response
        assert b'"code":"InvalidPayload"' in response


@pytest.mark.req("F-1", "K-3")
@pytest.mark.parametrize("pieces", [
    [START, b"X: ", *[PIECE] * MUCH],
    [START, *(b"X%d: " % number + PIECE + b"\r\n" for number in range(4))],
    [b"GET /", *[PIECE] * 4],
    [CHUNKS, b"X: ", *[PIECE] * MUCH],
    [CHUNKS, *(b"X%d: " % number + PIECE + b"\r\n" for number in range(4))],
], ids=["one header", "many headers", "target", "one header behind the body", "many behind the body"])
async def test_an_endless_head_is_not_buffered(pieces: list[bytes]) -> None:
    async with listening(PATIENT) as port:
        response = await exchange(port, *pieces)
        assert response == b"reset" or b"longer than 65536 bytes" in response


@pytest.mark.req("F-1")
async def test_a_large_body_and_a_head_within_the_bound_are_accepted() -> None:
    async with listening(PATIENT) as port:
        body = PIECE * MUCH
        head = (b"POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: " + b"a" * (MAX_HEAD_BYTES - 200)
                + b"\r\nContent-Length: %d\r\n\r\n" % len(body))
        response = await exchange(port, head, body)
        assert response.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"content-length: %d" % len(body) in response


@pytest.mark.req("S-4")
def test_a_closed_connection_is_bounded_and_aborted_without_an_error() -> None:
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

    loop = uvloop.new_event_loop()  # The gateway's loop: its sockets fail differently from asyncio's.
    try:
        loop.run_until_complete(close_first())
    finally:
        loop.close()


class Stream:
    """An application whose response continues until the connection is lost."""

    def __init__(self) -> None:
        self.begun, self.ended = 0, asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.begun += 1
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"one", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass
        self.ended.set()


UPGRADE = (b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
           b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")


class Connections(set[Any]):
    """A server's connections, with an event for the loss of one."""

    def __init__(self) -> None:
        super().__init__()
        self.lost = asyncio.Event()

    def discard(self, connection: Any) -> None:
        super().discard(connection)
        self.lost.set()


@pytest.mark.req("S-4", "K-3")
async def test_a_stream_ends_with_its_connection_though_a_request_waits_behind_it() -> None:
    stream = Stream()
    async with listening(PATIENT, stream) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(START + b"\r\n" + START + b"\r\n")
        await reader.readuntil(b"one")
        writer.close()
        await asyncio.wait_for(stream.ended.wait(), 20)
    assert stream.begun == 1


@pytest.mark.req("S-4", "K-3")
@pytest.mark.parametrize("behind", [(START + b"\r\n") * (MAX_PIPELINED + 1), UPGRADE],
                         ids=["too many requests", "an upgrade"])
async def test_what_cannot_wait_behind_a_response_closes_its_connection(behind: bytes) -> None:
    stream = Stream()
    async with listening(PATIENT, stream) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(START + b"\r\n")
        await reader.readuntil(b"one")
        writer.write(behind)
        assert b"HTTP/1.1" not in await asyncio.wait_for(reader.read(), 10), "nothing is sent into another response"
        await asyncio.wait_for(stream.ended.wait(), 20)
        writer.close()
    assert stream.begun == 1


@pytest.mark.req("F-1", "K-3")
async def test_thousands_of_requests_in_one_piece_are_not_gathered() -> None:
    stream = Stream()
    async with listening(PATIENT, stream) as port:
        response = await exchange(port, (START + b"\r\n") * 5_000)
    assert response == b"reset" or b"More than 16 requests of this connection wait" in response
    assert stream.begun <= 1


@pytest.mark.req("F-1")
async def test_requests_that_wait_within_the_bound_are_answered_in_order() -> None:
    async with listening(PATIENT) as port:
        last = START + b"Connection: close\r\nContent-Length: 4\r\n\r\nlast"
        response = await exchange(port, (HEAD + b"abcd") * MAX_PIPELINED + last)
    assert response.count(b"HTTP/1.1 200 OK") == response.count(b"abcd") + 1 == MAX_PIPELINED + 1
    assert response.endswith(b"last")


async def accepting(scope: Any, receive: Any, send: Any) -> None:
    """Accept a WebSocket, and say nothing."""
    await receive()
    await send({"type": "websocket.accept"})
    while (await receive())["type"] != "websocket.disconnect":
        pass


def ping(payload: bytes) -> bytes:
    return bytes([0x89, 0x80 | len(payload)]) + bytes(4) + payload


@pytest.mark.req("S-4", "K-3")
async def test_pongs_are_not_gathered_for_a_peer_that_reads_nothing() -> None:
    async with listening(PATIENT, accepting) as port:
        with socket.socket() as peer:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            peer.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(peer, ("127.0.0.1", port))
            await loop.sock_sendall(peer, UPGRADE)
            assert (await loop.sock_recv(peer, 4_096)).startswith(b"HTTP/1.1 101")
            [connection] = port.server.server_state.connections
            largest = 0
            for _ in range(400):
                await loop.sock_sendall(peer, ping(b"p" * 125) * 500)
                largest = max(largest, connection.transport.get_write_buffer_size())
            assert largest < 1 << 20
            await loop.sock_sendall(peer, ping(b"the last"))
            response = b""
            async with asyncio.timeout(20):
                while b"the last" not in response:
                    response = response[-64:] + await loop.sock_recv(peer, 1 << 20)


@pytest.mark.req("L-2", "K-3")
async def test_a_message_of_empty_fragments_without_end_closes_its_connection() -> None:
    async with listening(PATIENT, accepting) as port, connect(f"ws://127.0.0.1:{port}/") as there:
        await there.send([""] * MAX_FRAGMENTS)
        await there.send([""] * (MAX_FRAGMENTS + 2))
        with pytest.raises(ConnectionClosed) as closed:
            await there.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009


@pytest.mark.req("S-4", "K-3")
async def test_a_peer_that_reads_no_response_does_not_keep_its_connection() -> None:
    async def large(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(16 << 20)})

    async with listening(PATIENT, large, unread_ms=300) as port:
        port.server.server_state.connections = connections = Connections()
        with socket.socket() as peer:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            peer.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(peer, ("127.0.0.1", port))
            await loop.sock_sendall(peer, START + b"Connection: close\r\n\r\n")
            await asyncio.wait_for(connections.lost.wait(), 20)
            assert not connections


@pytest.mark.req("S-4")
async def test_a_response_aborts_its_own_connection_and_no_later_one() -> None:
    aborts: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        aborts.append(scope["state"]["abort"])
        await echo(scope, receive, send)

    async with listening(PATIENT, app) as port:
        first, second = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        for reader, writer in (first, second, first):
            writer.write(HEAD + b"abcd")
            await asyncio.wait_for(reader.readuntil(b"abcd"), 20)
        aborts[-1]()
        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(first[0].read(), 20)
        second[1].write(HEAD + b"abcd")
        assert await asyncio.wait_for(second[0].readuntil(b"abcd"), 20)
        for _, writer in (first, second):
            writer.close()
