"""JSON-RPC 2.0 over pipes: lines that cannot be read, from an agent and from a client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from interlock.jsonrpc import INVALID_REQUEST, PARSE_ERROR, Rpc, RpcError, RpcRequest
from interlock.ports.process import LineTooLong

pytestmark = pytest.mark.anyio
REQUEST = b'{"jsonrpc":"2.0","id":7,"method":"ping"}'


class Lines:
    """A peer that sends these lines, and keeps what is written to it."""

    def __init__(self, *lines: bytes | LineTooLong) -> None:
        self._waiting = list(lines)
        self.written: list[Any] = []

    async def write(self, data: bytes) -> None:
        self.written.append(json.loads(data))

    def lines(self) -> AsyncIterator[bytes]:
        return self

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self._waiting:
            raise StopAsyncIteration
        line = self._waiting.pop(0)
        if isinstance(line, LineTooLong):
            raise line
        return line


async def asked_of(peer: Lines, *, serves: bool) -> list[RpcRequest]:
    asked: list[RpcRequest] = []

    async def ask(request: RpcRequest) -> None:
        asked.append(request)

    async def notify(_method: str, _params: bytes) -> None:
        raise AssertionError("nothing is notified here")

    await Rpc(peer, notify, ask, serves=serves).run()
    return asked


@pytest.mark.req("O-1")
@pytest.mark.parametrize(("line", "code", "sentence"), [
    (b"not json", PARSE_ERROR, "This is not JSON: "), (b"\xff\xfe", PARSE_ERROR, "This is not JSON: "),
    (b'{"params":' + b"[" * 100_000, PARSE_ERROR, "This is not JSON: "),
    (b"[1]", INVALID_REQUEST, "not a message of JSON-RPC 2.0"),
    (b'{"id":{},"method":"x"}', INVALID_REQUEST, "not a message of JSON-RPC 2.0"),
    (LineTooLong(32), INVALID_REQUEST, "The message is longer than 32 bytes. Send less in one."),
])
async def test_a_client_is_answered_if_its_line_cannot_be_read(
    line: bytes | LineTooLong, code: int, sentence: str
) -> None:
    peer = Lines(line, b"", REQUEST)

    asked = await asked_of(peer, serves=True)

    assert [one.request_id for one in asked] == [7]
    (answer,) = peer.written
    assert (answer["id"], answer["error"]["code"]) == (None, code)
    assert sentence in answer["error"]["message"]


@pytest.mark.req("O-1")
async def test_an_error_without_a_request_is_not_answered() -> None:
    peer = Lines(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"not JSON"}}', REQUEST)
    assert len(await asked_of(peer, serves=True)) == 1
    assert peer.written == [], "two ends that answered each other's errors would never stop"


@pytest.mark.req("A-8")
async def test_agent_output_that_is_not_a_message_is_ignored() -> None:
    peer = Lines(b"Loading the model", b"[1]", LineTooLong(32), REQUEST)
    assert len(await asked_of(peer, serves=False)) == 1
    assert peer.written == []


UNREAD = [(b'{"a":"\xff"}', "is not UTF-8 at byte "), (b"[" * 200 + b"]" * 200, "is nested deeper than 100 levels")]
"""Members that could be skipped but not passed on."""


@pytest.mark.req("A-8", "A-5")
@pytest.mark.parametrize(("value", "why"), UNREAD)
async def test_a_message_that_cannot_be_forwarded_is_refused_by_its_id(value: bytes, why: str) -> None:
    peer = Lines(b'{"method":"note","params":' + value + b"}", b'{"id":5,"method":"ask","params":' + value + b"}",
                 REQUEST)
    assert [one.request_id for one in await asked_of(peer, serves=False)] == [7]
    (answer,) = peer.written
    assert (answer["id"], answer["error"]["code"]) == (5, INVALID_REQUEST)
    assert why in answer["error"]["message"]


class Replying(Lines):
    """A peer that answers every request with this line."""

    def __init__(self, line: bytes) -> None:
        super().__init__()
        self._line = line
        self._asked = asyncio.Event()

    async def write(self, data: bytes) -> None:
        self._asked.set()

    async def __anext__(self) -> bytes:
        await self._asked.wait()
        self._asked.clear()
        return self._line


@pytest.mark.req("A-8")
@pytest.mark.parametrize(("value", "why"), UNREAD)
async def test_an_answer_that_cannot_be_forwarded_becomes_an_error(value: bytes, why: str) -> None:
    async def ignore(*_: Any) -> None:
        return

    rpc = Rpc(Replying(b'{"id":1,"result":' + value + b"}"), ignore, ignore)
    reading = asyncio.create_task(rpc.run())
    with pytest.raises(RpcError, match=why):
        await rpc.request("session/prompt", {})
    assert rpc.garbage == 1
    reading.cancel()
