"""What ends a link from the gateway's side: a close code with its reason."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from interlock.gateway.outflow import LinkClosed
from interlock.protocol.codes import Code
from interlock.protocol.refusals import CLOSE, LinkRefusal, reason


class Closing(Exception):
    """The link is to be closed with a code and one sentence."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence


def refused(code: Code, detail: str) -> Closing:
    """Make the close of a link that is refused, which the runner can show to a person (W-2)."""
    return Closing(CLOSE[code], reason(LinkRefusal(code, detail)))


async def next_message(receive: Callable[[], Awaitable[MutableMapping[str, Any]]]) -> bytes:
    """Take the next text message. Raises LinkClosed, and Closing for another kind of message."""
    message = await receive()
    if message["type"] == "websocket.disconnect":
        raise LinkClosed
    text = message.get("text")
    if text is None:
        raise Closing(1003, "frames are text messages")
    return str(text).encode()
