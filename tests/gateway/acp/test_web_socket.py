"""A WebSocket as pipes: a message for each line, and the close code states the reason (O-7)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from interlock.gateway.acp import web_socket
from interlock.gateway.acp.web_socket import TOO_LONG, WebSocketPipes
from interlock.gateway.rest.socket import BAD_REQUEST, STALLED
from interlock.protocol.limits import MAX_MESSAGE_BYTES

pytestmark = [pytest.mark.anyio, pytest.mark.req("O-7")]


class Client:
    """The messages it sends and has received; `fails` is raised in place of a delivery."""

    def __init__(self, *messages: dict[str, Any], fails: Exception | None = None) -> None:
        self.messages, self.fails = list(messages), fails
        self.received: list[str] = []
        self.pipes = WebSocketPipes(self._receive, self._send)

    async def _receive(self) -> dict[str, Any]:
        return self.messages.pop(0)

    async def _send(self, message: Any) -> None:
        if self.fails is not None:
            raise self.fails
        self.received.append(message["text"])


def text(value: str) -> dict[str, Any]:
    return {"type": "websocket.receive", "text": value}


async def test_messages_are_lines_until_the_client_leaves() -> None:
    client = Client(text("one"), text("two"), {"type": "websocket.disconnect"})

    assert [line async for line in client.pipes.lines()] == [b"one", b"two"]
    assert (client.pipes.over.is_set(), client.pipes.code) == (True, None)


@pytest.mark.parametrize(("message", "code"), [
    ({"type": "websocket.receive", "bytes": b"x"}, BAD_REQUEST), (text("é" * (MAX_MESSAGE_BYTES // 2 + 1)), TOO_LONG)],
    ids=["bytes", "too long"])
async def test_a_malformed_message_ends_the_connection_with_its_code(message: dict[str, Any], code: int) -> None:
    client = Client(message, text("after"))

    assert [line async for line in client.pipes.lines()] == []
    assert client.pipes.code == code


async def test_each_line_is_sent_as_a_message_of_its_own() -> None:
    client = Client()

    await client.pipes.write(b"one\ntwo\n")

    assert client.received == ["one", "two"]


async def test_a_departed_client_breaks_the_pipe_and_is_not_written_to_again() -> None:
    client = Client(fails=OSError())
    with pytest.raises(BrokenPipeError, match="has left"):
        await client.pipes.write(b"one\n")
    client.fails = None
    with pytest.raises(BrokenPipeError, match="is over"):
        await client.pipes.write(b"two\n")

    assert (client.received, client.pipes.code) == ([], None)


async def test_a_client_that_reads_nothing_is_disconnected_as_stalled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_socket, "SEND_STALL_S", 0.01)
    never = asyncio.Event()

    async def stuck(_message: Any) -> None:
        await never.wait()

    pipes = WebSocketPipes(Client()._receive, stuck)  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(BrokenPipeError, match="too slowly"):
        await pipes.write(b"one\n")

    assert (pipes.code, pipes.over.is_set()) == (STALLED, True)
